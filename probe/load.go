package probe

import (
	"math"
	"strconv"
	"strings"
)

// Load is how busy the machine is. It is part of no key.
type Load struct {
	// CPUUtilization is the share of the online CPUs that was wanted over the last minute, 0 to 1: Load1 divided by
	// the CPUs. It lags, but takes no time: a true utilisation needs two readings some 100 ms apart.
	CPUUtilization float64 `json:"cpu_utilization"`
	// MemoryUtilization is the share of Memory.LimitBytes that is not available, 0 to 1.
	MemoryUtilization float64 `json:"memory_utilization"`
	// Load1 is the machine's load average over one minute.
	Load1 float64 `json:"load1"`
	// Pressure is who had to wait, over the last 10 seconds.
	Pressure Pressure `json:"pressure"`
}

func readLoad(t *tree, logical int, m Memory) Load {
	var l Load
	text, _ := t.text("proc/loadavg")
	first, _, _ := strings.Cut(text, " ")
	if load, err := strconv.ParseFloat(first, 64); err == nil && load >= 0 && !math.IsInf(load, 0) {
		l.Load1 = load
		l.CPUUtilization = min(1, load/float64(logical))
	} else {
		t.warn("the load is unknown: proc/loadavg does not tell")
	}
	if m.LimitBytes > 0 {
		l.MemoryUtilization = 1 - min(1, float64(m.AvailableBytes)/float64(m.LimitBytes))
	}
	return l
}
