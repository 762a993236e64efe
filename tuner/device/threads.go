package device

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// threads is, for a strategy that uses the CPU, what load and memory bandwidth leave of the physical cores, unless it
// is known which number is best.
func (d *decision) threads() {
	cores := d.Facts.PhysicalCores
	have := fmt.Sprintf("%s may be used", d.Facts.cores())
	if d.basis == Estimate {
		have = "nothing is known of the cores, so 1 is taken"
	}
	switch d.Strategy.Value {
	case GPUOnly:
		d.Threads = Choice[int]{Value: min(d.c.GPUThreads, cores), Limit: LimitNone, Basis: Estimate,
			Reason: fmt.Sprintf("the GPU does the work: %d feed it, and %s", d.c.GPUThreads, have)}
		if cores < d.c.GPUThreads {
			d.Threads.Limit = LimitCores
		}
		return
	case Auto:
		d.Threads = Choice[int]{Value: max(1, cores/d.c.AutoDivisor), Limit: LimitCores, Basis: Estimate,
			Reason: fmt.Sprintf("one for every %d of the cores, as the engine decides the rest: %s", d.c.AutoDivisor, have)}
		return
	}
	if best, ok := d.learned(); ok {
		d.Threads = best
		return
	}
	load, bandwidth := d.loadTerm(), d.bandwidthTerm()
	d.Threads = Choice[int]{Value: max(1, min(load, bandwidth)), Limit: LimitCores, Basis: d.basis, Reason: "one for each core: " + have}
	switch {
	case bandwidth < load:
		d.Threads.Limit, d.Threads.Basis = LimitBandwidth, weakest(d.Facts.SystemBandwidth.Basis, d.Requirements.Bandwidth.Basis)
		d.Threads.Reason = fmt.Sprintf("memory delivers %.1f GB/s (%s) and a thread draws %.1f GB/s (%s): %d; %s",
			float64(d.Facts.SystemBandwidth.Value)/1e9, d.Facts.SystemBandwidth.Basis, float64(d.Requirements.Bandwidth.Value)/1e9, d.Requirements.Bandwidth.Basis, bandwidth, have)
	case load < cores:
		d.Threads.Limit = LimitLoad
		d.Threads.Reason = fmt.Sprintf("the CPUs are %.0f %% busy, which leaves %d: %s", 100*d.Facts.Load.CPU, max(1, load), have)
	}
	d.log.Debug().Int("base", cores).Int("load_adjusted", load).Int("bandwidth_limited", bandwidth).Int("final", d.Threads.Value).Msg("device: threads")
}

// loadTerm is how many cores the load leaves.
func (d *decision) loadTerm() int {
	cores := float64(d.Facts.PhysicalCores)
	busy := cores * min(d.Facts.Load.CPU, d.c.MostLoad)
	if busy < d.c.QuietCores {
		busy = 0
	}
	return int(math.Floor(cores - busy))
}

// bandwidthTerm is how many threads the memory can feed; all, where the need is unknown.
func (d *decision) bandwidthTerm() int {
	cores := d.Facts.PhysicalCores
	if d.Requirements.Bandwidth.Value == 0 {
		return cores
	}
	return int(min(d.Facts.SystemBandwidth.Value/d.Requirements.Bandwidth.Value, uint64(cores)))
}

// learned is the number of threads that was the fastest, of those that may be used here; the fewest of equals.
func (d *decision) learned() (Choice[int], bool) {
	best := 0
	for _, n := range slices.Sorted(maps.Keys(d.opt.Measured.Curve)) {
		cost := d.opt.Measured.Curve[n]
		if n >= 1 && n <= d.Facts.LogicalCores && cost > 0 && (best == 0 || cost < d.opt.Measured.Curve[best]) {
			best = n
		}
	}
	of := d.opt.Measured.CurveOf
	if of == "" {
		of = "this model"
	}
	return Choice[int]{Value: best, Limit: LimitNone, Basis: Measured, Reason: fmt.Sprintf("the fastest of %d measured numbers of threads, with %s; %s may be used", len(d.opt.Measured.Curve), of, d.Facts.cores())}, best > 0
}

// cores says how many cores there are, and what keeps them from being more.
func (f Facts) cores() string {
	text := fmt.Sprintf("%d physical cores", f.PhysicalCores)
	if f.PhysicalCores == 1 {
		text = "1 physical core"
	}
	if f.Quota > 0 {
		text += fmt.Sprintf(" within a quota of %.3g CPUs", f.Quota)
	}
	return text
}
