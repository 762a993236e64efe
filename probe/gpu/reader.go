package gpu

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// QueryError is a question about a device's memory that failed.
type QueryError struct {
	UUID string
	Code int    // NVML's
	Text string // the driver's own words
}

func (e *QueryError) Error() string {
	return fmt.Sprintf("gpu: memory of %s: %s (%d)", e.UUID, e.Text, e.Code)
}

// The ways in which a Reader has no answer of its own time.
var (
	ErrSlow          = errors.New("NVML has not answered yet")
	ErrUnknownDevice = errors.New("no such device")
)

// Lifetime is how long a Reader believes what it read, if its options do not say: at 5 questions a second NVML takes no
// time worth mentioning, and memory that was free a fifth of a second ago may be gone at any rate.
const Lifetime = 200 * time.Millisecond

// ReaderOptions is how a Reader asks. The zero value is right.
type ReaderOptions struct {
	Lifetime time.Duration // of an answer; if 0, Lifetime
	Deadline time.Duration // for a question; if 0, 10 ms, which is what a question for memory may cost its caller
}

// Reading is the memory of a device, and its use, as they were read Age ago.
type Reading struct {
	Memory
	Utilization float64 // of its multiprocessors, 0 to 1; 0 also where the driver does not tell

	Age   time.Duration
	Stale bool // older than the lifetime, since the driver fails or is slow
}

// Reader answers questions for free memory, from NVML and so without a context on the device, at most one at a time
// for each device. It is safe for concurrent use.
type Reader struct {
	session session
	opt     ReaderOptions
	now     func() time.Time

	mu      sync.Mutex
	devices map[string]*reading
	closed  bool
}

// reading is what is known of one device.
type reading struct {
	memory Memory        // zero before the first answer
	used   float64       // utilisation
	at     time.Time     // of it
	fresh  bool          // it may be believed for its lifetime
	drops  int           // how often an answer was dropped
	err    error         // of the last question
	asking chan struct{} // closed when the question that is under way is answered; nil if none is
}

// NewReader opens NVML. Its error is why there is none.
func NewReader(opt ReaderOptions) (*Reader, error) {
	s, err := connect()
	if err != nil {
		return nil, fmt.Errorf("gpu: %w", err)
	}
	return newReader(s, opt), nil
}

func newReader(s session, opt ReaderOptions) *Reader {
	if opt.Lifetime == 0 {
		opt.Lifetime = Lifetime
	}
	if opt.Deadline == 0 {
		opt.Deadline = 10 * time.Millisecond
	}
	r := &Reader{session: s, opt: opt, now: time.Now, devices: map[string]*reading{}}
	for _, uuid := range s.uuids() {
		r.devices[uuid] = new(reading)
	}
	return r
}

// UUIDs lists the devices.
func (r *Reader) UUIDs() []string {
	var list []string
	for uuid := range r.devices {
		list = append(list, uuid)
	}
	slices.Sort(list)
	return list
}

// Memory returns the memory of a device, read within the lifetime if that is possible. If it is not, the error says why:
// a *QueryError, or ErrSlow after the deadline, since a call of C cannot be stopped. The last answer, if there ever was
// one, comes with it, marked as stale.
func (r *Reader) Memory(uuid string) (Reading, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.devices[uuid]
	if !ok {
		return Reading{}, fmt.Errorf("gpu: memory of %q: %w: NVML has %q", uuid, ErrUnknownDevice, r.UUIDs())
	}
	if d.fresh && r.now().Sub(d.at) <= r.opt.Lifetime {
		return r.reading(d), nil
	}
	if r.closed {
		return r.reading(d), fmt.Errorf("gpu: memory of %s: the reader is closed", uuid)
	}
	if d.asking == nil {
		d.asking = make(chan struct{})
		go r.ask(uuid, d, d.drops)
	}
	asked := d.asking
	r.mu.Unlock()
	timer := time.NewTimer(r.opt.Deadline)
	defer timer.Stop()
	answered := true
	select {
	case <-asked:
	case <-timer.C:
		answered = false
	}
	r.mu.Lock()
	if !answered && d.asking == asked {
		return r.reading(d), fmt.Errorf("gpu: memory of %s: %w, after %v", uuid, ErrSlow, r.opt.Deadline)
	}
	return r.reading(d), d.err
}

// ask puts the question; a failure drops the answer before. What was dropped while it was under way is not believed.
func (r *Reader) ask(uuid string, d *reading, drops int) {
	m, used, err := r.session.memory(uuid)
	r.mu.Lock()
	defer r.mu.Unlock()
	d.err, d.fresh = err, err == nil && d.drops == drops
	if err == nil {
		d.memory, d.used, d.at = m, used, r.now()
	}
	close(d.asking)
	d.asking = nil
	if r.closed {
		r.closeIdle()
	}
}

// reading is called with mu held.
func (r *Reader) reading(d *reading) Reading {
	if d.at.IsZero() {
		return Reading{Stale: true}
	}
	age := r.now().Sub(d.at)
	return Reading{Memory: d.memory, Utilization: d.used, Age: age, Stale: !d.fresh || age > r.opt.Lifetime}
}

// Utilization is how much the most used of all devices is used, 0 to 1. A device that fails or is slow counts as it last did.
func (r *Reader) Utilization() float64 {
	most := 0.0
	for uuid := range r.devices {
		reading, _ := r.Memory(uuid) // the last reading goes with the error
		most = max(most, reading.Utilization)
	}
	return most
}

// Drop makes the next questions go to the driver: after an allocation, or when somebody else's is suspected.
func (r *Reader) Drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.devices {
		d.fresh = false
		d.drops++
	}
}

// Close ends the connection, as soon as no question is under way.
func (r *Reader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		r.closeIdle()
	}
}

// closeIdle is called with mu held.
func (r *Reader) closeIdle() {
	for _, d := range r.devices {
		if d.asking != nil {
			return
		}
	}
	r.session.close()
}
