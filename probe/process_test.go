package probe

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// files makes a tree of names and texts.
func files(pairs ...string) fstest.MapFS {
	tree := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		tree[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return tree
}

var twoNodes = []string{
	"sys/devices/system/cpu/online", "0-3", "sys/devices/system/node/online", "0-1",
	"sys/devices/system/node/node0/cpulist", "0-1", "sys/devices/system/node/node1/cpulist", "2-3",
	"proc/42/cmdline", "llama-server\x00--threads\x008\x00", "proc/42/status", "Name:\tx\nCpus_allowed_list:\t2-3\n",
	"proc/42/cgroup", "0::/box\n", "proc/self/cgroup", "0::/\n", "proc/self/status", "Cpus_allowed_list:\t0-3\n",
	"proc/self/mountinfo", "35 23 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
	"sys/fs/cgroup/box/cpu.max", "150000 100000", "sys/fs/cgroup/box/cpu.stat", "usage_usec 5\nnr_periods 100\nnr_throttled 7\n",
	"sys/fs/cgroup/cpu.stat", "usage_usec 50\nnr_periods 0\nnr_throttled 0\n",
	"proc/42/numa_maps", "00400000 default file=/x mapped=3 N0=2 N1=1 kernelpagesize_kB=4\n7f0000 default anon=2 dirty=2 N1=2 kernelpagesize_kB=2048\nrubbish N=1 Nx=3 N9=y\n",
}

func TestReadProcess(t *testing.T) {
	got, err := ReadProcess(files(twoNodes...), 42)
	if err != nil {
		t.Fatal(err)
	}
	want := Process{Args: []string{"llama-server", "--threads", "8"}, NodeBytes: map[int]uint64{0: 8 << 10, 1: 4<<10 + 4<<20}, Nodes: []int{1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := ReadProcess(files(twoNodes...), 43); err == nil {
		t.Error("a process that is not there was described")
	}
}

// A host looks different from inside another process's control group.
func TestOfProcess(t *testing.T) {
	h, err := Read(OfProcess(files(twoNodes...), 42), Inputs{Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	if h.Cgroup.QuotaCPUs != 1.5 || h.CPU.UsableCores != 1 || !cmp.Equal(h.CPU.CPUs, []int{2, 3}) {
		t.Errorf("quota %v, %d usable cores of CPUs %v; want 1.5, 1 of [2 3]", h.Cgroup.QuotaCPUs, h.CPU.UsableCores, h.CPU.CPUs)
	}
	own, err := Read(files(twoNodes...), Inputs{Arch: "amd64"})
	if err != nil || own.Cgroup.QuotaCPUs != 0 || own.CPU.UsableCores != 4 {
		t.Errorf("own: quota %v, %d usable cores, %v; want none and 4", own.Cgroup.QuotaCPUs, own.CPU.UsableCores, err)
	}
}

func TestReadThrottling(t *testing.T) {
	if got := MostThrottled(nil, ReadThrottling(OfProcess(files(twoNodes...), 42))); got != (Throttling{100, 7}) {
		t.Errorf("%+v; want 7 of 100 periods", got)
	}
	if got := ReadThrottling(files(twoNodes...)); len(got) > 0 {
		t.Errorf("%+v of a group without a quota", got)
	}
}

// The counters of one group say nothing of another's: the group that is throttled most may be another one later.
func TestMostThrottled(t *testing.T) {
	before := map[string]Throttling{"outer": {1000, 10}, "inner": {40, 9}}
	for name, test := range map[string]struct {
		now  map[string]Throttling
		want Throttling
	}{
		"another group leads": {map[string]Throttling{"outer": {1010, 10}, "inner": {50, 12}}, Throttling{10, 3}},
		"nothing happened":    {before, Throttling{}},
		"a group made anew":   {map[string]Throttling{"inner": {5, 1}}, Throttling{5, 1}},
		"a group that is new": {map[string]Throttling{"outer": {1010, 10}, "new": {8, 2}}, Throttling{8, 2}},
		"no group":            {nil, Throttling{}},
	} {
		if got := MostThrottled(before, test.now); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestReadOverheating(t *testing.T) {
	if n, ok := ReadOverheating(files(append(twoNodes, "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "3", "sys/devices/system/cpu/cpu2/thermal_throttle/core_throttle_count", "4")...)); n != 7 || !ok {
		t.Errorf("%d, %v; want 7", n, ok)
	}
	if n, ok := ReadOverheating(files(twoNodes...)); n != 0 || ok {
		t.Errorf("%d, %v; want unknown", n, ok)
	}
}
