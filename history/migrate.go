package history

import (
	"context"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

// migrations are the steps from each version to the next. A step may run twice.
var migrations = map[Format]func(*bolt.Tx) error{
	FormatV1: migrateV1,
}

// migrateTo brings an open database to the version that this build writes.
func migrateTo(tx *bolt.Tx, st *state) error {
	for st.schema < uint64(FormatNewest) {
		step, ok := migrations[Format(st.schema)]
		if !ok {
			return fmt.Errorf("%w: format %d was never written", ErrCorrupt, st.schema)
		}
		if err := step(tx); err != nil {
			return err
		}
		st.schema++
	}
	st.minReader = uint64(FormatOldestReader)
	return st.write(tx)
}

// migrate brings the database to the version that this build writes, on a copy that is verified and then takes its
// place. The old one stays as the newest backup. The caller holds the lock.
func (s *Store) migrate(ctx context.Context, old state) (state, error) {
	ctx = context.WithoutCancel(ctx) // what is half done is done again from the beginning
	temp := s.databasePath() + newSuffix
	if err := s.copyDatabase(ctx, temp); err != nil {
		return old, err
	}
	var now state
	seen := s.lastSeen()
	err := guard{temp, false, 0, longUse}.run(ctx, func(db *bolt.DB) error {
		return db.Update(func(tx *bolt.Tx) (err error) {
			if now, err = readState(tx); err != nil {
				return err
			}
			if err := verifyAll(tx, now); err != nil {
				return err
			}
			now.generation = max(now.generation, seen) + 1
			return migrateTo(tx, &now)
		})
	})
	if err == nil {
		_, err = preflight(temp)
	}
	if err == nil {
		err = s.keepAsBackup(ctx)
	}
	if err == nil {
		err = renameDurably(temp, s.databasePath())
	}
	if err != nil {
		os.Remove(temp)
		return old, err
	}
	s.warn(fmt.Errorf("history: %s: brought from format %d to %d; the old one is %s", s.databasePath(), old.schema, now.schema, backupName))
	return now, nil
}

// keepAsBackup makes the database itself the newest backup, under a second name.
func (s *Store) keepAsBackup(ctx context.Context) error {
	temp := s.path(backupName + newSuffix)
	os.Remove(temp) // a leftover
	if err := os.Link(s.databasePath(), temp); err != nil {
		if err := copyFile(ctx, s.databasePath(), temp); err != nil {
			return err
		}
	}
	return s.rotate(temp)
}

// migrateV1 makes the bucket agg.
func migrateV1(tx *bolt.Tx) error {
	_, err := tx.CreateBucketIfNotExists(bucketAgg)
	return err
}

// verifyAll checks every value of a database.
func verifyAll(tx *bolt.Tx, st state) error {
	var records uint64
	for _, bucket := range st.buckets() {
		b := tx.Bucket(bucket)
		if b == nil {
			return fmt.Errorf("%w: bucket %s is missing", ErrCorrupt, bucket)
		}
		if string(bucket) == string(bucketMeta) {
			continue // readState has read it
		}
		err := b.ForEach(func(k, v []byte) error {
			if string(bucket) == string(bucketSample) {
				records++
			}
			return verifyIn(bucket, k, v)
		})
		if err != nil {
			return fmt.Errorf("bucket %s: %w", bucket, err)
		}
	}
	if records != st.samples {
		return fmt.Errorf("%w: %d records where %d were stored", ErrCorrupt, records, st.samples)
	}
	return nil
}
