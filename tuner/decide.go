package tuner

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/memory"
	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// missingGPU is why a plan from facts does not take a GPU, even where device would.
const missingGPU = "a plan from facts runs on the CPU: tune measures whether a GPU is faster"

// decide is the answer from facts: the kernels and the layout of the heuristic, and of package device the number of
// threads, with what it says of all else. The heuristic itself knows nothing of load, because costs are kept as ratios
// to it.
func (p Problem) decide(wrong []target.Arm, snapshot *history.Snapshot) Plan {
	facts := p.sound(wrong)
	if p.Target != targetCPU {
		return Plan{Config: facts}
	}
	curve, measured := p.known(snapshot)
	opt := p.device
	opt.Runs, opt.Missing, opt.Measured = []device.Strategy{device.CPUOnly}, missingGPU, measured
	config := func(threads int) Config {
		c := facts
		for _, r := range Regimes {
			c = p.with(c, r, p.share(r, threads, facts, curve), wrong)
		}
		return c
	}
	opt.Stated = func(threads int) memory.Workspace {
		c := config(threads)
		return memory.Workspace{Bytes: uint64(c.WorkspaceBytes), Batch: c.Prefill.Batch}
	}
	use := device.Use{Context: p.context, Layout: string(facts.Layout), WeightBytes: uint64(p.LayoutBytes(facts.Layout))}
	d, err := device.Decide(p.Host, p.gpus, opt.Needs(p.Model, use), opt)
	if err != nil {
		panic("tuner: Open checks the options of device")
	}
	d.Threads = p.bounded(d.Threads)
	return Plan{Config: config(d.Threads.Value), Device: &d}
}

// bounded is a number of threads as far as they may be used, which the config keeps to.
func (p Problem) bounded(c device.Choice[int]) device.Choice[int] {
	if most := p.threads(); c.Value > most {
		c.Reason = fmt.Sprintf("no more than %d may be used; else %d: %s", most, c.Value, c.Reason)
		c.Value, c.Limit = most, device.LimitCores
	}
	return c
}

// share is how many of the threads that were decided on a regime takes. A caller's word holds for all regimes, and each
// has a curve of its own where one was learned. Load and bandwidth bound decoding; a prompt takes every core.
func (p Problem) share(r target.Regime, decided int, facts Config, curve Curve) int {
	switch {
	case p.device.Off || p.device.Overrides.Threads > 0:
		return decided
	case len(curve[r]) > 1:
		return curve.best(r, p.threads())
	case r == target.Prefill:
		return facts.Prefill.Threads
	}
	return decided
}

// with is c with a number of threads for a regime, as far as they may be used, unless that was found to give wrong
// results.
func (p Problem) with(c Config, r target.Regime, threads int, wrong []target.Arm) Config {
	arm := c.Arm(r)
	arm.Threads = max(1, min(threads, p.threads()))
	if !slices.Contains(wrong, arm) {
		c = c.with(r, arm)
	}
	c.WorkspaceBytes = p.workspace(c)
	return c
}

// known is what other models taught about this host under these limits: the thread curve of the newest that has one,
// and the read bandwidth.
func (p Problem) known(snapshot *history.Snapshot) (Curve, device.Measurements) {
	var curve Curve
	var m device.Measurements
	for _, l := range p.neighbours(snapshot) {
		var other Curve
		if m.Curve == nil && json.Unmarshal(l.Curve, &other) == nil && len(other[target.Decode]) > 1 {
			curve, m.Curve, m.CurveOf = other, other[target.Decode], l.ModelName
		}
		var proof Certificate
		if m.ReadBandwidth > 0 || json.Unmarshal(l.Certificate, &proof) != nil {
			continue
		}
		if roof := proof.Roofline; roof.Residency == "memory" && roof.ReadThreads >= p.Host.CPU.UsablePhysical {
			m.ReadBandwidth = uint64(roof.ReadBandwidth)
		}
	}
	return curve, m
}

// neighbours are the configs of any model that were learned on this very host, limits and kernel table, the newest first.
func (p Problem) neighbours(snapshot *history.Snapshot) []history.Learned {
	if snapshot == nil {
		return nil
	}
	identity, envelope := fields(p.identity()), fields(p.Host.Envelope())
	var list []history.Learned
	for _, l := range snapshot.Learned {
		if l.Target == p.Target && l.Signature == p.domain().signature() && len(differing(identity, l.Identity)) == 0 && len(differing(envelope, l.Envelope)) == 0 {
			list = append(list, l)
		}
	}
	slices.SortStableFunc(list, func(a, b history.Learned) int { return b.MeasuredAt.Compare(a.MeasuredAt) })
	return list
}
