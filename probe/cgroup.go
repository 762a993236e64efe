package probe

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Cgroup is what the control groups leave to this process: the tightest limit of its own group and of all groups
// above it that are visible.
type Cgroup struct {
	Version          int     `json:"version"`          // 1 or 2 (hybrid set-ups: that of the CPU controller); 0 = none found
	QuotaCPUs        float64 `json:"quota_cpus"`       // CPU time per time; 0 = no quota
	Cpuset           []int   `json:"cpuset,omitempty"` // nil = no cpuset
	MemoryLimitBytes uint64  `json:"memory_limit_bytes"`
	Path             string  `json:"path"` // as proc/self/cgroup says
}

// unlimited is the memory limit from which on a limit is none: version 1 writes the highest page-aligned int64.
const unlimited = 1 << 60

// maxDepth bounds the ancestors that are visited.
const maxDepth = 64

// branch is one controller's line of groups, from the process's own up to the highest that is mounted.
type branch struct {
	version int
	path    string
	dirs    []string
}

// own is the directory of the process's own group, or "".
func (b branch) own() string {
	if len(b.dirs) == 0 {
		return ""
	}
	return b.dirs[0]
}

// branches holds the line of groups of each controller that matters here. Unified is that of version 2, for the
// pressure files, which version 1 does not have.
type branches struct{ cpu, cpuset, memory, unified branch }

func readBranches(t *tree) branches {
	text, ok := t.text("proc/self/cgroup")
	if !ok {
		t.warn("the cgroup is unknown: proc/self/cgroup cannot be read")
		return branches{}
	}
	mounts := readMounts(t)
	var b branches
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && fields[0] == "0" && fields[1] == "" {
			b.unified = locate(t, mounts, "", fields[2])
		}
	}
	b.cpu, b.cpuset, b.memory = b.unified, b.unified, b.unified
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		for controller := range strings.SplitSeq(fields[1], ",") {
			switch controller {
			case "cpu":
				b.cpu = locate(t, mounts, controller, fields[2])
			case "cpuset":
				b.cpuset = locate(t, mounts, controller, fields[2])
			case "memory":
				b.memory = locate(t, mounts, controller, fields[2])
			}
		}
	}
	return b
}

// mount is a mounted cgroup hierarchy: the group root appears at the directory point.
type mount struct {
	version     int
	root, point string
	controllers []string
}

// readMounts parses proc/self/mountinfo (proc(5)): ID, parent, device, root, mount point, options, optional fields, a
// dash, file system, source, super options.
func readMounts(t *tree) []mount {
	text, _ := t.text("proc/self/mountinfo")
	var mounts []mount
	for line := range strings.Lines(text) {
		place, system, _ := strings.Cut(line, " - ")
		left, right := strings.Fields(place), strings.Fields(system)
		if len(left) < 5 || len(right) < 3 {
			continue
		}
		m := mount{root: unescape(left[3]), point: unescape(left[4])}
		switch right[0] {
		case "cgroup2":
			m.version = 2
		case "cgroup":
			m.version, m.controllers = 1, strings.Split(right[2], ",")
		default:
			continue
		}
		mounts = append(mounts, m)
	}
	if mounts == nil {
		t.warn("no cgroup is mounted according to proc/self/mountinfo: quota, cpuset and memory limit are unknown")
	}
	return mounts
}

// unescape undoes the octal escapes of mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace

// locate finds the directories of the group called group in the hierarchy of a controller, or of version 2 where
// controller is "". A group that is not below what is mounted (another cgroup namespace, a bind mount) is taken to be
// the mount's own root.
func locate(t *tree, mounts []mount, controller, group string) branch {
	var b branch
	for _, m := range mounts {
		if (m.version == 2) != (controller == "") || controller != "" && !slices.Contains(m.controllers, controller) {
			continue
		}
		found := branch{version: m.version, path: tidy(group)}
		below, inside := m.below(group)
		inside = inside && t.exists(m.dir(below))
		if !inside {
			below = "/"
		}
		for range maxDepth {
			found.dirs = append(found.dirs, m.dir(below))
			if below == "/" {
				break
			}
			below = path.Dir(below)
		}
		if inside {
			return found
		}
		if b.dirs == nil {
			b = found
		}
	}
	return b
}

// below returns group as a path from the mount's root, which starts with a slash.
func (m mount) below(group string) (string, bool) {
	if !path.IsAbs(group) || slices.Contains(strings.Split(group, "/"), "..") {
		return "", false
	}
	rest, ok := strings.CutPrefix(path.Clean(group)+"/", strings.TrimSuffix(path.Clean(m.root), "/")+"/")
	return path.Clean("/" + rest), ok
}

// dir is the name in the tree of the group at below.
func (m mount) dir(below string) string {
	return strings.TrimPrefix(path.Join("/", m.point, below), "/")
}

// readCgroup returns the limits, and what the group can still take of its memory.
func readCgroup(t *tree, b branches) (c Cgroup, headroom uint64) {
	c = Cgroup{Version: b.cpu.version, Path: b.cpu.path, QuotaCPUs: readQuota(t, b.cpu), Cpuset: readCpuset(t, b.cpuset)}
	c.MemoryLimitBytes, headroom = readMemoryLimit(t, b.memory)
	return c, headroom
}

// readQuota returns the least quota of the line, in CPUs; 0 = none.
func readQuota(t *tree, b branch) float64 {
	least := 0.0
	for _, dir := range b.dirs {
		var quota float64
		var err error
		if b.version == 2 {
			text, ok := t.text(dir + "/cpu.max")
			if !ok {
				continue // the root group has none
			}
			quota, err = parseCPUMax(text)
		} else {
			text, ok := t.text(dir + "/cpu.cfs_quota_us")
			if !ok {
				continue
			}
			period, _ := t.text(dir + "/cpu.cfs_period_us")
			quota, err = parseQuota(text, period)
		}
		if err != nil {
			t.warn("the CPU quota of %s is ignored: %v", dir, err)
		}
		if quota > 0 && (least == 0 || quota < least) {
			least = quota
		}
	}
	return least
}

// parseCPUMax parses version 2's "QUOTA PERIOD" in microseconds into CPUs; "max PERIOD" is none, 0.
func parseCPUMax(text string) (float64, error) {
	quota, period, _ := strings.Cut(text, " ")
	if quota == "max" {
		return 0, nil
	}
	if n, err := strconv.ParseInt(quota, 10, 64); err == nil && n < 0 {
		return 0, fmt.Errorf("%q is not a positive number of microseconds", tidy(quota))
	}
	return parseQuota(quota, strings.TrimSpace(period))
}

// parseQuota divides a quota by its period, both in microseconds; version 1's quota of -1 is none, 0.
func parseQuota(quota, period string) (float64, error) {
	if quota == "-1" {
		return 0, nil
	}
	q, err := strconv.ParseInt(quota, 10, 64)
	if err != nil || q <= 0 {
		return 0, fmt.Errorf("%q is not a positive number of microseconds", tidy(quota))
	}
	p, err := strconv.ParseInt(period, 10, 64)
	if err != nil || p <= 0 {
		return 0, fmt.Errorf("its period %q is not a positive number of microseconds", tidy(period))
	}
	return float64(q) / float64(p), nil
}

// readCpuset returns the CPUs that all groups of the line allow; nil = no cpuset.
func readCpuset(t *tree, b branch) []int {
	var set []int
	for _, dir := range b.dirs {
		cpus, ok := readGroupCpuset(t, b.version, dir)
		switch {
		case !ok || len(cpus) == 0: // an empty list inherits
		case set == nil:
			set = cpus
		default:
			if both := intersect(set, cpus); len(both) > 0 {
				set = both
			}
		}
	}
	return set
}

func readGroupCpuset(t *tree, version int, dir string) ([]int, bool) {
	names := []string{"cpuset.cpus.effective", "cpuset.cpus"}
	if version == 1 {
		names = []string{"cpuset.effective_cpus", "cpuset.cpus"}
	}
	for _, name := range names {
		if cpus, ok := t.list(dir + "/" + name); ok {
			return cpus, true
		}
	}
	return nil, false
}

// memoryFiles are the names under which a version keeps a group's limits, its usage, and in memory.stat the share of
// the usage that is cache not lately used, which the kernel gives back first.
type memoryFiles struct {
	limits             []string
	usage, reclaimable string
}

var memoryFilesOf = map[int]memoryFiles{
	1: {[]string{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file"},
	2: {[]string{"memory.max", "memory.high"}, "memory.current", "inactive_file"},
}

// readMemoryLimit returns the least limit of the line (0 = none) and the least that any limited group can still take.
func readMemoryLimit(t *tree, b branch) (limit, headroom uint64) {
	limit, headroom = math.MaxUint64, math.MaxUint64
	files := memoryFilesOf[b.version]
	for _, dir := range b.dirs {
		own := uint64(math.MaxUint64)
		for _, name := range files.limits {
			own = min(own, readLimit(t, dir+"/"+name))
		}
		stat := readStat(t, dir+"/memory.stat")
		if above := stat["hierarchical_memory_limit"]; b.version == 1 && above > 0 && above < unlimited {
			own = min(own, above) // of groups that are not visible from here
		}
		if own == math.MaxUint64 {
			continue
		}
		limit = min(limit, own)
		if usage, ok := t.integer(dir + "/" + files.usage); ok && usage >= 0 {
			used := uint64(usage) - min(uint64(usage), stat[files.reclaimable])
			headroom = min(headroom, own-min(own, used))
		}
	}
	if limit == math.MaxUint64 {
		return 0, headroom
	}
	return limit, min(headroom, limit)
}

// readLimit returns the bytes in a limit file, or the greatest number where there is no limit.
func readLimit(t *tree, name string) uint64 {
	text, ok := t.text(name)
	if !ok || text == "max" {
		return math.MaxUint64
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.warn("the memory limit in %s is ignored: %q is neither a number of bytes nor max", name, tidy(text))
		return math.MaxUint64
	}
	if n >= unlimited {
		return math.MaxUint64
	}
	return n
}

// readStat returns the "name number" lines of a file.
func readStat(t *tree, name string) map[string]uint64 {
	text, _ := t.text(name)
	stat := make(map[string]uint64)
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			stat[key] = n
		}
	}
	return stat
}
