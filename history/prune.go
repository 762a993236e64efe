package history

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Retention says which records stay. The zero value is the default.
type Retention struct {
	PerCell int           // the newest records of one setting that stay; if 0, DefaultPerCell
	MaxAge  time.Duration // older ones go all the same; if 0, DefaultMaxAge
}

// The default retention.
const (
	DefaultPerCell = 64
	DefaultMaxAge  = 30 * 24 * time.Hour
)

// keptPerCell records of a setting stay however old they are: a run that is resumed after months rests on them.
const keptPerCell = 4

// Pruned is what Prune did.
type Pruned struct {
	Removed   int  `json:"removed"`
	Kept      int  `json:"kept"`
	Damaged   int  `json:"damaged"` // left where they are, and all later ones of their setting
	Compacted bool `json:"compacted"`
}

// pruneBatch is how many records one transaction looks at before it ends with the next cell, and pruneRemoves how many
// it removes at most.
const (
	pruneBatch   = 20_000
	pruneRemoves = 5_000
)

// Prune removes the records that the retention does not keep, adds them to the aggregates first, and compacts the file
// if more than half of it is free then. Records of one setting lie together by time, so they go as one range.
func (s *Store) Prune(ctx context.Context, r Retention) (done Pruned, err error) {
	if r.PerCell == 0 {
		r.PerCell = DefaultPerCell
	}
	if r.MaxAge == 0 {
		r.MaxAge = DefaultMaxAge
	}
	if r.PerCell < keptPerCell || r.MaxAge < 0 {
		return done, fmt.Errorf("history: prune: keep %d for %s: want at least %d, and no negative time", r.PerCell, r.MaxAge, keptPerCell)
	}
	oldest := time.Now().Add(-r.MaxAge)
	for from := []byte{}; from != nil; {
		var step Pruned
		var next []byte
		if _, err := s.commit(ctx, task{verb: "prune", slack: true}, func(w *writer) (err error) {
			step, next, err = w.prune(from, r.PerCell, oldest)
			return err
		}); err != nil {
			return done, err
		}
		done.Removed, done.Kept, done.Damaged = done.Removed+step.Removed, done.Kept+step.Kept, done.Damaged+step.Damaged
		from = next
	}
	done.Compacted, err = s.compactIfHalfFree(ctx)
	return done, err
}

// prune walks cells from a key on and returns where to go on, nil at the end.
func (w *writer) prune(from []byte, perCell int, oldest time.Time) (done Pruned, next []byte, err error) {
	c := w.tx.Bucket(bucketSample).Cursor()
	seen := 0
	key, _ := c.Seek(from)
	for len(key) > sampleTailBytes {
		if seen >= pruneBatch || done.Removed >= pruneRemoves {
			return done, bytes.Clone(key), nil
		}
		cell := bytes.Clone(cellOf(key))
		var pairs []pair
		for ; key != nil && bytes.HasPrefix(key, cell) && len(key) == len(cell)+12; key, _ = c.Next() {
			pairs = append(pairs, pair{key: bytes.Clone(key)})
		}
		seen += len(pairs)
		removed, damaged, err := w.pruneCell(cell, pairs, perCell, oldest)
		if err != nil {
			return done, nil, err
		}
		done.Removed, done.Kept = done.Removed+removed, done.Kept+len(pairs)-removed
		if damaged {
			done.Damaged++
		}
		if removed == pruneRemoves { // there may be more in this cell
			done.Kept -= len(pairs) - removed
			return done, cell, nil
		}
		key, _ = c.Seek(append(bytes.Clone(cell), bytes.Repeat([]byte{0xFF}, 13)...)) // deletions have moved the cursor
	}
	return done, nil, nil
}

// pruneCell removes the oldest records of a cell. One that is damaged ends it: nothing can be said of its age, and its
// numbers would be missing.
func (w *writer) pruneCell(cell []byte, pairs []pair, perCell int, oldest time.Time) (removed int, damaged bool, err error) {
	sums := map[string]*Aggregate{}
	samples := w.tx.Bucket(bucketSample)
	for i, p := range pairs {
		left := len(pairs) - i
		if left <= keptPerCell || removed == pruneRemoves {
			break
		}
		value := samples.Get(p.key)
		r, err := decodeRecord(p.key, value)
		if err != nil {
			damaged = true
			break
		}
		if left <= perCell && !r.taken().Before(oldest) {
			break
		}
		sum, err := w.aggregate(sums, cell, r.Signature)
		if err != nil {
			return removed, false, err
		}
		sum.add(r)
		removed++
	}
	for _, p := range pairs[:removed] {
		if err := w.deleteSample(p.key); err != nil {
			return removed, damaged, err
		}
	}
	return removed, damaged, w.putAggregates(cell, sums)
}

// taken is when a record was taken, or where that is not known, when its run began.
func (r Record) taken() time.Time {
	if r.Time.IsZero() {
		return time.UnixMilli(int64(r.Run >> runIDRandomBits))
	}
	return r.Time
}

func (w *writer) deleteSample(key []byte) error {
	w.changed = true
	w.state.samples--
	return w.tx.Bucket(bucketSample).Delete(key)
}

// aggregate returns the aggregate of a cell for a signature, from those that were changed or from the database.
func (w *writer) aggregate(sums map[string]*Aggregate, cell []byte, signature string) (*Aggregate, error) {
	if sum, ok := sums[signature]; ok {
		return sum, nil
	}
	sum := &Aggregate{}
	key := aggregateKey(cell, signature)
	if old := w.tx.Bucket(bucketAgg).Get(key); old != nil {
		if err := unsealJSON(key, old, sum); err != nil {
			return nil, fmt.Errorf("aggregate %x: %w", key, err)
		}
	}
	sums[signature] = sum
	return sum, nil
}

func (w *writer) putAggregates(cell []byte, sums map[string]*Aggregate) error {
	for signature, sum := range sums {
		key := aggregateKey(cell, signature)
		value, err := sealJSON(key, sum)
		if err != nil {
			return err
		}
		if err := w.put(bucketAgg, key, value); err != nil {
			return err
		}
	}
	return nil
}

// dropCounted removes the samples that an aggregate counts: a salvage brings back what was pruned.
func (w *writer) dropCounted() error {
	return w.tx.Bucket(bucketAgg).ForEach(func(key, value []byte) error {
		var sum Aggregate
		if err := unsealJSON(key, value, &sum); err != nil {
			return nil
		}
		cell := key[:len(key)-8]
		var counted [][]byte
		c := w.tx.Bucket(bucketSample).Cursor()
		for k, v := c.Seek(cell); bytes.HasPrefix(k, cell) && len(k) == len(cell)+12; k, v = c.Next() {
			run, seq := binary.BigEndian.Uint64(k[len(cell):]), binary.BigEndian.Uint32(k[len(cell)+8:])
			if !sum.counts(run, seq) {
				break
			}
			if r, err := decodeRecord(k, v); err == nil && r.Signature == sum.Signature {
				counted = append(counted, bytes.Clone(k))
			}
		}
		for _, k := range counted {
			if err := w.deleteSample(k); err != nil {
				return err
			}
		}
		return nil
	})
}

// Compact writes the database anew without its free pages, and returns how many bytes it had and has. Once it has begun
// to copy it goes on to the end, though ctx ends.
func (s *Store) Compact(ctx context.Context) (before, after int64, err error) {
	if s.opt.ReadOnly {
		return 0, 0, fmt.Errorf("history: compact %s: %w", s.databasePath(), ErrReadOnly)
	}
	err = s.exclusive(ctx, func() error {
		was, err := statFile(s.databasePath())
		if err != nil {
			return err
		}
		if err := s.compact(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		is, err := statFile(s.databasePath())
		before, after = was.size, is.size
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("history: compact %s: %w", s.databasePath(), err)
	}
	return before, after, nil
}

// compactBytes is how much one transaction of a compaction writes.
const compactBytes = 1 << 20

// compact copies what is in use to a new file, verifies that, and puts it in place. The caller holds the lock.
func (s *Store) compact(ctx context.Context) error {
	var want, got state
	temp := ""
	err := s.use(ctx, true, longUse, func(src *bolt.DB) (err error) {
		if err := src.View(func(tx *bolt.Tx) error {
			want, err = readState(tx)
			if err == nil && !want.writable() {
				err = newer(want.schema)
			}
			return err
		}); err != nil {
			return err
		}
		temp, err = s.makeNew(ctx, func(dst *bolt.DB) error { return bolt.Compact(dst, src, compactBytes) })
		return err
	})
	if err != nil {
		return err
	}
	defer os.Remove(temp) // fails once it is in place
	if _, err = preflight(temp); err != nil {
		return err
	}
	err = guard{temp, true, 0, longUse}.run(ctx, func(db *bolt.DB) error {
		return db.View(func(tx *bolt.Tx) error {
			if got, err = readState(tx); err != nil {
				return err
			}
			return verifyAll(tx, got)
		})
	})
	if err == nil && got != want {
		err = fmt.Errorf("the copy says %+v where %+v belongs", got, want)
	}
	if err != nil {
		return err
	}
	return renameDurably(temp, s.databasePath())
}

// smallBytes is the size below which a file is not worth compacting.
const smallBytes = 1 << 20

// compactIfHalfFree compacts the database if more than half of its pages are free.
func (s *Store) compactIfHalfFree(ctx context.Context) (bool, error) {
	var due bool
	err := s.exclusive(ctx, func() error {
		free, all, err := freePages(s.databasePath())
		if err != nil {
			return err
		}
		due = 2*free > all && all*4096 > smallBytes
		return nil
	})
	if err != nil || !due {
		return false, err
	}
	_, _, err = s.Compact(ctx)
	return err == nil, err
}
