package kernels

import "golang.org/x/sys/unix"

// pin binds the calling thread, which must be locked, to one CPU. restore gives it back the CPUs it had.
func pin(cpu int) (restore func() error, err error) {
	var before, only unix.CPUSet
	restore = func() error { return nil }
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return restore, err
	}
	only.Set(cpu)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return restore, err
	}
	return func() error { return unix.SchedSetaffinity(0, &before) }, nil
}
