package measure

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const procStat = `cpu  1638 0 1657 285995 87 0 17 %STEAL% 0 0
cpu0 800 0 800 142000 40 0 9 5 0 0
cpu1 838 0 857 143995 47 0 8 6 0 0
intr 123456 0 0 0
ctxt 999
`

// machine builds a file system from "path: content" pairs.
func machine(steal string, files map[string]string) fstest.MapFS {
	root := fstest.MapFS{"proc/stat": {Data: []byte(strings.Replace(procStat, "%STEAL%", steal, 1))}}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

const (
	v1Quota = "nr_periods 10\nnr_throttled 3\nthrottled_time 250000000\n"
	v2Quota = "usage_usec 5\nnr_periods 10\nnr_throttled 4\nthrottled_usec 250000\n"
	v2Root  = "usage_usec 100\nuser_usec 60\nsystem_usec 40\n"
)

func TestLocalReadsTheseMachines(t *testing.T) {
	const quarter = 250 * time.Millisecond
	for _, c := range []struct {
		name  string
		files map[string]string
		want  Counters
	}{
		{"no cgroups", nil, Counters{}},
		{"version 2 in a container", map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": v2Quota},
			Counters{Throttled: 4, ThrottledTime: quarter}},
		{"version 2, quota on the slice above", map[string]string{
			"proc/self/cgroup": "0::/user.slice/app.scope\n", "sys/fs/cgroup/cpu.stat": v2Root,
			"sys/fs/cgroup/user.slice/cpu.stat": v2Quota, "sys/fs/cgroup/user.slice/app.scope/cpu.stat": v2Root},
			Counters{Throttled: 4, ThrottledTime: quarter}},
		{"version 2, two quotas", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.stat": v2Quota, "sys/fs/cgroup/a/b/cpu.stat": v2Quota},
			Counters{Throttled: 8, ThrottledTime: 2 * quarter}},
		{"version 1, controllers mounted together", map[string]string{
			"proc/self/cgroup": "5:memory:/x\n4:cpu,cpuacct:/docker/1234\n",
			"sys/fs/cgroup/cpu,cpuacct/docker/1234/cpu.stat": v1Quota},
			Counters{Throttled: 3, ThrottledTime: quarter}},
		{"version 1, listed in another order than the directory's", map[string]string{
			"proc/self/cgroup": "4:cpuacct,cpu:/docker/1234\n",
			"sys/fs/cgroup/cpu,cpuacct/docker/1234/cpu.stat": v1Quota},
			Counters{Throttled: 3, ThrottledTime: quarter}},
		{"version 1, both the directory and its link", map[string]string{
			"proc/self/cgroup":           "4:cpuacct,cpu:/\n",
			"sys/fs/cgroup/cpu/cpu.stat": v1Quota, "sys/fs/cgroup/cpu,cpuacct/cpu.stat": v1Quota},
			Counters{Throttled: 3, ThrottledTime: quarter}},
		{"version 1, the host's path in a container", map[string]string{
			"proc/self/cgroup": "4:cpu:/kubepods/pod1/c1\n", "sys/fs/cgroup/cpu/cpu.stat": v1Quota},
			Counters{Throttled: 3, ThrottledTime: quarter}},
		{"hybrid", map[string]string{
			"proc/self/cgroup": "3:cpuset:/\n2:cpuacct:/\n1:cpu:/\n0::/\n", "sys/fs/cgroup/cpu/cpu.stat": v1Quota},
			Counters{Throttled: 3, ThrottledTime: quarter}},
		{"cpuset is not cpu", map[string]string{
			"proc/self/cgroup": "3:cpuset:/\n", "sys/fs/cgroup/cpuset/cpu.stat": v1Quota},
			Counters{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.Steal, c.want.StealTick = 55*time.Millisecond, 5*time.Millisecond // 11 ticks over 2 CPUs
			got, err := newLocal(machine("11", c.files)).Read()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(Counters{}, "At")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A server with many CPUs and devices has an intr line of more than 64 KiB.
func TestLocalReadsALargeMachine(t *testing.T) {
	root := machine("11", nil)
	root["proc/stat"].Data = []byte(strings.Replace(string(root["proc/stat"].Data), "intr ", "intr "+strings.Repeat("0 ", 40_000), 1))
	got, err := newLocal(root).Read()
	if err != nil || got.Steal != 55*time.Millisecond {
		t.Errorf("steal %v, error %v; want 55ms", got.Steal, err)
	}
}

func TestLocalRejects(t *testing.T) {
	for _, c := range []struct {
		name string
		root fstest.MapFS
		want string
	}{
		{"no /proc", fstest.MapFS{}, "measure: read /proc/stat: open proc/stat: file does not exist"},
		{"empty /proc/stat", fstest.MapFS{"proc/stat": {}}, "measure: read /proc/stat: no cpu lines"},
		{"steal that is no number", machine("x", nil), `measure: read /proc/stat: steal: strconv.ParseInt: parsing "x": invalid syntax`},
		{"throttling that is no number", machine("0", map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": "nr_throttled many\n"}),
			`measure: read /sys/fs/cgroup/cpu.stat: nr_throttled: strconv.ParseInt: parsing "many": invalid syntax`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := newLocal(c.root).Read()
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
