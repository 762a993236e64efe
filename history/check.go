package history

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// CheckReport is what Check found.
type CheckReport struct {
	OK       bool     `json:"ok"`
	Records  int      `json:"records"`  // intact ones
	Problems []string `json:"problems"` // what is damaged, one sentence each; empty, not null, if OK
}

// maxProblems is how many problems are spelled out; the rest is counted.
const maxProblems = 20

// Check reads everything and verifies it: the shape of the file, every checksum, key and codec, that every key is
// found by lookup, the number of records, and the snapshot against the database. It holds the lock only for a chunk
// at a time. Damage is in the report; the error is for what kept Check from looking.
//
// bbolt's own Check is not used: it can hang and end the process on just the files it is for.
func (s *Store) Check(ctx context.Context) (CheckReport, error) {
	c := check{store: s}
	if err := c.run(ctx); err != nil {
		return CheckReport{}, fmt.Errorf("history: check %s: %w", s.databasePath(), err)
	}
	problems := append([]string{}, c.database...)
	if c.more > 0 {
		problems = append(problems, fmt.Sprintf("%s: and %d more", databaseName, c.more))
	}
	if c.published != "" {
		problems = append(problems, c.published)
	}
	return CheckReport{OK: len(problems) == 0, Records: c.records, Problems: problems}, nil
}

// check is a Check under way.
type check struct {
	store     *Store
	records   int
	database  []string // problems of the database
	more      int      // problems of the database beyond maxProblems
	published string   // the problem of the snapshot
}

// problem notes a problem of the database.
func (c *check) problem(format string, args ...any) {
	if len(c.database) == maxProblems {
		c.more++
		return
	}
	c.database = append(c.database, databaseName+": "+fmt.Sprintf(format, args...))
}

// run looks at everything, and notes what keeps it from going on as a problem where that is damage.
func (c *check) run(ctx context.Context) error {
	err := c.look(ctx)
	if errors.Is(err, ErrCorrupt) {
		c.problem("%v", err)
		return nil
	}
	return err
}

// look looks at everything.
func (c *check) look(ctx context.Context) error {
	seen, err := c.metas(ctx)
	if err != nil {
		return err
	}
	before, err := c.state(ctx)
	if err != nil {
		return err
	}
	if before.generation < seen {
		c.problem("generation %d is older than %d, which it had reached: the database was rolled back", before.generation, seen)
	}
	found, err := c.bucket(ctx, bucketSample, func(key, value []byte) error {
		if _, err := decodeRecord(key, value); err != nil {
			return err
		}
		c.records++
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range before.buckets()[2:] {
		if _, err := c.bucket(ctx, name, func(key, value []byte) error { return verifyIn(name, key, value) }); err != nil {
			return err
		}
	}
	after, err := c.state(ctx)
	if err != nil {
		return err
	}
	if before.generation == after.generation && found != before.samples {
		c.problem("%d records where %d were stored", found, before.samples)
	}
	return nil
}

// metas checks that both meta pages are good: with one alone the database works, and may have lost its last commit. It
// returns the greatest generation that was seen.
func (c *check) metas(ctx context.Context) (seen uint64, err error) {
	err = c.store.exclusive(ctx, func() error {
		seen = c.store.lastSeen()
		warning, err := preflight(c.store.databasePath())
		if warning != nil {
			c.problem("%v", warning)
		}
		return err
	})
	return seen, err
}

// state reads the state and compares the snapshot with the database.
func (c *check) state(ctx context.Context) (state, error) {
	var st state
	var want *Snapshot
	err := c.store.exclusive(ctx, func() error {
		if err := c.store.view(ctx, func(tx *bolt.Tx, now state) (err error) {
			st = now
			for _, name := range now.buckets() {
				if tx.Bucket(name) == nil {
					return fmt.Errorf("%w: bucket %s is missing", ErrCorrupt, name)
				}
			}
			want, err = collect(tx, now)
			return err
		}); err != nil {
			return err
		}
		c.snapshot(st, want)
		return nil
	})
	if err != nil {
		return state{}, err
	}
	return st, nil
}

// snapshot compares the snapshot with what the database would publish. The caller holds the lock.
func (c *check) snapshot(st state, want *Snapshot) {
	have, err := ReadSnapshot(c.store.dir)
	switch {
	case errors.Is(err, ErrNoSnapshot) && st.configGeneration == 0, errors.Is(err, ErrNewer):
	case err != nil:
		c.published = fmt.Sprintf("%s: %v", snapshotName, errors.Unwrap(err))
	case have.Generation > st.generation:
		c.published = fmt.Sprintf("%s: generation %d is newer than that of the database, %d: the database was rolled back", snapshotName, have.Generation, st.generation)
	case have.Generation < st.configGeneration:
		c.published = fmt.Sprintf("%s: generation %d is older than the last change of the database, %d", snapshotName, have.Generation, st.configGeneration)
	default:
		want.Generation = have.Generation
		a, err1 := have.encode()
		b, err2 := want.encode()
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(a, b) {
			c.published = fmt.Sprintf("%s: differs from what the database holds", snapshotName)
		}
	}
}

// verifyIn checks that a value is intact and what its key in that bucket says.
func verifyIn(bucket, key, value []byte) error {
	switch string(bucket) {
	case string(bucketSample):
		_, err := decodeRecord(key, value)
		return err
	case string(bucketRun):
		return verifyRun(key, value)
	case string(bucketConfig):
		return verifyLearned(key, value)
	case string(bucketPin):
		return verifyPin(key, value)
	}
	return verifyAggregate(key, value)
}

func verifyRun(key, value []byte) error {
	var r Run
	if err := unsealJSON(key, value, &r); err != nil {
		return err
	}
	return belongs(key, binary.BigEndian.AppendUint64(nil, r.ID))
}

func verifyLearned(key, value []byte) error {
	var l Learned
	if err := unsealJSON(key, value, &l); err != nil {
		return err
	}
	own, err := l.key()
	if err != nil {
		return err
	}
	if bytes.HasSuffix(key, []byte{slotPrevious}) {
		return belongs(key, append(own, slotPrevious))
	}
	return belongs(key, append(own, slotCurrent))
}

func verifyPin(key, value []byte) error {
	var p Pin
	if err := unsealJSON(key, value, &p); err != nil {
		return err
	}
	return belongs(key, []byte(p.Model))
}

func belongs(key, own []byte) error {
	if !bytes.Equal(key, own) {
		return fmt.Errorf("%w: holds what belongs under %x", ErrCorrupt, own)
	}
	return nil
}

// bucket verifies the values of a bucket and that each is found under its key, and returns how many there are.
func (c *check) bucket(ctx context.Context, name []byte, verify func(key, value []byte) error) (seen uint64, err error) {
	var keys [][]byte
	err = c.store.scan(ctx, name, nil, nil, func(key, value []byte) error {
		seen++
		if err := verify(key, value); err != nil {
			c.problem("%s: key %x: %v", name, key, err)
		}
		if keys = append(keys, key); len(keys) < chunkKeys {
			return nil
		}
		err := c.lookup(ctx, name, keys)
		keys = nil
		return err
	})
	if err != nil {
		return seen, err
	}
	return seen, c.lookup(ctx, name, keys)
}

// lookup checks that keys which a walk has met are found from the root as well.
func (c *check) lookup(ctx context.Context, name []byte, keys [][]byte) error {
	var missing [][]byte
	err := c.store.exclusive(ctx, func() error {
		return c.store.view(ctx, func(tx *bolt.Tx, _ state) error {
			b := tx.Bucket(name)
			for _, key := range keys {
				if b.Get(key) == nil {
					missing = append(missing, key)
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	for _, key := range missing {
		c.problem("%s: key %x: not found by lookup", name, key)
	}
	return nil
}
