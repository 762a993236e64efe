package probe

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Memory is the RAM. All sizes are bytes, 0 = unknown.
type Memory struct {
	TotalBytes     uint64 `json:"total_bytes"`     // of the machine
	AvailableBytes uint64 `json:"available_bytes"` // what this process can still take without swapping, in its cgroup
	LimitBytes     uint64 `json:"limit_bytes"`     // the cgroup's limit, or the total where there is none below it
}

func readMemory(t *tree, group Cgroup, headroom uint64) Memory {
	info := readKilobytes(t, "proc/meminfo")
	if info["MemTotal"] == 0 || info["MemAvailable"] == 0 {
		t.warn("the memory's size is unknown: proc/meminfo does not tell MemTotal and MemAvailable")
	}
	m := Memory{TotalBytes: max(info["MemTotal"], readNodeMemory(t)), AvailableBytes: info["MemAvailable"]}
	m.LimitBytes = m.TotalBytes
	if limit := group.MemoryLimitBytes; limit > 0 && (m.TotalBytes == 0 || limit < m.TotalBytes) {
		m.LimitBytes = limit
		m.AvailableBytes = min(m.AvailableBytes, headroom)
	}
	return m
}

// readNodeMemory adds up the RAM of the NUMA nodes. Where a container's proc/meminfo shows the container's share
// (LXCFS), sysfs still shows the machine's.
func readNodeMemory(t *tree) uint64 {
	nodes, _ := t.list("sys/devices/system/node/online")
	var total uint64
	for _, node := range nodes {
		total += readKilobytes(t, fmt.Sprintf("sys/devices/system/node/node%d/meminfo", node))["MemTotal"]
	}
	return total
}

// readKilobytes returns the "Name: N kB" lines of a file in bytes; a line may begin with "Node N".
func readKilobytes(t *tree, name string) map[string]uint64 {
	text, _ := t.text(name)
	sizes := make(map[string]uint64)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[0] == "Node" {
			fields = fields[2:]
		}
		if len(fields) < 3 || fields[2] != "kB" {
			continue
		}
		if n, err := strconv.ParseUint(fields[1], 10, 53); err == nil {
			sizes[strings.TrimSuffix(fields[0], ":")] = n << 10
		}
	}
	return sizes
}

// sizeClass rounds a size up to the next of 1, 1.25, 1.5 and 1.75 times a power of two. A kernel reports a little
// less than the modules hold, and not always as much less, so 15.2 and 15.6 GiB are both of the class of 16 GiB.
func sizeClass(n uint64) uint64 {
	if n < 8 {
		return n
	}
	step := uint64(1) << (bits.Len64(n-1) - 3)
	return (n + step - 1) / step * step
}
