package kernels

import (
	"os"

	"golang.org/x/sys/unix"
)

// maxCPUs is how many CPUs a mask has room for, as many as Linux can be built for.
const maxCPUs = 8192

// pin binds the calling thread, which must be locked, to one CPU. restore gives it back the CPUs it had.
func pin(cpu int) (restore func() error, err error) {
	restore = func() error { return nil }
	before, only := unix.NewCPUSet(maxCPUs), unix.NewCPUSet(maxCPUs)
	if err := unix.SchedGetaffinityDynamic(0, before); err != nil {
		return restore, err
	}
	only.Set(cpu)
	if err := unix.SchedSetaffinityDynamic(0, only); err != nil {
		return restore, err
	}
	return func() error { return unix.SchedSetaffinityDynamic(0, before) }, nil
}

// onMainThread reports whether the calling thread is the process's first.
func onMainThread() bool { return unix.Gettid() == os.Getpid() }
