package tuner

import (
	"maps"
	"slices"
	"strconv"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
)

// rebound fits a plan that was learned under other limits to those of this host. More threads than may be used here become the
// best count within the bound, by the curve where it is known; where more may be used than were tried, the count is the engine's
// own, of which nothing is known, and the learned one is only the best of the few. What names other CPUs, or needs memory that
// is not there, goes.
func (l *engineLearned) rebound(host probe.Host, m engineModel, changed []string) error {
	config := &l.plan.Config
	plan := engine.Plan{}
	for regime, setting := range config.Plan {
		plan[regime] = maps.Clone(setting)
		for _, knob := range l.threadKnobs() {
			l.rebind(plan, regime, knob, host.CPU.UsableCores)
		}
		if slices.Contains(changed, "cpus") {
			delete(plan[regime], "cpu-mask")
		}
		if !unmappedFits(m, host) {
			delete(plan[regime], "mmap")
			delete(plan[regime], "load-mode")
		}
	}
	config.Plan = plan
	if config.Engine != Exec {
		return nil
	}
	spec, err := engine.ReadSpec(m.path)
	if err != nil {
		return err
	}
	config.Fill(&engine.Exec{Spec: spec})
	return nil
}

// threadKnobs are the knobs that count threads.
func (l *engineLearned) threadKnobs() (names []string) {
	if l.cert.Search == nil {
		return []string{"threads"}
	}
	for _, k := range l.cert.Search.Knobs {
		if k.Stage == engine.Threads {
			names = append(names, k.Name)
		}
	}
	return names
}

// rebind bounds one count of a regime.
func (l *engineLearned) rebind(plan engine.Plan, regime, knob string, bound int) {
	value, given := plan[regime][knob]
	if !given {
		value = l.plan.Config.Own[knob]
	}
	n, err := strconv.Atoi(value)
	tried, unknown := strconv.Atoi(l.entry.Envelope["usable_cores"])
	switch {
	case err != nil:
	case unknown == nil && tried < bound:
		delete(plan[regime], knob)
	case n > bound:
		plan[regime] = plan[regime].With(knob, strconv.Itoa(l.bestWithin(regime, knob, bound)))
	}
}

// bestWithin is the fastest count of a curve within a bound, the bound itself where nothing is known.
func (l *engineLearned) bestWithin(regime, knob string, bound int) int {
	best, rate := bound, 0.0
	if l.cert.Search == nil {
		return best
	}
	for _, c := range l.cert.Search.Curves {
		if c.Regime != regime || c.Knob != knob {
			continue
		}
		for _, p := range c.Points {
			if n, err := strconv.Atoi(p.Value); err == nil && n <= bound && p.Ratio > rate {
				best, rate = n, p.Ratio
			}
		}
	}
	return best
}

// unmappedFits reports whether a model may be read into memory rather than mapped.
func unmappedFits(m engineModel, host probe.Host) bool {
	return host.Memory.LimitBytes == 0 || m.bytes+m.bytes/10 <= host.Memory.LimitBytes
}
