package probe

import (
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Process is what is known of a running process besides what its host and its control groups tell.
type Process struct {
	Args      []string       // of its command line
	NodeBytes map[int]uint64 // where its memory lies, by NUMA node
	Nodes     []int          // whose CPUs it may use
}

// ReadProcess describes the process whose /proc and /sys are in fsys. The error is for one that is not there.
func ReadProcess(fsys fs.FS, pid int) (Process, error) {
	t := &tree{fsys: fsys}
	dir := fmt.Sprintf("proc/%d/", pid)
	line, ok := t.text(dir + "cmdline")
	if !ok {
		return Process{}, fmt.Errorf("probe: read process %d: %scmdline cannot be read: want a process that runs", pid, dir)
	}
	p := Process{Args: strings.Split(strings.TrimRight(line, "\x00"), "\x00"), NodeBytes: map[int]uint64{}}
	if maps, ok := t.text(dir + "numa_maps"); ok {
		p.NodeBytes = parseNUMAMaps(maps)
	}
	p.Nodes = readProcessNodes(t, dir)
	return p, nil
}

// parseNUMAMaps adds up the "N0=123" fields of numa_maps (numa(7)), in pages of the size that each line tells.
func parseNUMAMaps(text string) map[int]uint64 {
	bytes := map[int]uint64{}
	for line := range strings.Lines(text) {
		page := uint64(4096)
		pages := map[int]uint64{}
		for _, field := range strings.Fields(line) {
			name, value, _ := strings.Cut(field, "=")
			n, err := strconv.ParseUint(value, 10, 32)
			if err != nil {
				continue
			}
			if name == "kernelpagesize_kB" && n > 0 {
				page = n << 10
				continue
			}
			number, isNode := strings.CutPrefix(name, "N")
			if node, err := strconv.Atoi(number); isNode && err == nil && node >= 0 {
				pages[node] += n
			}
		}
		for node, n := range pages {
			bytes[node] += min(n, math.MaxUint32) * page
		}
	}
	return bytes
}

// readProcessNodes returns the nodes of the CPUs that the process may use; nil where either is unknown.
func readProcessNodes(t *tree, dir string) []int {
	status, _ := t.text(dir + "status")
	var allowed []int
	for line := range strings.Lines(status) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			allowed, _ = parseList(list)
		}
	}
	nodes := map[int]bool{}
	node, _ := readNodes(t)
	for _, cpu := range allowed {
		if id, known := node[cpu]; known {
			nodes[id] = true
		}
	}
	return slices.Sorted(maps.Keys(nodes))
}

// ofProcess shows another process's control groups and affinity where one's own would be.
type ofProcess struct {
	fs.FS
	pid int
}

// OfProcess returns fsys as Read has to see it to describe the host as the process of that id finds it: under the limits
// of its control groups and its affinity.
func OfProcess(fsys fs.FS, pid int) fs.FS { return ofProcess{fsys, pid} }

// Open implements fs.FS.
func (o ofProcess) Open(name string) (fs.File, error) {
	switch name {
	case "proc/self/cgroup", "proc/self/status":
		name = fmt.Sprintf("proc/%d/%s", o.pid, path.Base(name))
	}
	return o.FS.Open(name)
}

// Throttling is how often the CPU quota of a control group ran out.
type Throttling struct {
	Periods   uint64 // scheduling periods in which something ran
	Throttled uint64 // those in which the quota ran out
}

// ReadThrottling returns the counters since they began of each group with a quota, of the process's own and all above it,
// by the group's path.
func ReadThrottling(fsys fs.FS) map[string]Throttling {
	t := &tree{fsys: fsys}
	groups := map[string]Throttling{}
	for _, dir := range readBranches(t).cpu.dirs {
		if stat := readStat(t, dir+"/cpu.stat"); stat["nr_periods"] > 0 {
			groups[dir] = Throttling{Periods: stat["nr_periods"], Throttled: stat["nr_throttled"]}
		}
	}
	return groups
}

// MostThrottled is what the counters rose by in the group that was throttled most meanwhile. A group that is not in before, or
// was made anew, counts from its beginning.
func MostThrottled(before, now map[string]Throttling) Throttling {
	var most Throttling
	for dir, n := range now {
		if b := before[dir]; b.Periods <= n.Periods && b.Throttled <= n.Throttled {
			n.Periods, n.Throttled = n.Periods-b.Periods, n.Throttled-b.Throttled
		}
		if n.Throttled > most.Throttled || n.Throttled == most.Throttled && n.Periods > most.Periods {
			most = n
		}
	}
	return most
}

// ReadOverheating returns how often the cores of this machine were slowed for their temperature since it started; false
// where the kernel does not tell.
func ReadOverheating(fsys fs.FS) (events uint64, known bool) {
	t := &tree{fsys: fsys}
	online, _ := t.list(cpuDir + "/online")
	for _, cpu := range online {
		n, ok := t.integer(fmt.Sprintf("%s/cpu%d/thermal_throttle/core_throttle_count", cpuDir, cpu))
		known = known || ok
		events += uint64(max(0, n))
	}
	return events, known
}
