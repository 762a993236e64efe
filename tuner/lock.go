package tuner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockName is the file whose lock says that a run measures with this store. It is never removed.
const lockName = "tune.lock"

// lock makes this the only run that measures with its store: two at once would measure each other. The operating
// system drops the lock when the process ends, however it ends.
func (r *tune) lock() (unlock func(), err error) {
	if r.store == nil {
		return func() {}, nil
	}
	path := filepath.Join(r.tuner.opt.Store, lockName)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
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
	return func() { file.Close() }, nil
}
