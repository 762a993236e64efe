package history

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Repair makes a damaged database anew: of every intact value that stands anywhere in its file, of the backups, and of
// the snapshot, which says what is current. The damaged one goes into the directory quarantine, of which the newest three
// are kept. Where another process has put it aside already, nothing more is done, and that counts as success. If only the
// snapshot is damaged it is written anew. A database that Check finds sound, or that is not a history, is left as it is,
// and that is an error.
func (s *Store) Repair(ctx context.Context) (Repaired, error) {
	done, err := s.repair(ctx)
	if err != nil {
		return done, fmt.Errorf("history: repair %s: %w", s.databasePath(), err)
	}
	return done, nil
}

func (s *Store) repair(ctx context.Context) (Repaired, error) {
	if s.opt.ReadOnly {
		return Repaired{}, ErrReadOnly
	}
	condemned, aside, err := s.condemn(ctx)
	switch {
	case errors.Is(err, errUnpublished):
		_, err := s.commit(ctx, task{verb: "repair", publish: true, slack: true}, func(w *writer) error {
			w.changed, w.state.configGeneration = true, w.state.generation+1
			return nil
		})
		return Repaired{}, err
	case condemned == nil:
		return Repaired{Path: aside}, err
	}
	defer condemned.Close()
	done, err := s.replace(ctx, condemned)
	if err == nil {
		s.sound = true
	}
	return done, err
}

// condemn returns the database, open so that no other file gets its inode, if it is damaged. If the one that this
// store found damaged has been put aside since, it returns where that one went.
func (s *Store) condemn(ctx context.Context) (condemned *os.File, aside string, err error) {
	var file *os.File
	err = s.exclusive(ctx, func() (err error) {
		if err := s.ensure(); err != nil {
			return err
		}
		if file, err = os.Open(s.databasePath()); err == nil {
			aside, err = s.suspectAside(file)
		}
		return err
	})
	if err == nil && aside == "" {
		err = s.damage(ctx)
	}
	if file != nil && (err != nil || aside != "") {
		file.Close()
		file = nil
	}
	return file, aside, err
}

// errUnpublished means that the database is sound and its snapshot is not.
var errUnpublished = errors.New("only the snapshot is damaged")

// damage returns nil if the database is damaged.
func (s *Store) damage(ctx context.Context) error {
	c := check{store: s}
	if err := c.run(ctx); err != nil {
		return err
	}
	switch {
	case len(c.database) > 0:
		return nil
	case c.published != "":
		return errUnpublished
	}
	return fmt.Errorf("nothing is wrong with it")
}

// suspectAside returns where the database that this store found damaged is, if it is not file but lies in quarantine.
func (s *Store) suspectAside(file *os.File) (string, error) {
	id, err := fstatFile(file)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	suspect := s.suspect
	s.mu.Unlock()
	if suspect == 0 || suspect == id.inode {
		return "", nil
	}
	return s.quarantined(suspect)
}

// replace rebuilds a condemned database, unless another process has done so.
func (s *Store) replace(ctx context.Context, condemned *os.File) (done Repaired, err error) {
	old, err := fstatFile(condemned)
	if err != nil {
		return done, err
	}
	err = s.exclusive(ctx, func() error {
		now, err := statFile(s.databasePath())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if now.inode != old.inode {
			if done.Path, err = s.quarantined(old.inode); err == nil && done.Path == "" {
				err = fmt.Errorf("it was replaced by another one while it was looked at: try again")
			}
			if err != nil {
				return err
			}
			return s.ensure()
		}
		if done, err = s.rebuild(ctx); err != nil {
			return err
		}
		s.drain(ctx)
		return s.publish(ctx)
	})
	return done, err
}

// rebuild makes the database anew of what is intact in it, in the backups and in the snapshot, and puts the damaged one
// aside. The caller holds the lock.
func (s *Store) rebuild(ctx context.Context) (done Repaired, err error) {
	snap, err := keptSnapshot(s.dir)
	if err != nil {
		return done, err
	}
	seen := s.lastSeen()
	temp, err := s.makeNew(ctx, func(db *bolt.DB) error {
		v := &salvaged{db: db}
		if err := v.begin(); err != nil {
			return err
		}
		for i, path := range []string{s.databasePath(), s.path(backupName), s.path(olderName)} {
			if err := v.from(ctx, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s: %w", path, err)
			}
			if i == 0 {
				done.Backup, done.Stored = -int(v.state.samples), int(v.stored)
			}
		}
		if err := v.finish(snap, seen); err != nil {
			return err
		}
		return done.count(db, v.state)
	})
	if err == nil {
		_, err = preflight(temp)
	}
	if err != nil {
		return Repaired{}, err
	}
	done.Path, err = s.swap(temp)
	return done, err
}

// count fills in what is in the new database.
func (r *Repaired) count(db *bolt.DB, st state) error {
	r.Records = int(st.samples)
	r.Backup = max(0, r.Backup+r.Records)
	r.Lost = max(0, r.Stored-r.Records)
	return db.View(func(tx *bolt.Tx) error {
		for bucket, n := range map[string]*int{string(bucketRun): &r.Runs, string(bucketPin): &r.Pins} {
			*n = tx.Bucket([]byte(bucket)).Stats().KeyN
		}
		snap, err := collect(tx, st)
		if err == nil {
			r.Learned = len(snap.Learned)
		}
		return err
	})
}

// quarantineKeeps is how many databases quarantine holds at most.
const quarantineKeeps = 3

// swap puts a complete database in place of the one that is there, which goes to quarantine. At no moment is there none,
// where the filesystem has hard links.
func (s *Store) swap(temp string) (aside string, err error) {
	if _, err := os.Lstat(s.databasePath()); errors.Is(err, fs.ErrNotExist) {
		return "", renameDurably(temp, s.databasePath())
	}
	dir := s.path(quarantineName)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if aside, err = s.asideName(); err != nil {
		return "", err
	}
	if err := os.Link(s.databasePath(), aside); err != nil {
		if err := os.Rename(s.databasePath(), aside); err != nil {
			return "", err
		}
	}
	if err := syncDir(dir); err != nil {
		return "", err
	}
	if err := renameDurably(temp, s.databasePath()); err != nil {
		return "", err
	}
	return aside, s.thinQuarantine()
}

// asideName is a name in quarantine that is not taken. Names sort by time.
func (s *Store) asideName() (string, error) {
	for {
		stamp := time.Now().UTC().Format("20060102T150405.000000000")
		path := filepath.Join(s.path(quarantineName), "history-"+stamp+".db")
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return path, nil
		} else if err != nil {
			return "", err
		}
	}
}

// thinQuarantine removes all but the newest databases from quarantine.
func (s *Store) thinQuarantine() error {
	entries, err := os.ReadDir(s.path(quarantineName))
	if err != nil {
		return err
	}
	var ours []string
	for _, entry := range entries {
		if name := entry.Name(); strings.HasPrefix(name, "history-") && strings.HasSuffix(name, ".db") {
			ours = append(ours, name)
		}
	}
	slices.Sort(ours)
	for _, name := range ours[:max(0, len(ours)-quarantineKeeps)] {
		if err := os.Remove(filepath.Join(s.path(quarantineName), name)); err != nil {
			return err
		}
	}
	return nil
}

// putAside moves a file to quarantine under its own name.
func (s *Store) putAside(path string) error {
	if err := os.Mkdir(s.path(quarantineName), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return renameDurably(path, filepath.Join(s.path(quarantineName), filepath.Base(path)))
}

// quarantined returns the path of the file of an inode in quarantine, or nothing.
func (s *Store) quarantined(inode uint64) (string, error) {
	entries, err := os.ReadDir(s.path(quarantineName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, entry := range entries {
		path := filepath.Join(s.path(quarantineName), entry.Name())
		if id, err := statFile(path); err == nil && id.inode == inode {
			return path, nil
		}
	}
	return "", nil
}
