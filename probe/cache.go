package probe

import (
	"fmt"
	"strconv"
	"strings"
)

// Cache is one level of data cache. All zero = unknown or not there.
type Cache struct {
	Bytes     int64 `json:"bytes"`     // of one instance
	SharedBy  int   `json:"shared_by"` // online logical CPUs that share one instance
	Instances int   `json:"instances"`
}

// String is "2097152x16": the bytes of one instance, times the instances.
func (c Cache) String() string { return fmt.Sprintf("%dx%d", c.Bytes, c.Instances) }

// maxCacheIndexes bounds the cache directories that are looked at for one CPU; machines have four or five.
const maxCacheIndexes = 8

// readCaches returns the data caches by level. On a machine of several kinds of cores, size and sharing are those
// of the core that cpus names first, and the instances of all kinds are counted.
func readCaches(t *tree, cpus []int) (l1d, l2, l3 Cache) {
	var levels [4]Cache
	covered := make(map[[2]int]bool) // {index, cpu}: that CPU's cache belongs to an instance already counted
	for _, cpu := range cpus {
		for index := range maxCacheIndexes {
			if covered[[2]int{index, cpu}] {
				continue
			}
			level, sharing, ok := readCache(t, cpu, index, &levels)
			if !ok {
				break
			}
			for _, sharer := range sharing {
				covered[[2]int{index, sharer}] = true
			}
			if level > 0 {
				levels[level].Instances++
			}
		}
	}
	if levels[1].Bytes == 0 {
		t.warn("the cache sizes are unknown: %s/cpu*/cache does not tell", cpuDir)
	}
	return levels[1], levels[2], levels[3]
}

// readCache looks at one cache directory: which level it is (0 for an instruction cache) and who shares it. The first
// one of a level sets its size.
func readCache(t *tree, cpu, index int, levels *[4]Cache) (level int, sharing []int, ok bool) {
	dir := fmt.Sprintf("%s/cpu%d/cache/index%d/", cpuDir, cpu, index)
	n, ok := t.integer(dir + "level")
	if !ok {
		return 0, nil, false
	}
	sharing, ok = t.list(dir + "shared_cpu_list")
	if !ok || len(sharing) == 0 {
		sharing = []int{cpu}
	}
	kind := t.value(dir + "type")
	if n < 1 || n > 3 || kind != "Data" && kind != "Unified" {
		return 0, sharing, true
	}
	if c := &levels[n]; c.Bytes == 0 {
		c.Bytes, c.SharedBy = parseCacheSize(t.value(dir+"size")), len(sharing)
	}
	return int(n), sharing, true
}

// parseCacheSize parses "48K" or "1M" into bytes; 0 where it makes no sense.
func parseCacheSize(s string) int64 {
	unit := int64(1)
	switch {
	case strings.HasSuffix(s, "K"):
		unit, s = 1<<10, s[:len(s)-1]
	case strings.HasSuffix(s, "M"):
		unit, s = 1<<20, s[:len(s)-1]
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > 1<<40/unit {
		return 0
	}
	return n * unit
}
