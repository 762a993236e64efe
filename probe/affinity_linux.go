package probe

import (
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// liveAffinity returns the CPUs that any thread of this process may run on; nil where the kernel does not tell. No
// single thread would do: workers are pinned, and the main thread may be one of them. The runtime's monitor thread runs
// no goroutine, so that at least one thread always has what the process was given.
func liveAffinity() []int {
	tasks, _ := os.ReadDir("/proc/self/task")
	var allowed [maxCPU + 1]bool
	set := unix.NewCPUSet(maxCPU + 1)
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil || unix.SchedGetaffinityDynamic(id, set) != nil {
			continue // the thread has ended
		}
		for cpu := range allowed {
			allowed[cpu] = allowed[cpu] || set.IsSet(cpu)
		}
	}
	return members(allowed[:])
}

// pin ties the calling goroutine to its thread and that thread to a CPU, until restore, which the same goroutine calls
// once, also after an error. A thread whose old CPUs cannot be restored stays tied, and ends with its goroutine; but the
// process's first thread never ends, so that ending alone would not do.
func pin(cpu int) (restore func(), err error) {
	runtime.LockOSThread()
	set, before := unix.NewCPUSet(maxCPU+1), unix.NewCPUSet(maxCPU+1)
	if cpu < 0 || cpu > maxCPU {
		return runtime.UnlockOSThread, fmt.Errorf("pin thread: CPU %d: want 0 to %d", cpu, maxCPU)
	}
	set.Set(cpu)
	if err = unix.SchedGetaffinityDynamic(0, before); err == nil {
		err = unix.SchedSetaffinityDynamic(0, set)
	}
	if err != nil {
		return runtime.UnlockOSThread, fmt.Errorf("pin thread to CPU %d: %w", cpu, err)
	}
	return func() {
		if unix.SchedSetaffinityDynamic(0, before) == nil {
			runtime.UnlockOSThread()
		}
	}, nil
}
