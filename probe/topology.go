package probe

import (
	"cmp"
	"fmt"
	"slices"
)

const cpuDir = "sys/devices/system/cpu"

// topology is how the online logical CPUs form cores and NUMA nodes. It is the machine's, not the process's: no
// cpuset, affinity or quota has a say in it.
type topology struct {
	online    []int
	present   int          // logical CPUs plugged in, online or not
	core      map[int]int  // logical CPU -> the lowest logical CPU of its core
	efficient map[int]bool // logical CPUs of efficiency cores
	node      map[int]int  // logical CPU -> NUMA node
	nodes     int          // NUMA nodes that have CPUs
}

func readTopology(t *tree, info cpuinfo, affinity []int) topology {
	top := topology{online: readOnline(t, info, affinity)}
	top.present = len(top.online)
	if present, ok := t.list(cpuDir + "/present"); ok {
		top.present = max(top.present, len(present))
	}
	top.core = readCores(t, info, top.online)
	top.efficient = readEfficient(t, top)
	top.node, top.nodes = readNodes(t)
	return top
}

// readOnline asks sysfs, then proc/cpuinfo, then the affinity for the CPUs that run.
func readOnline(t *tree, info cpuinfo, affinity []int) []int {
	if online, ok := t.list(cpuDir + "/online"); ok && len(online) > 0 {
		return online
	}
	if len(info.cpus) > 0 {
		return info.cpus
	}
	if len(affinity) > 0 {
		t.warn("the online CPUs are unknown: neither %s/online nor proc/cpuinfo tells, those of the affinity are taken", cpuDir)
		return affinity
	}
	t.warn("the online CPUs are unknown: neither %s/online nor proc/cpuinfo tells, 1 is taken", cpuDir)
	return []int{0}
}

// readCores maps each online CPU to the lowest CPU of its physical core. Sibling lists are believed rather than core
// numbers, which repeat across packages, dies and clusters.
func readCores(t *tree, info cpuinfo, online []int) map[int]int {
	core := make(map[int]int, len(online))
	var unknown []int
	for _, cpu := range online {
		if _, done := core[cpu]; done {
			continue
		}
		siblings, ok := readSiblings(t, cpu)
		if !ok {
			unknown = append(unknown, cpu)
		}
		core[cpu] = cpu
		for _, sibling := range siblings {
			if _, done := core[sibling]; !done && slices.Contains(online, sibling) {
				core[sibling] = cpu
			}
		}
	}
	if len(unknown) > 0 && !info.cores(core, unknown) {
		t.warn("which CPUs share a core is unknown for CPUs %s: each is taken for a core", formatList(unknown))
	}
	return core
}

func readSiblings(t *tree, cpu int) ([]int, bool) {
	dir := fmt.Sprintf("%s/cpu%d/topology/", cpuDir, cpu)
	if siblings, ok := t.list(dir + "core_cpus_list"); ok {
		return siblings, true
	}
	return t.list(dir + "thread_siblings_list") // its name before Linux 5.3
}

// efficientBelow is the share of the greatest cpu_capacity below which a core is an efficiency core. Our choice: the
// small core of a pair has 0.25 to 0.55, the middle core of a trio 0.8 or more.
const efficientBelow = 0.75

// readEfficient returns the CPUs of efficiency cores, where the kernel tells: by PMU on hybrid x86, else by capacity.
func readEfficient(t *tree, top topology) map[int]bool {
	efficient := make(map[int]bool)
	if performance, ok := t.list("sys/devices/cpu_core/cpus"); ok && len(performance) > 0 {
		for _, pmu := range []string{"cpu_atom", "cpu_lowpower"} {
			cpus, _ := t.list("sys/devices/" + pmu + "/cpus")
			for _, cpu := range cpus {
				efficient[cpu] = true
			}
		}
		return efficient
	}
	capacity := make(map[int]int)
	greatest := 0
	for _, cpu := range top.online {
		if cpu == top.core[cpu] {
			n, _ := t.integer(fmt.Sprintf("%s/cpu%d/cpu_capacity", cpuDir, cpu))
			capacity[cpu] = int(n)
			greatest = max(greatest, int(n))
		}
	}
	for cpu, core := range top.core {
		c := capacity[core]
		efficient[cpu] = c > 0 && float64(c) < efficientBelow*float64(greatest)
	}
	return efficient
}

// readNodes maps CPUs to NUMA nodes and counts the nodes that have CPUs. A kernel that does not tell nodes apart has
// one; where sysfs is missing altogether the number is unknown.
func readNodes(t *tree) (map[int]int, int) {
	const dir = "sys/devices/system/node"
	node := make(map[int]int)
	ids, ok := t.list(dir + "/online")
	if !ok {
		if t.exists(cpuDir) {
			return node, 1
		}
		t.warn("the NUMA nodes are unknown: %s is missing", dir)
		return node, 0
	}
	nodes := 0
	for _, id := range ids {
		cpus, _ := t.list(fmt.Sprintf("%s/node%d/cpulist", dir, id))
		if len(cpus) > 0 {
			nodes++
		}
		for _, cpu := range cpus {
			node[cpu] = id
		}
	}
	return node, max(1, nodes)
}

// cores counts the physical cores among cpus.
func (top topology) cores(cpus []int) int {
	seen := make(map[int]bool, len(cpus))
	for _, cpu := range cpus {
		seen[top.core[cpu]] = true
	}
	return len(seen)
}

// threadsPerCore is the greatest number of online CPUs that share a core.
func (top topology) threadsPerCore() int {
	most := 0
	threads := make(map[int]int)
	for _, core := range top.core {
		threads[core]++
		most = max(most, threads[core])
	}
	return most
}

// performance counts the cores that are not efficiency cores.
func (top topology) performance() int {
	n := 0
	for cpu, core := range top.core {
		if cpu == core && !top.efficient[cpu] {
			n++
		}
	}
	return n
}

// order returns cpus in the order in which workers should take them: first one CPU of each core, then the second of
// each, and so on; within that, performance cores before efficiency cores, then node by node.
func (top topology) order(cpus []int) []int {
	ordered := slices.Sorted(slices.Values(cpus))
	rank := make(map[int]int, len(cpus)) // how many lower CPUs of the same core are among cpus
	taken := make(map[int]int)
	for _, cpu := range ordered {
		rank[cpu] = taken[top.core[cpu]]
		taken[top.core[cpu]]++
	}
	class := func(cpu int) int {
		if top.efficient[cpu] {
			return 1
		}
		return 0
	}
	slices.SortFunc(ordered, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank[a], rank[b]), cmp.Compare(class(a), class(b)),
			cmp.Compare(top.node[a], top.node[b]), cmp.Compare(a, b))
	})
	return ordered
}
