package kernels

import (
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func affinity(t *testing.T, thread int) []int {
	t.Helper()
	set := unix.NewCPUSet(maxCPUs)
	if err := unix.SchedGetaffinityDynamic(thread, set); err != nil {
		t.Fatal(err)
	}
	var list []int
	for cpu := range maxCPUs {
		if set.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	return list
}

func TestWorkersArePinned(t *testing.T) {
	all := affinity(t, os.Getpid())
	one := all[len(all)-1]
	p, err := NewPool([]int{one, one, one})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if !p.Pinned() {
		skipWithout(t, "pinning", "this host does not let threads be pinned")
	}
	var got [3][]int
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := affinity(t, 0)
	leave := p.Enter()
	p.Run(func(worker int) { got[worker] = affinity(t, 0) })
	leave()
	for worker, cpus := range got {
		if !slices.Equal(cpus, []int{one}) {
			t.Errorf("worker %d may run on CPUs %v, want %d alone", worker, cpus, one)
		}
	}
	if after := affinity(t, 0); !slices.Equal(after, before) {
		t.Errorf("after leave the caller may run on CPUs %v, want %v as before", after, before)
	}
}

// Worker threads must not be the process's first thread. Whether one would be is the scheduler's choice; over 200 pools
// it is all but certain.
func TestWorkersLeaveTheFirstThreadAlone(t *testing.T) {
	before := affinity(t, os.Getpid())
	for range 200 {
		p, err := NewPool([]int{before[0], before[0], before[0]})
		if err != nil {
			t.Fatal(err)
		}
		p.Run(func(int) {
			if onMainThread() && !slices.Equal(affinity(t, 0), before) {
				t.Error("a worker pinned the process's first thread")
			}
		})
		p.Close()
	}
}
