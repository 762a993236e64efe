package measure

import "time"

// Watcher reads the counters by which a host admits that it took time away.
type Watcher interface {
	Read() (Counters, error)
}

// Counters are running totals; only their growth means anything. What a host does not tell stays 0.
type Counters struct {
	At            time.Duration // when they were read, on the watcher's clock
	Throttled     int64         // scheduling periods in which the CPU quota ran out (cgroup cpu.stat, nr_throttled)
	ThrottledTime time.Duration // how long tasks stood still for it
	Steal         time.Duration // CPU time that the hypervisor gave to others, the mean over the CPUs
	StealTick     time.Duration // the resolution of Steal
}

// A guard tells which samples were disturbed, from the counters around each. The zero value watches nothing.
type guard struct {
	watcher  Watcher
	maxSteal float64
	first    Counters
	last     Counters
	begun    bool          // first and last have been read
	rise     time.Duration // before the last growth of Steal was seen, or when the guard began
	risen    bool          // Steal has grown since the guard began
	err      error         // of the first read that failed; the guard has then given up
}

// mark begins a run of samples: what happened before is not theirs.
func (g *guard) mark() {
	now, ok := g.read()
	if !ok {
		return
	}
	if !g.begun {
		g.begun, g.first, g.rise = true, now, now.At
	} else if now.Steal > g.last.Steal {
		g.rise, g.risen = g.last.At, true
	}
	g.last = now
}

// disturbed reports whether the time since the last mark or disturbed was: the quota ran out, or more than maxSteal
// of the CPU time was provably stolen. Steal comes in ticks, usually of 10 ms, often much longer than a sample; so a
// growth is taken to have gathered evenly since the growth before, and the first, whose beginning nobody saw, counts
// for one tick less. Where the host always steals, that is how it is, and only twice the usual share is a disturbance:
// else next to nothing would ever count.
func (g *guard) disturbed() bool {
	now, ok := g.read()
	if !ok {
		return false
	}
	throttled := now.Throttled > g.last.Throttled || now.ThrottledTime > g.last.ThrottledTime
	stolen := now.Steal - g.last.Steal
	excessive := false
	if stolen > 0 {
		proven := stolen
		if !g.risen {
			proven -= now.StealTick
		}
		excessive = float64(proven) > max(g.maxSteal, 2*g.usualSteal())*float64(now.At-g.rise)
		g.rise, g.risen = g.last.At, true
	}
	g.last = now
	return throttled || excessive
}

// usualAfter is how long a guard watches before it knows what is usual: a hundred ticks.
const usualAfter = time.Second

// usualSteal is the share of CPU time that was stolen from the first mark to the last; 0 before usualAfter.
func (g *guard) usualSteal() float64 {
	watched := g.last.At - g.first.At
	if watched < usualAfter {
		return 0
	}
	return float64(g.last.Steal-g.first.Steal) / float64(watched)
}

func (g *guard) read() (Counters, bool) {
	if g.watcher == nil || g.err != nil {
		return Counters{}, false
	}
	now, err := g.watcher.Read()
	g.err = err
	return now, err == nil
}
