package probe

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// liveAffinity returns the CPUs that the main thread may run on; nil where the kernel does not tell. The main thread
// is asked because the calling one may be a pinned worker.
func liveAffinity() []int {
	set := unix.NewCPUSet(maxCPU + 1)
	if unix.SchedGetaffinityDynamic(os.Getpid(), set) != nil {
		return nil
	}
	var cpus []int
	for cpu := range maxCPU + 1 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// pin ties the calling goroutine to a thread and that thread to a CPU. There is no way back: the thread ends with the
// goroutine.
func pin(cpu int) error {
	if cpu < 0 || cpu > maxCPU {
		return fmt.Errorf("pin thread: CPU %d: want 0 to %d", cpu, maxCPU)
	}
	runtime.LockOSThread()
	set := unix.NewCPUSet(maxCPU + 1)
	set.Set(cpu)
	if err := unix.SchedSetaffinityDynamic(0, set); err != nil {
		return fmt.Errorf("pin thread to CPU %d: %w", cpu, err)
	}
	return nil
}
