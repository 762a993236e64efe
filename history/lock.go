package history

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// How long a waiter sleeps between two tries for the lock: short at first, because a transaction takes a third of a
// millisecond.
const (
	lockFirstWait = 50 * time.Microsecond
	lockLastWait  = 500 * time.Microsecond
)

// acquire takes the exclusive lock on the file at path, which is made if create is set. It returns a nil file and no
// error where the file is missing and must not be made: nobody writes there. Close releases the lock; the file is
// never removed, because a lock on a removed file excludes nobody.
func acquire(ctx context.Context, path string, timeout time.Duration, create bool) (*os.File, error) {
	deadline := time.Now().Add(timeout)
	for wait := lockFirstWait; ; wait = min(2*wait, lockLastWait) {
		file, err := tryLock(path, create)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) {
			return file, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%w by another process for %s", ErrBusy, timeout)
		}
		if err := sleep(ctx, wait/2+rand.N(wait)); err != nil {
			return nil, err
		}
	}
}

// tryLock locks the file at path, or fails with EWOULDBLOCK.
func tryLock(path string, create bool) (*os.File, error) {
	flags := os.O_RDONLY // flock asks for no write access, so a read-only mount can be locked too
	if create {
		flags = os.O_RDWR | os.O_CREATE
	}
	file, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) && !create {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := flock(file); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return file, nil
}

// flock locks file and makes sure that it still stands under its name.
func flock(file *os.File) error {
	err := unix.EINTR
	for err == unix.EINTR {
		err, _ = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB).(unix.Errno)
	}
	if err != 0 {
		return err
	}
	held, err1 := file.Stat()
	named, err2 := os.Stat(file.Name())
	if err1 != nil || err2 != nil || !os.SameFile(held, named) {
		return unix.EWOULDBLOCK // somebody removed it in between: try again with the new one
	}
	return nil
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
