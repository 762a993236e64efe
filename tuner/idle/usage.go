package idle

import "time"

// Usage is what others did with the machine between two readings.
type Usage struct {
	Over        time.Duration `json:"over_ns"`
	CPUs        float64       `json:"cpus"`        // that others kept busy, on average
	Utilization float64       `json:"utilization"` // the same as a share of all
	Runnable    int           `json:"runnable"`    // tasks that ran or waited at the end, its own among them
	CPUStall    float64       `json:"cpu_stall"`   // share of the time in which some task waited
	MemStall    float64       `json:"memory_stall"`
	IOStall     float64       `json:"io_stall"`
	Throttled   float64       `json:"throttled"` // share of the time, of the own cgroup
	Battery     bool          `json:"battery"`
	Known       bool          `json:"known"` // false: there was nothing to tell from
}

// Since is what others did between before and r. own is the CPU time that the asker used in between.
func (r Reading) Since(before Reading, own time.Duration) Usage {
	u := Usage{Over: r.At.Sub(before.At), Runnable: r.Runnable, Battery: r.Battery}
	if u.Over <= 0 || r.CPUs == 0 || before.CPUs == 0 || r.Busy < before.Busy { // a CPU taken off line takes its time along
		return u
	}
	u.Known = true
	u.CPUs = max(0, (r.Busy-before.Busy-own).Seconds()/u.Over.Seconds())
	u.Utilization = min(1, u.CPUs/float64(r.CPUs))
	share := func(now, then time.Duration) float64 { return min(1, max(0, (now-then).Seconds()/u.Over.Seconds())) }
	u.CPUStall, u.MemStall, u.IOStall = share(r.CPUStall, before.CPUStall), share(r.MemStall, before.MemStall), share(r.IOStall, before.IOStall)
	u.Throttled = share(r.Throttled, before.Throttled)
	return u
}
