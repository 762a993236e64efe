package idle

import (
	"fmt"
	"time"
)

// Rules say when the machine is idle enough to measure on, and when it no longer is. The figures are our choice, but where
// an experiment is named.
type Rules struct {
	Quiet       time.Duration // how long it must have been idle
	Utilization float64       // most share of the CPUs that others may use
	Runnable    float64       // most tasks that run or wait, to a CPU
	CPUStall    float64       // most share of the time in which some task may wait for a CPU
	MemStall    float64       // the same for memory
	IOStall     float64       // the same for a disk: a service that loads a model is about to work
	Throttled   float64       // most share of the time in which the own quota may be used up
	GPU         float64       // most utilisation of a GPU that is to be measured on
	OnBattery   bool          // whether to work on a battery
	From, To    time.Duration // of the day, local time, in which to work; equal = always; From > To is over midnight

	// Idle is the share of the CPUs up to which others' use is that of a machine on which nobody works. Above it, up to
	// Utilization, somebody may be served who would feel being met: then work is done in bursts that take BurstShare of the
	// time, so that at most about so many of his requests meet one.
	Idle       float64
	BurstShare float64

	Window    time.Duration // over which load is noticed while measuring
	YieldCPUs float64       // CPUs of others over Window at which to stop, besides YieldShare
	// YieldShare of all CPUs is added to YieldCPUs: the counters are in ticks, whose error grows with the CPUs.
	YieldShare float64
}

// DefaultRules are those where none are given.
var DefaultRules = Rules{
	Quiet:       10 * time.Second,
	Utilization: 0.10,
	Runnable:    1,
	CPUStall:    0.05,
	MemStall:    0.01,
	IOStall:     0.05,
	Throttled:   0.01,
	GPU:         0.05,
	Idle:        0.005,
	BurstShare:  0.001,
	Window:      60 * time.Millisecond,
	YieldCPUs:   0.5,
	YieldShare:  0.05,
}

// leastBurstShare is that with which the rest after the longest burst can still be counted in a time.Duration: 30 s a year.
const leastBurstShare = 1e-6

// Validate says what is wrong with the rules, if anything.
func (r Rules) Validate() error {
	day := 24 * time.Hour
	switch {
	case r.Quiet <= 0:
		return fmt.Errorf("idle: quiet %v: want a positive duration such as 10s", r.Quiet)
	case r.Window <= 0 || r.Window > 100*time.Millisecond:
		return fmt.Errorf("idle: window %v: want more than 0 and at most 100ms, within which load is to be noticed", r.Window)
	case !(r.Utilization >= 0 && r.Utilization <= 1): // NaN is none
		return fmt.Errorf("idle: utilisation %v: want a share from 0 to 1", r.Utilization)
	case !(r.Idle >= 0 && r.Idle <= 1):
		return fmt.Errorf("idle: idle %v: want a share from 0 to 1", r.Idle)
	case !(r.BurstShare >= leastBurstShare && r.BurstShare <= 1):
		return fmt.Errorf("idle: burst share %v: want a share of the time from %v to 1", r.BurstShare, leastBurstShare)
	case r.From < 0 || r.From > day || r.To < 0 || r.To > day:
		return fmt.Errorf("idle: hours %v to %v: want times of a day", r.From, r.To)
	}
	return nil
}

// Admit says why u is too much to begin measuring; "" = it is not. gpu is the utilisation of the GPU that is to be measured
// on, 0 for none.
func (r Rules) Admit(u Usage, gpu float64, now time.Time) string {
	percent := func(what string, is, most float64) string {
		return fmt.Sprintf("%s %.0f %%, at most %.0f %% wanted", what, 100*is, 100*most)
	}
	cpus := 0.0
	if u.Utilization > 0 {
		cpus = u.CPUs / u.Utilization
	}
	switch {
	case !r.open(now):
		return fmt.Sprintf("outside the hours %s to %s", clock(r.From), clock(r.To))
	case !u.Known:
		return "how busy the machine is cannot be told"
	case u.Battery && !r.OnBattery:
		return "the machine runs on its battery"
	case u.Utilization > r.Utilization:
		return percent("others use the CPUs to", u.Utilization, r.Utilization)
	case cpus > 0 && float64(u.Runnable) > 1+r.Runnable*cpus: // the asker itself runs
		return fmt.Sprintf("%d tasks want a CPU, at most %.0f wanted", u.Runnable, 1+r.Runnable*cpus)
	case u.CPUStall > r.CPUStall:
		return percent("tasks wait for a CPU", u.CPUStall, r.CPUStall)
	case u.MemStall > r.MemStall:
		return percent("tasks wait for memory", u.MemStall, r.MemStall)
	case u.IOStall > r.IOStall:
		return percent("tasks wait for a disk", u.IOStall, r.IOStall)
	case u.Throttled > r.Throttled:
		return percent("the cgroup's quota is used up", u.Throttled, r.Throttled)
	case gpu > r.GPU:
		return percent("the GPU is used to", gpu, r.GPU)
	}
	return ""
}

// Yield says why measuring must stop; "" = it need not.
func (r Rules) Yield(u Usage) string {
	if !u.Known {
		return ""
	}
	limit := r.YieldCPUs
	if u.Utilization > 0 {
		limit += r.YieldShare * u.CPUs / u.Utilization
	}
	if u.CPUs > limit {
		return fmt.Sprintf("others began to use %.1f CPUs", u.CPUs)
	}
	return ""
}

// open reports whether now is within the hours.
func (r Rules) open(now time.Time) bool {
	if r.From == r.To {
		return true
	}
	h, m, s := now.Clock() // and not the time since midnight, which is another on the day on which the clocks change
	at := time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(s)*time.Second
	if r.From < r.To {
		return at >= r.From && at < r.To
	}
	return at >= r.From || at < r.To
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d", int(d.Hours()), int(d.Minutes())%60)
}
