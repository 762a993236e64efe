package idle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"
	"time"
)

// ErrSpent means that the budget of the last 24 hours has not that much left.
var ErrSpent = errors.New("the CPU time of the last 24 hours is spent")

// Ledger keeps account of the CPU time that was spent in the last 24 hours, across restarts. It is safe for concurrent use
// within a process; the host's lock keeps other processes away.
type Ledger struct {
	path  string
	limit time.Duration
	now   func() time.Time

	mu      sync.Mutex
	charges []charge
}

// charge is the CPU time that was spent or reserved in an hour.
type charge struct {
	Hour time.Time     `json:"hour"`
	Used time.Duration `json:"cpu_ns"`
}

// ledgerFile is what is kept.
type ledgerFile struct {
	Version int      `json:"version"`
	Charges []charge `json:"charges"`
}

const ledgerVersion = 1

// OpenLedger reads the account in a file, which need not exist; path "" keeps it in memory. If now is nil, time.Now. A file
// that does not parse counts as all of limit spent now, and note says so: what it held cannot be told.
func OpenLedger(path string, limit time.Duration, now func() time.Time) (l *Ledger, note string, err error) {
	if limit <= 0 {
		return nil, "", fmt.Errorf("idle: budget %v: want a positive CPU time a day such as 30m", limit)
	}
	if now == nil {
		now = time.Now
	}
	l = &Ledger{path: path, limit: limit, now: now}
	if path == "" {
		return l, "", nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("idle: budget: %w", err)
	}
	var f ledgerFile
	if err := json.Unmarshal(data, &f); err != nil || f.Version != ledgerVersion || !f.sane() {
		l.charges = []charge{{l.now().Truncate(time.Hour), limit}}
		return l, fmt.Sprintf("%s does not parse: the CPU time of 24 hours counts as spent", path), nil
	}
	l.charges = f.Charges
	return l, "", nil
}

// sane reports whether each charge can be: a negative one, or a sum that overflows, would be a budget without end.
func (f ledgerFile) sane() bool {
	left := time.Duration(math.MaxInt64 / 2) // what is charged later has room
	for _, c := range f.Charges {
		if c.Used < 0 || c.Used > left {
			return false
		}
		left -= c.Used
	}
	return true
}

// Limit is the CPU time of 24 hours.
func (l *Ledger) Limit() time.Duration { return l.limit }

// Spent is what was spent or reserved in the last 24 hours.
func (l *Ledger) Spent() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spent()
}

// Left is what may still be reserved now.
func (l *Ledger) Left() time.Duration { return max(0, l.limit-l.Spent()) }

// spent adds up what is not older than 24 hours, whole hours at a time, and drops the rest.
func (l *Ledger) spent() (sum time.Duration) {
	now := l.now()
	kept := l.charges[:0]
	for _, c := range l.charges {
		if c.Hour.After(now) { // the clock was set back
			c.Hour = now.Truncate(time.Hour)
		}
		if now.Sub(c.Hour) < 25*time.Hour { // the last minute of its hour is not yet a day ago
			sum += c.Used
			kept = append(kept, c)
		}
	}
	l.charges = kept
	return sum
}

// Reserve takes CPU time out of the budget and writes that down before it returns. settle gives back what was not used, or
// charges what was used beyond it; it is to be called once.
func (l *Ledger) Reserve(d time.Duration) (settle func(used time.Duration) error, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := l.limit - l.spent(); d > left {
		return nil, fmt.Errorf("idle: reserve %v: %w: %v of %v left", d, ErrSpent, max(0, left), l.limit)
	}
	hour := l.now().Truncate(time.Hour)
	l.add(hour, d)
	if err := l.write(); err != nil {
		l.add(hour, -d)
		return nil, err
	}
	return func(used time.Duration) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.add(hour, used-d)
		return l.write()
	}, nil
}

// add charges an hour. An hour that was dropped meanwhile is too old to count.
func (l *Ledger) add(hour time.Time, d time.Duration) {
	for i := range l.charges {
		if l.charges[i].Hour.Equal(hour) {
			l.charges[i].Used = max(0, l.charges[i].Used+d)
			return
		}
	}
	if d > 0 {
		l.charges = append(l.charges, charge{hour, d})
	}
}

func (l *Ledger) write() error {
	if l.path == "" {
		return nil
	}
	data, err := json.Marshal(ledgerFile{ledgerVersion, l.charges})
	if err != nil {
		panic("idle: an account always marshals")
	}
	if err := WriteFile(l.path, data); err != nil {
		return fmt.Errorf("idle: budget: %w", err)
	}
	return nil
}

// WriteFile replaces a file in one step: readers see the old or the new one, and so does who is killed meanwhile. There
// may be one writer at a time. What an earlier one left half written is overwritten.
func WriteFile(path string, data []byte) error {
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if bad := f.Close(); err == nil {
		err = bad
	}
	if err == nil {
		return os.Rename(next, path)
	}
	os.Remove(next)
	return err
}
