package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// What opening a store, or any use of it, can fail with.
var (
	ErrCorrupt  = errors.New("damaged")             // the file is not what was written; Repair makes a new one of what is intact
	ErrNewer    = errors.New("newer")               // update this program; what it may read it still reads
	ErrForeign  = errors.New("not a history")       // somebody else's file; nothing is done to it
	ErrBusy     = errors.New("locked")              // another process did not let go of the lock in time
	ErrReadOnly = errors.New("opened for reading")  // a write to a store that was opened with ReadOnly
	ErrConflict = errors.New("other content there") // a record with the key of a stored one, but not equal to it
)

// Options are the options of Open. The zero value works.
type Options struct {
	Timeout  time.Duration // how long a call waits for other processes; if 0, 5 s
	MaxBytes int           // how large the database may grow; if 0, 256 MiB
	ReadOnly bool          // create nothing, write nothing

	// BackupEvery is how old the newest backup may be before a write makes another. If 0, an hour; below 0, never.
	BackupEvery time.Duration
}

// Store is the history in one directory. It is safe for concurrent use, by many goroutines and many processes, and
// holds nothing open between calls.
type Store struct {
	dir string
	opt Options

	turn chan struct{} // one goroutine at a time
	lock *fileLock     // one process at a time

	// These belong to who has the turn.
	held    *os.File  // the lock, while this store holds it
	created time.Time // when the database was made, for the age of backups
	slack   int       // bytes beyond Options.MaxBytes that the task may take

	mu       sync.Mutex
	warnings []error
	damaged  fileID // the database that made bbolt panic or hang: it is not mapped again
	vetted   fileID // the database that preflight found sound, or what this store made of it since
	suspect  uint64 // inode of the database that was damaged when it was last opened, or 0
	sound    bool   // it was opened without damage once, so it is a history, and damage that comes later is repaired
}

// Open returns the store in dir. Unless opt.ReadOnly is set it makes the directory (mode 0700) and the database if
// they are absent, and writes the snapshot anew if it is behind the database. A missing database with ReadOnly is an
// error that wraps fs.ErrNotExist.
//
// A database of an earlier version is brought to this one; the one it was made of stays as the newest backup.
//
// With two errors the store comes along: one that wraps ErrCorrupt, so that Repair can be called, and one that wraps
// ErrNewer when the database may still be read.
func Open(dir string, opt Options) (*Store, error) {
	if opt.Timeout == 0 {
		opt.Timeout = 5 * time.Second
	}
	if opt.MaxBytes == 0 {
		opt.MaxBytes = 256 << 20
	}
	if opt.BackupEvery == 0 {
		opt.BackupEvery = time.Hour
	}
	s := &Store{dir: dir, opt: opt, turn: make(chan struct{}, 1), lock: newFileLock(filepath.Join(dir, lockName), !opt.ReadOnly)}
	if err := s.prepare(); err != nil {
		return nil, fmt.Errorf("history: open %s: %w", dir, unwritable(err))
	}
	s.warn(networkWarning(dir))
	var st state
	err := s.exclusive(context.Background(), func() (err error) {
		st, err = s.start(context.Background())
		return err
	})
	switch {
	case errors.Is(err, ErrCorrupt):
		return s, fmt.Errorf("history: open %s: %w; learned configs stay in use; a repair keeps what is intact", s.databasePath(), err)
	case errors.Is(err, ErrNewer) && st.schema > 0 && st.readable():
		if opt.ReadOnly {
			return s, nil
		}
		s.opt.ReadOnly = true
		return s, fmt.Errorf("history: open %s: %w; until then it is only read", s.databasePath(), err)
	case err != nil:
		return nil, fmt.Errorf("history: open %s: %w", s.databasePath(), unwritable(err))
	}
	s.sound = true
	return s, nil
}

// maxWarnings is how many warnings are kept; the oldest go first.
const maxWarnings = 64

// Warnings returns, a line each, what is doubtful about the store though it works (a network filesystem, a rollback
// that was seen, a damaged spare page), and what it did to go on working: a repair, a migration, records put into the
// spool or taken from it.
func (s *Store) Warnings() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]error(nil), s.warnings...)
}

// warn adds a warning unless it is nil or there already.
func (s *Store) warn(warning error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if warning == nil {
		return
	}
	for _, old := range s.warnings {
		if old.Error() == warning.Error() {
			return
		}
	}
	s.warnings = append(s.warnings, warning)
	s.warnings = s.warnings[max(0, len(s.warnings)-maxWarnings):]
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }
func (s *Store) databasePath() string    { return s.path(databaseName) }

// prepare makes sure that dir is a directory.
func (s *Store) prepare() error {
	info, err := os.Stat(s.dir)
	if errors.Is(err, fs.ErrNotExist) && !s.opt.ReadOnly {
		return os.MkdirAll(s.dir, 0o700)
	}
	if err == nil && !info.IsDir() {
		return fmt.Errorf("it is a file: want a directory")
	}
	return err
}

// reason drops the operation and the path from an error of package os where the message names them already.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// unwritable is reason with advice where the directory cannot be written.
func unwritable(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return fmt.Errorf("%w: choose a directory that can be written", reason(err))
	}
	return reason(err)
}

// exclusive runs fn while no other goroutine and no other process uses the database.
func (s *Store) exclusive(ctx context.Context, fn func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timeout := time.NewTimer(s.opt.Timeout)
	defer timeout.Stop()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-timeout.C:
		return fmt.Errorf("%w by this process for %s", ErrBusy, s.opt.Timeout)
	case <-ctx.Done():
		return ctx.Err()
	}
	lock, err := s.lock.acquire(ctx, s.opt.Timeout)
	if err != nil {
		return err
	}
	if lock != nil {
		defer lock.Close()
	}
	s.held = lock
	defer func() { s.held = nil }()
	return fn()
}

// open is use for what is short.
func (s *Store) open(ctx context.Context, readOnly bool, fn func(*bolt.DB) error) error {
	return s.use(ctx, readOnly, useLimit, fn)
}

// use runs fn on the database. The caller holds the lock. Where the error wraps errStuck, fn may still be running.
func (s *Store) use(ctx context.Context, readOnly bool, limit time.Duration, fn func(*bolt.DB) error) error {
	id, err := statFile(s.databasePath())
	if err != nil {
		return err
	}
	if err = s.vet(id); err == nil {
		if !readOnly {
			s.leaveMark(mark{generation: s.lastSeen()})
		}
		err = guard{s.databasePath(), readOnly, s.opt.MaxBytes + s.slack, limit}.run(ctx, fn)
	}
	if vetted := s.remember(id, err); vetted != (fileID{}) {
		s.leaveMark(mark{vetted, s.lastSeen()})
	}
	return err
}

// saw notes a generation that the database, which was closed in order, has reached. The caller holds the lock.
func (s *Store) saw(generation uint64) {
	if m := readMark(s.held); generation > m.generation {
		s.leaveMark(mark{m.file, generation})
	}
}

// rolledBack warns if the database is older than one that was seen under its name. The caller holds the lock.
func (s *Store) rolledBack(st state, known uint64) {
	if st.generation < known {
		s.warn(fmt.Errorf("history: %s: generation %d is older than %d, which it had reached: the database was rolled back; check --repair looks for what it lost", s.databasePath(), st.generation, known))
	}
}

// vet checks that the database, whose identity is id, can be mapped. One that was found sound by this store, or that
// another left in order, is not looked at again.
func (s *Store) vet(id fileID) error {
	s.mu.Lock()
	damaged, vetted := s.damaged == id, s.vetted == id
	s.mu.Unlock()
	switch {
	case damaged:
		return fmt.Errorf("%w: it could not be read a moment ago", ErrCorrupt)
	case vetted, readMark(s.held).file == id:
		return nil
	}
	warning, err := preflight(s.databasePath())
	s.warn(warning)
	return err
}

// remember notes what the use of the database told of it, and returns its identity if it is in order. The caller still
// holds the lock, so the file is as the use has left it. After an error other than damage it is in order if nothing was
// written.
func (s *Store) remember(id fileID, err error) (vetted fileID) {
	after, statErr := statFile(s.databasePath())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vetted, s.suspect = fileID{}, 0
	switch {
	case errors.Is(err, ErrCorrupt):
		s.suspect = id.inode
		if errors.Is(err, errFault) || errors.Is(err, errStuck) {
			s.damaged = id
		}
	case statErr == nil && !errors.Is(err, errStuck) && (err == nil || after == id):
		s.vetted = after
	}
	return s.vetted
}

// view runs fn in a read transaction. The caller holds the lock.
func (s *Store) view(ctx context.Context, fn func(*bolt.Tx, state) error) error {
	var seen uint64
	err := s.open(ctx, true, func(db *bolt.DB) error {
		return db.View(func(tx *bolt.Tx) error {
			st, err := readState(tx)
			if err != nil {
				return err
			}
			if !st.readable() {
				return newer(st.schema)
			}
			seen = st.generation
			return fn(tx, st)
		})
	})
	if err == nil {
		s.saw(seen)
	}
	return err
}

// start reads the state of the database, makes one where there is none, and mends the snapshot.
func (s *Store) start(ctx context.Context) (state, error) {
	if err := s.ensure(); err != nil {
		return state{}, err
	}
	var st state
	err := s.open(ctx, true, func(db *bolt.DB) error {
		return db.View(func(tx *bolt.Tx) (err error) {
			st, err = readState(tx)
			return err
		})
	})
	if err != nil {
		return state{}, err
	}
	if !st.writable() {
		return st, newer(st.schema)
	}
	if st.schema < uint64(FormatNewest) && !s.opt.ReadOnly {
		if st, err = s.migrate(ctx, st); err != nil {
			return st, fmt.Errorf("bring it from format %d to %d: %w", st.schema, FormatNewest, err)
		}
	}
	snap, err := keptSnapshot(s.dir)
	if err != nil && s.opt.ReadOnly {
		s.warn(err)
		return st, nil
	}
	if err != nil {
		return st, err
	}
	s.created = fromUnixNano(int64(st.created))
	s.saw(st.generation)
	s.rolledBack(st, max(snap.Generation, s.lastSeen()))
	if snap.Generation < st.configGeneration && !s.opt.ReadOnly {
		if err := s.publish(ctx); err != nil {
			s.warn(fmt.Errorf("history: %s: %w", filepath.Join(s.dir, snapshotName), err))
		}
	}
	return st, nil
}

// ensure makes the database if there is none. The caller holds the lock.
func (s *Store) ensure() error {
	_, err := os.Lstat(s.databasePath())
	if !errors.Is(err, fs.ErrNotExist) || s.opt.ReadOnly {
		return err
	}
	return s.create()
}

// create makes a database with what a snapshot still knows; without a snapshot that is there but cannot be read, a
// database would be made that knows less and whose next snapshot replaces it.
func (s *Store) create() error {
	snap, err := keptSnapshot(s.dir)
	if err != nil {
		return err
	}
	seen := s.lastSeen()
	temp, err := s.makeNew(context.Background(), func(db *bolt.DB) error {
		return db.Update(func(tx *bolt.Tx) error {
			w, err := newDatabase(tx)
			if err != nil {
				return err
			}
			if err := w.adopt(snap); err != nil {
				return err
			}
			w.state.generation = max(w.state.generation, seen)
			return w.state.write(tx)
		})
	})
	if err != nil {
		return err
	}
	return renameDurably(temp, s.databasePath())
}

// newDatabase makes the buckets of an empty database.
func newDatabase(tx *bolt.Tx) (*writer, error) {
	for _, name := range buckets {
		if _, err := tx.CreateBucket(name); err != nil {
			return nil, err
		}
	}
	return &writer{tx: tx, state: newState(time.Now())}, nil
}

// makeNew makes a database under another name, which counts once it is renamed: the first pages of a bbolt file that
// was cut off while being made cannot be opened.
func (s *Store) makeNew(ctx context.Context, fill func(*bolt.DB) error) (temp string, err error) {
	temp = s.databasePath() + newSuffix
	if err := replaceEmpty(temp); err != nil {
		return "", err
	}
	err = guard{temp, false, 0, longUse}.run(ctx, func(db *bolt.DB) error {
		db.NoSync = true // until it is complete
		if err := fill(db); err != nil {
			return err
		}
		return db.Sync()
	})
	if err != nil {
		os.Remove(temp)
		return "", err
	}
	return temp, nil
}

// replaceEmpty makes an empty file at path.
func replaceEmpty(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// renameDurably renames a file whose content is synced, and syncs the directory.
func renameDurably(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writer is a write transaction. Only what differs from what is stored counts as a change.
type writer struct {
	tx      *bolt.Tx
	state   state
	found   state // as it was read
	changed bool
}

// fillPercent is how full a page is left when it is split. 20,000 samples appended ten at a time, their settings in no
// order, lie on 1,623 leaves at 0.9 and on 2,288 at bbolt's 0.5.
const fillPercent = 0.9

// put stores a value.
func (w *writer) put(bucket, key, value []byte) error {
	b := w.tx.Bucket(bucket)
	if bytes.Equal(b.Get(key), value) {
		return nil
	}
	b.FillPercent = fillPercent
	w.changed = true
	return b.Put(key, value)
}

// task is what a commit is for.
type task struct {
	verb    string
	publish bool // the snapshot is to show it
	slack   bool // it may take an eighth more than Options.MaxBytes, at least growBytes: it is small, or makes room
}

// growBytes is the step in which bbolt lets a file grow.
const growBytes = 16 << 20

// commit runs fn in a write transaction under the lock, and raises the generation if it changed anything. What waits in
// the spool goes first. A database that was sound when it was opened and is damaged now is repaired on the way.
func (s *Store) commit(ctx context.Context, t task, fn func(*writer) error) (changed bool, err error) {
	if s.opt.ReadOnly {
		return false, fmt.Errorf("history: %s: %s: %w", t.verb, s.databasePath(), ErrReadOnly)
	}
	err = s.exclusive(ctx, func() error {
		if err := s.ensure(); err != nil {
			return err
		}
		s.drain(ctx)
		if t.slack {
			s.slack = max(s.opt.MaxBytes/8, growBytes)
		}
		defer func() { s.slack = 0 }()
		var err error
		changed, err = s.transact(ctx, fn)
		if errors.Is(err, ErrCorrupt) && !errors.Is(err, errStuck) && s.sound {
			if changed, err = s.transactRepaired(ctx, err, fn); err == nil {
				t.publish = true
			}
		}
		if err == nil && t.publish {
			err = s.publish(ctx)
		}
		if err == nil {
			s.backupIfDue(ctx)
		}
		return err
	})
	if err != nil {
		return changed, fmt.Errorf("history: %s: %s: %w", t.verb, s.databasePath(), err)
	}
	return changed, nil
}

// transactRepaired repairs the database and runs fn again. The caller holds the lock.
func (s *Store) transactRepaired(ctx context.Context, damage error, fn func(*writer) error) (bool, error) {
	done, err := s.rebuild(ctx)
	if err != nil {
		return false, fmt.Errorf("%w; repairing it: %w", damage, err)
	}
	s.warn(fmt.Errorf("history: %s: %w; %s", s.databasePath(), damage, done))
	return s.transact(ctx, fn)
}

// transact runs fn in a write transaction. The caller holds the lock. An error of the commit itself says nothing about
// whether the change is there (the write of the meta page can fail after the page reached the disk), so the file is
// opened again to see.
func (s *Store) transact(ctx context.Context, fn func(*writer) error) (bool, error) {
	known := s.lastSeen()
	var before state
	var want uint64
	var changed, unknown bool
	err := s.open(ctx, false, func(db *bolt.DB) error {
		tx, err := db.Begin(true)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		w, err := s.begin(tx, known)
		if err != nil {
			return err
		}
		before = w.found
		if err := fn(w); err != nil {
			return err
		}
		if !w.changed {
			return nil
		}
		w.state.generation++
		if err := w.state.write(tx); err != nil {
			return err
		}
		changed, unknown, want = true, true, w.state.generation
		if err := tx.Commit(); err != nil {
			return err
		}
		unknown = false
		return nil
	})
	if errors.Is(err, errStuck) {
		return false, err
	}
	if err == nil {
		s.rolledBack(before, known)
		s.saw(want)
	}
	if err == nil || !unknown {
		return changed, err
	}
	var there bool
	seen := s.view(ctx, func(_ *bolt.Tx, st state) error {
		there = st.generation == want
		return nil
	})
	switch {
	case seen != nil:
		return false, fmt.Errorf("%w; opened again to see whether it is stored: %w", err, seen)
	case there:
		return true, nil
	}
	return false, err
}

// begin reads the state, and takes over what the snapshot knows if the database is older than it. known is the greatest
// generation that was seen.
func (s *Store) begin(tx *bolt.Tx, known uint64) (*writer, error) {
	st, err := readState(tx)
	if err != nil {
		return nil, err
	}
	if !st.writable() {
		return nil, newer(st.schema)
	}
	w := &writer{tx: tx, state: st, found: st}
	w.state.generation = max(st.generation, known)
	if peekGeneration(s.dir) <= st.generation {
		return w, nil
	}
	snap, err := keptSnapshot(s.dir)
	if err != nil {
		return nil, err
	}
	if snap.Generation <= st.generation { // the header that was peeked at is damaged
		return w, nil
	}
	return w, w.adopt(snap)
}
