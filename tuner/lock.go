package tuner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockName is the file whose lock says that a run measures with this store. It is never removed.
const lockName = "tune.lock"

// lock makes this the only run that measures in this process and with its store: two at once would measure each other.
// The operating system drops the file's lock when the process ends, however it ends. Nothing is created where there is
// no store yet and the run keeps nothing.
func (r *tune) lock() (unlock func(), err error) {
	if !r.tuner.measuring.TryLock() {
		return nil, fmt.Errorf("%w in this process", ErrBusy)
	}
	file, err := r.lockStore()
	if err != nil {
		r.tuner.measuring.Unlock()
		return nil, err
	}
	return func() {
		if file != nil {
			file.Close()
		}
		r.tuner.measuring.Unlock()
	}, nil
}

func (r *tune) lockStore() (*os.File, error) {
	if r.tuner.opt.Store == "" {
		return nil, nil
	}
	flags := os.O_RDONLY
	if r.store != nil {
		flags = os.O_CREATE | os.O_RDWR
	}
	file, err := os.OpenFile(filepath.Join(r.tuner.opt.Store, lockName), flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) && r.store == nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("%w with %s; wait for it or name another --store", ErrBusy, r.tuner.opt.Store)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
