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
// snapshot holds; it returns where the old one went. Nothing is removed. A database that Check finds sound, or that is
// not a history, is left where it is, and that is an error.
func (s *Store) Quarantine(ctx context.Context) (path string, err error) {
	if s.opt.ReadOnly {
		return "", fmt.Errorf("history: quarantine %s: %w", s.databasePath(), ErrReadOnly)
	}
	c := check{store: s}
	err = c.run(ctx)
	if err == nil && len(c.database) == 0 {
		err = fmt.Errorf("nothing is wrong with it")
	}
	if err != nil {
		return "", fmt.Errorf("history: quarantine %s: %w", s.databasePath(), err)
	}
	err = s.exclusive(ctx, func() error {
		if path, err = s.putAside(time.Now()); err != nil {
			return err
		}
		return s.create()
	})
	if err != nil {
		return path, fmt.Errorf("history: quarantine %s: %w", s.databasePath(), err)
	}
	return path, nil
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
