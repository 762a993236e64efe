package history

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Quarantine moves a damaged database into the directory quarantine and begins a new one, which starts with what the
// snapshot holds; it returns where the old one went. Nothing is removed. Where another process has put the damaged one
// aside already, nothing more is done, and that counts as success. A database that Check finds sound, or that is not a
// history, is left where it is, and that is an error.
func (s *Store) Quarantine(ctx context.Context) (path string, err error) {
	if s.opt.ReadOnly {
		return "", fmt.Errorf("history: quarantine %s: %w", s.databasePath(), ErrReadOnly)
	}
	condemned, path, err := s.condemn(ctx)
	if condemned != nil {
		defer condemned.Close()
		path, err = s.replace(ctx, condemned)
	}
	if err != nil {
		return path, fmt.Errorf("history: quarantine %s: %w", s.databasePath(), err)
	}
	return path, nil
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

// damage returns nil if the database is damaged.
func (s *Store) damage(ctx context.Context) error {
	c := check{store: s}
	if err := c.run(ctx); err != nil {
		return err
	}
	if len(c.database) == 0 {
		return fmt.Errorf("nothing is wrong with it")
	}
	return nil
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

// replace puts a condemned database aside and makes a new one, unless another process has done so.
func (s *Store) replace(ctx context.Context, condemned *os.File) (path string, err error) {
	old, err := fstatFile(condemned)
	if err != nil {
		return "", err
	}
	err = s.exclusive(ctx, func() error {
		now, err := statFile(s.databasePath())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if now.inode != old.inode {
			if path, err = s.quarantined(old.inode); err == nil && path == "" {
				err = fmt.Errorf("it was replaced by another one while it was looked at: try again")
			}
			if err != nil {
				return err
			}
			return s.ensure()
		}
		if _, err := keptSnapshot(s.dir); err != nil {
			return err // a new one could not be made
		}
		if path, err = s.putAside(time.Now()); err != nil {
			return err
		}
		return s.create()
	})
	return path, err
}

// quarantined returns the path of the file of an inode in quarantine, or nothing.
func (s *Store) quarantined(inode uint64) (string, error) {
	dir := filepath.Join(s.dir, quarantineName)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if id, err := statFile(path); err == nil && id.inode == inode {
			return path, nil
		}
	}
	return "", nil
}

// putAside moves the database to a name in quarantine that is not taken.
func (s *Store) putAside(now time.Time) (string, error) {
	dir := filepath.Join(s.dir, quarantineName)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	stamp := now.UTC().Format("20060102T150405")
	for n := 1; ; n++ {
		path := filepath.Join(dir, fmt.Sprintf("history-%s-%d.db", stamp, n))
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		if err := renameDurably(s.databasePath(), path); err != nil {
			return "", err
		}
		return path, syncDir(s.dir)
	}
}
