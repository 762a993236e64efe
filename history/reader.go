package history

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"time"
)

// Reader loads the snapshot of a directory again and again, at the cost of a stat while it does not change. It is safe
// for concurrent use.
type Reader struct {
	// Every is how long a loaded snapshot is returned without looking at the file; a hit then takes no system call
	// and allocates nothing. If Every is 0, each Load looks. It must not be changed once Load was called.
	Every time.Duration

	path string
	last atomic.Pointer[loaded]
}

// loaded is the outcome of reading one state of the file.
type loaded struct {
	id      fileID
	at      time.Time
	settled bool // the file was old enough to be sure that a later write has another identity
	snap    *Snapshot
	err     error
}

// settleTime is how old a file must be for its identity to be trusted: timestamps of many filesystems advance with
// the kernel's tick only, so a file replaced twice within one tick can look the same.
const settleTime = 100 * time.Millisecond

// NewReader returns a reader of the snapshot in dir, which need not exist yet.
func NewReader(dir string) *Reader {
	return &Reader{path: filepath.Join(dir, snapshotName)}
}

// Load returns the snapshot as ReadSnapshot does. If the file is damaged or unreadable and an earlier one was loaded,
// that one comes along with the error.
func (r *Reader) Load() (*Snapshot, error) {
	now := time.Now()
	last := r.last.Load()
	if last != nil && r.Every > 0 && now.Sub(last.at) < r.Every {
		return last.snap, last.err
	}
	if last != nil && last.settled {
		if id, err := statFile(r.path); err == nil && id == last.id {
			if r.Every > 0 {
				again := *last
				again.at = now
				r.last.CompareAndSwap(last, &again)
			}
			return last.snap, last.err
		}
	}
	next := &loaded{at: now}
	next.snap, next.id, next.err = loadSnapshot(r.path)
	next.settled = next.id != fileID{} && now.UnixNano()-next.id.mtime > int64(settleTime)
	if next.err != nil && last != nil {
		next.snap = last.snap
	}
	r.last.Store(next)
	return next.snap, next.err
}

// Stamp tells the states of the database in dir apart at the cost of a stat, so that a reader of records need not read them
// again. It is "" where there is no database.
func Stamp(dir string) (string, error) {
	id, err := statFile(filepath.Join(dir, databaseName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return fmt.Sprintf("%x", id), err
}
