package tuner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockName is the file whose lock says that a run measures with this store. It is never removed.
const lockName = "tune.lock"

// lock makes this the only run that measures in this process and with its store: two at once would measure each other.
// The operating system drops the file's lock when the process ends, however it ends. Nothing is created where there is
// no store yet and the run keeps nothing.
//
// A daemon's step that holds the store gives way when it sees that a run waits.
func (r *tune) lock(ctx context.Context) (unlock func(), err error) {
	if !r.tuner.measuring.TryLock() {
		return nil, fmt.Errorf("%w in this process", ErrBusy)
	}
	file, err := r.lockStore()
	if errors.Is(err, ErrBusy) {
		file, err = r.waitForStore(ctx, err)
	}
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

// wantedName is the file whose lock says that a run waits for the store.
const wantedName = "tune.wanted"

// storePolite is how long a run waits for the store: a daemon looks once a second while its child rests, and the child is gone
// at once.
const storePolite = 2 * time.Second

// waitForStore says that a run wants the store, and takes it once whoever has it gives way. busy is the error if nobody does.
func (r *tune) waitForStore(ctx context.Context, busy error) (*os.File, error) {
	wanted, err := os.OpenFile(filepath.Join(r.tuner.opt.Store, wantedName), os.O_CREATE|os.O_RDWR, 0o644) // the daemon may be another user
	if err != nil {
		return nil, busy // a full disk, or a store that is not ours to write
	}
	defer wanted.Close()
	for end := time.Now().Add(storePolite); time.Now().Before(end) && pause(ctx, 20*time.Millisecond) == nil; {
		// Every time: a daemon that looks at this moment has it. If another run has it, it is held as well.
		_ = unix.Flock(int(wanted.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		file, err := r.lockStore()
		if !errors.Is(err, ErrBusy) {
			return file, err
		}
	}
	return nil, busy
}

// Wanted reports whether a run waits for a store that another one measures on.
func Wanted(store string) bool {
	file, err := os.Open(filepath.Join(store, wantedName))
	if err != nil {
		return false
	}
	defer file.Close()
	return errors.Is(unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
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
