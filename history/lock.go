package history

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// fileLock is an exclusive lock between processes: flock(2) on a file that is never removed, because a lock on a
// removed file excludes nobody.
type fileLock struct {
	path   string
	create bool          // make the file if it is missing
	queued chan struct{} // holds one token while a goroutine waits in the kernel
}

func newFileLock(path string, create bool) *fileLock {
	return &fileLock{path: path, create: create, queued: make(chan struct{}, 1)}
}

// pollEvery is how often a lock is tried where waiting in the kernel is not possible.
const pollEvery = time.Millisecond

// acquire takes the lock; closing the file releases it. The file is nil where it is missing and must not be made:
// nobody writes there. Who must wait waits in the kernel, which is fair; polling lets a process that locks in a loop
// keep others out for a tenth of a second. Such a wait cannot be interrupted: when ctx or the timeout ends first, the
// goroutine stays until the lock is free and gives it back at once. Until then later calls poll, so that there is
// never more than one.
func (l *fileLock) acquire(ctx context.Context, timeout time.Duration) (*os.File, error) {
	file, err := l.try(ctx, unix.LOCK_NB)
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return file, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w by another process for %s", ErrBusy, timeout))
	defer cancel()
	select {
	case l.queued <- struct{}{}:
		return l.queue(ctx)
	default:
		return l.poll(ctx)
	}
}

// outcome is how waiting for a lock ended.
type outcome struct {
	file *os.File
	err  error
}

// queue waits for the lock in the kernel.
func (l *fileLock) queue(ctx context.Context) (*os.File, error) {
	got := make(chan outcome)
	go func() {
		file, err := l.try(ctx, 0)
		<-l.queued
		select {
		case got <- outcome{file, err}:
		case <-ctx.Done():
			file.Close() // of nil is an error that changes nothing
		}
	}()
	select {
	case o := <-got:
		return o.file, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// poll tries the lock now and then.
func (l *fileLock) poll(ctx context.Context) (*os.File, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if file, err := l.try(ctx, unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			return file, err
		}
	}
}

// try opens and locks the file, with LOCK_NB as mode or 0 to wait, until it holds the one that stands under the name.
func (l *fileLock) try(ctx context.Context, mode int) (*os.File, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		file, err := l.open()
		if file == nil {
			return nil, err
		}
		if err := flock(file, unix.LOCK_EX|mode); err != nil {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", l.path, err)
		}
		held, err1 := file.Stat()
		named, err2 := os.Stat(l.path)
		if err1 == nil && err2 == nil && os.SameFile(held, named) {
			return file, nil
		}
		file.Close()
		if err := errors.Join(err1, err2); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// open returns the file, nil and no error where it is missing and must not be made.
func (l *fileLock) open() (*os.File, error) {
	if l.create {
		return os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o600)
	}
	file, err := os.Open(l.path) // flock asks for no write access, so a read-only mount can be locked too
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return file, err
}

// flock is flock(2), begun again when a signal interrupts it.
func flock(file *os.File, how int) error {
	for {
		if err := unix.Flock(int(file.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}
