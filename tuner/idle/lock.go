package idle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrHeld means that another background tuner works on this host.
var ErrHeld = errors.New("another background tuner works on this host")

// DefaultLock is the file that stands for this host: in /run/lock, or where there is none, in the directory for temporary
// files.
func DefaultLock() string {
	dir := "/run/lock"
	if unix.Access(dir, unix.W_OK) != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "bitnet-autotune.lock")
}

// Lock makes the caller the one background tuner of the host until it unlocks or ends, however it ends. The file stays.
func Lock(path string) (unlock func(), err error) {
	const how = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK // a pipe that another user put there is not waited for
	fd, err := unix.Open(path, how|unix.O_CREAT, 0o644)
	if errors.Is(err, unix.EACCES) { // the kernel protects another user's file in a shared directory from O_CREAT
		fd, err = unix.Open(path, how, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("idle: lock: %w", &os.PathError{Op: "open", Path: path, Err: err})
	}
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("%w: it holds %s", ErrHeld, path)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("idle: lock: %w", err)
	}
	return func() { unix.Close(fd) }, nil
}
