package idle

import (
	"fmt"
	"time"
)

// Gate watches the machine and says when it is idle enough. It is for one goroutine.
type Gate struct {
	Rules Rules
	// GPU tells the utilisation of the GPU that is to be measured on, 0 to 1. If nil, none is.
	GPU func() float64

	seen []seen
}

// seen is a reading with the CPU time that the asker had used by then.
type seen struct {
	reading Reading
	own     time.Duration
	gpu     float64
}

// Look takes a reading down. own is the CPU time that the asker has used so far, itself and what it runs.
func (g *Gate) Look(r Reading, own time.Duration) {
	if n := len(g.seen); n > 0 && !r.At.After(g.seen[n-1].reading.At) {
		g.seen = g.seen[:0] // the clock was set back
	}
	gpu := 0.0
	if g.GPU != nil {
		gpu = g.GPU()
	}
	g.seen = append(g.seen, seen{r, own, gpu})
	keep := 0
	for keep+1 < len(g.seen) && r.At.Sub(g.seen[keep+1].reading.At) >= g.Rules.Quiet {
		keep++
	}
	g.seen = append(g.seen[:0], g.seen[keep:]...)
}

// Usage is what others did since that long before the last reading, or since the first one.
func (g *Gate) Usage(over time.Duration) Usage {
	if len(g.seen) < 2 {
		return Usage{}
	}
	last := g.seen[len(g.seen)-1]
	from := 0
	for from+2 < len(g.seen) && last.reading.At.Sub(g.seen[from+1].reading.At) >= over {
		from++
	}
	return last.reading.Since(g.seen[from].reading, last.own-g.seen[from].own)
}

// Admit says why not to begin measuring; "" = the machine was idle for as long as the rules ask for, and at its last look.
func (g *Gate) Admit(now time.Time) string {
	whole := g.Usage(g.Rules.Quiet)
	if whole.Over < g.Rules.Quiet {
		return "not watched for long enough yet"
	}
	gpu := 0.0 // the most of all looks: between two batches a busy GPU is idle
	for _, s := range g.seen {
		gpu = max(gpu, s.gpu)
	}
	if why := g.Rules.Admit(whole, gpu, now); why != "" {
		return why
	}
	if last := g.Usage(0); last.Utilization > g.Rules.Utilization {
		return "others have just begun to use the CPUs"
	}
	return ""
}

// Light says who may feel it if work goes on without rests; "" = nobody. While it does go on, somebody new is noticed in a
// fifth of Rules.Quiet: one that uses little shows in the whole of it only.
func (g *Gate) Light() string {
	for _, part := range []struct {
		over time.Duration
		most float64
	}{{g.Rules.Quiet, g.Rules.Idle}, {g.Rules.Quiet / 5, 3 * g.Rules.Idle}} {
		if u := g.Usage(part.over); u.Known && u.Utilization > part.most {
			return fmt.Sprintf("others use the CPUs to %.2f %%", 100*u.Utilization)
		}
	}
	return ""
}

// Yield says why to stop measuring; "" = no load has come.
func (g *Gate) Yield() string {
	u := g.Usage(g.Rules.Window)
	if u.Over < g.Rules.Window/2 { // of too few ticks to tell
		return ""
	}
	return g.Rules.Yield(u)
}

// Forget drops what was seen: after a pause it would be told as one long time.
func (g *Gate) Forget() { g.seen = g.seen[:0] }
