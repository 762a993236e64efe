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
