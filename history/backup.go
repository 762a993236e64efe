package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// Backup copies the database: to a file that does not exist yet, or, without a name, to history.bak, of which the one
// before stays as history.bak.1. A write makes such a copy by itself where the newest is older than Options.BackupEvery.
// A database that has not changed since the newest backup is not copied again. It returns where the newest backup is.
func (s *Store) Backup(ctx context.Context, to string) (path string, err error) {
	if s.opt.ReadOnly && to == "" {
		return "", fmt.Errorf("history: back up %s: %w", s.databasePath(), ErrReadOnly)
	}
	err = s.exclusive(ctx, func() error {
		if to == "" {
			path = s.path(backupName)
			return s.backup(ctx)
		}
		path = to
		return s.copyTo(ctx, to)
	})
	if err != nil {
		return "", fmt.Errorf("history: back up %s: %w", s.databasePath(), err)
	}
	return path, nil
}

// Upkeep is what a long use of the store ends with, and a background one does now and then: a backup, then the default
// retention.
func (s *Store) Upkeep(ctx context.Context) error {
	if _, err := s.Backup(ctx, ""); err != nil {
		return err
	}
	_, err := s.Prune(ctx, Retention{})
	return err
}

// copyTo copies the database to a new file.
func (s *Store) copyTo(ctx context.Context, to string) error {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already: name a new file", to)
	}
	if err := s.copyDatabase(ctx, to+newSuffix); err != nil {
		return err
	}
	return renameDurably(to+newSuffix, to)
}

// backup makes the newest backup, unless the database is older than it. The caller holds the lock.
func (s *Store) backup(ctx context.Context) error {
	from, err := statFile(s.databasePath())
	if err != nil {
		return err
	}
	if newest, err := statFile(s.path(backupName)); err == nil && newest.mtime >= from.mtime {
		return nil
	}
	if err := s.roomFor(s.databasePath()); err != nil {
		return err
	}
	temp := s.path(backupName + newSuffix)
	if err := s.copyDatabase(ctx, temp); err != nil {
		return err
	}
	return s.rotate(temp)
}

// rotate makes a file the newest backup.
func (s *Store) rotate(temp string) error {
	if err := os.Rename(s.path(backupName), s.path(olderName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return renameDurably(temp, s.path(backupName))
}

// copyDatabase copies the database to a file that is complete and sound once there is no error.
func (s *Store) copyDatabase(ctx context.Context, to string) error {
	err := s.use(ctx, true, longUse, func(db *bolt.DB) error {
		return db.View(func(tx *bolt.Tx) error { return writeFile(ctx, to, tx) })
	})
	if err == nil {
		var warning error
		warning, err = preflight(to)
		err = errors.Join(warning, err)
	}
	if err != nil {
		os.Remove(to)
	}
	return err
}

// writeFile writes a file from a source and waits until it is on the disk.
func writeFile(ctx context.Context, to string, from io.WriterTo) error {
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = from.WriteTo(patientWriter{ctx, file})
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// patientWriter writes until its context ends, so that a copy which nobody wants any more ends soon.
type patientWriter struct {
	ctx context.Context
	to  io.Writer
}

func (w patientWriter) Write(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.to.Write(b)
}

// backupIfDue makes a backup where the newest is too old. That none can be made keeps nobody from writing. The caller
// holds the lock.
func (s *Store) backupIfDue(ctx context.Context) {
	if s.opt.BackupEvery < 0 {
		return
	}
	last := s.created // of the database: one that is new needs no backup yet
	if info, err := os.Stat(s.path(backupName)); err == nil {
		last = info.ModTime()
	}
	if time.Since(last) < s.opt.BackupEvery {
		return
	}
	if err := s.backup(context.WithoutCancel(ctx)); err != nil { // it takes less than a second, and is due
		s.created = time.Now() // not with every write
		s.warn(fmt.Errorf("history: no backup of %s: %w", s.databasePath(), err))
	}
}

// roomFor checks that a copy of a file takes no more than half of what is free.
func (s *Store) roomFor(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	var disk unix.Statfs_t
	if unix.Statfs(s.dir, &disk) == nil && disk.Bavail*uint64(disk.Bsize) < 2*uint64(info.Size()) {
		return fmt.Errorf("%d bytes free are too few for a copy of %d", disk.Bavail*uint64(disk.Bsize), info.Size())
	}
	return nil
}

// Restored is what Restore did.
type Restored struct {
	From    string `json:"from"`
	Records int    `json:"records"`
	Aside   string `json:"aside"` // where the database that it replaced is now
}

// Restore puts a backup in place of the database, which goes to quarantine, and publishes what the backup holds. Without
// a name it takes the newest backup, or the one before if that is damaged. A backup with a single damaged value is
// refused: Repair takes what is intact from it.
func (s *Store) Restore(ctx context.Context, from string) (done Restored, err error) {
	if s.opt.ReadOnly {
		return done, fmt.Errorf("history: restore %s: %w", s.databasePath(), ErrReadOnly)
	}
	candidates := []string{from}
	if from == "" {
		candidates = []string{s.path(backupName), s.path(olderName)}
	}
	err = s.exclusive(ctx, func() error {
		var failed []error
		for _, from := range candidates {
			temp, records, err := s.prepareRestore(ctx, from)
			if err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", from, reason(err)))
				continue
			}
			done = Restored{From: from, Records: records}
			return s.install(ctx, temp, &done)
		}
		return errors.Join(failed...)
	})
	if err != nil {
		return Restored{}, fmt.Errorf("history: restore %s: %w", s.databasePath(), err)
	}
	return done, nil
}

// install puts a prepared copy in place.
func (s *Store) install(ctx context.Context, temp string, done *Restored) (err error) {
	if done.Aside, err = s.swap(temp); err != nil {
		return err
	}
	s.sound = true
	return s.publish(ctx)
}

// prepareRestore copies a backup, verifies every value of the copy, and gives it a generation that nobody has seen.
func (s *Store) prepareRestore(ctx context.Context, from string) (temp string, records int, err error) {
	temp = s.databasePath() + newSuffix
	if err := copyFile(ctx, from, temp); err != nil {
		return "", 0, err
	}
	warning, err := preflight(temp)
	if err = errors.Join(warning, err); err == nil {
		records, err = s.renew(ctx, temp)
	}
	if err != nil {
		os.Remove(temp)
	}
	return temp, records, err
}

// renew verifies a copy and raises its generation above all that were seen.
func (s *Store) renew(ctx context.Context, temp string) (records int, err error) {
	snap, err := keptSnapshot(s.dir)
	if err != nil {
		return 0, err
	}
	seen := max(snap.Generation, s.lastSeen())
	err = guard{temp, false, 0, longUse}.run(ctx, func(db *bolt.DB) error {
		return db.Update(func(tx *bolt.Tx) error {
			st, err := readState(tx)
			if err != nil {
				return err
			}
			if !st.writable() {
				return newer(st.schema)
			}
			if err := migrateTo(tx, &st); err != nil {
				return err
			}
			if err := verifyAll(tx, st); err != nil {
				return err
			}
			records = int(st.samples)
			st.generation = max(st.generation, seen) + 1
			st.configGeneration = st.generation
			return st.write(tx)
		})
	})
	return records, err
}

// copyFile copies a file and waits until it is on the disk.
func copyFile(ctx context.Context, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return writeFile(ctx, to, in)
}
