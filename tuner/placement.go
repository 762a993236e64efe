package tuner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/memory"
	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// Placement says where the matmuls of a model run and how that was decided.
type Placement struct {
	Strategy Strategy `json:"strategy"`
	// Ratio is the time of a request of the objective on the CPU over that on the GPU, each with its own best config; 0
	// where they were not compared.
	Ratio   Ratio         `json:"ratio,omitzero"`
	Regimes []RegimeCheck `json:"regimes,omitempty"` // of the GPU against the CPU
	Reason  string        `json:"reason"`
}

// The shares of the budget of a run on both targets. What the CPU does not use, the GPU gets.
const (
	cpuShare     = 0.45
	compareShare = 0.1
)

// tuneBest tunes on whatever this host has: on the CPU, and on a GPU where there is one, and decides between them by
// measurement. The certificate is that of the better one; each is published under its own target.
func (t *Tuner) tuneBest(ctx context.Context, model string, b Budget) (*Certificate, error) {
	started := t.opt.Now()
	_, absent := t.card(ctx, b.Device)
	if absent != nil && !errors.Is(absent, ErrNoGPU) {
		return nil, absent // ctx has ended
	}
	onCPU := b
	onCPU.Target, onCPU.Device = targetCPU, ""
	if absent != nil {
		note := fmt.Sprintf("no GPU: %s; tuning the CPU", why(absent))
		t.progress(Event{Phase: "gpu", Text: note, Left: b.Time})
		cert, err := t.tuneOn(ctx, model, onCPU, nil)
		return cert.placed(&Placement{Strategy: CPUOnly, Reason: note}), err
	}
	onCPU.Time = time.Duration(cpuShare * float64(b.Time))
	cpu, err := t.tuneOn(ctx, model, onCPU, nil)
	if err != nil || cpu.Interrupted {
		return cpu.placed(&Placement{Strategy: CPUOnly, Reason: "the run ended before the GPU was tuned"}), err
	}
	onGPU := b
	onGPU.Target, onGPU.Time = targetCUDA, b.Time-t.opt.Now().Sub(started)
	gpu, err := t.tuneOn(ctx, model, onGPU, cpu)
	if err != nil {
		cpu.Warnings = append(cpu.Warnings, "the GPU could not be tuned: "+err.Error())
		return cpu.placed(&Placement{Strategy: CPUOnly, Reason: "the GPU could not be tuned: " + err.Error()}), nil
	}
	if gpu.Placement.Strategy == CPUOnly {
		cpu.Warnings = append(cpu.Warnings, gpu.Warnings...)
		return cpu.placed(gpu.Placement), nil
	}
	return gpu, nil
}

// placed is the certificate with its placement.
func (c *Certificate) placed(p *Placement) *Certificate {
	if c != nil {
		c.Placement = p
	}
	return c
}

// placementTime is kept back for the comparison with a rival.
func (r *tune) placementTime() time.Duration {
	if r.rival == nil {
		return 0
	}
	return time.Duration(compareShare * float64(r.budget.Time))
}

// place decides between what this run found for the GPU and what its rival is on the CPU.
func (r *tune) place(ctx context.Context, cert *Certificate) {
	if r.problem.Target != targetCUDA {
		return
	}
	if lost := r.lost(); lost != nil {
		cert.Placement = &Placement{Strategy: CPUOnly, Reason: "the GPU was lost: " + lost.Error()}
		r.warn(cert.Placement.Reason)
		return
	}
	share := r.problem.fits(cert.Best.Config)
	if r.rival == nil && share == 1 {
		cert.Placement = &Placement{Strategy: GPUOnly, Reason: "the GPU was asked for; it was not compared with the CPU"}
		return
	}
	if r.rival == nil {
		cert.Placement = &Placement{Strategy: CPUOnly, Reason: fmt.Sprintf("only %.0f %% of the layers fit the card's memory; target auto compares with the CPU what that is worth", 100*share)}
		r.warn(cert.Placement.Reason)
		return
	}
	r.tell(Event{Phase: "placement", Text: "comparing the GPU with the CPU, each with its best config"})
	checks, err := r.againstCPU(ctx, cert)
	cert.Placement = decide(r.problem.Objective, r.apart(cert, checks), share)
	if err != nil && ctx.Err() == nil {
		cert.Placement.Reason = "the GPU could not be compared with the CPU in pairs: " + err.Error() + "; " + cert.Placement.Reason
	}
	if before := r.placedBefore(); before != nil && before.Strategy == GPUOnly && !cert.Placement.settled(share) {
		cert.Placement = &Placement{Strategy: GPUOnly, Ratio: before.Ratio, Regimes: checks,
			Reason: "an earlier run decided for the GPU, and this one decided nothing: " + cert.Placement.Reason}
	}
	if cert.Placement.Strategy == CPUOnly {
		r.warn("the CPU stays: " + cert.Placement.Reason)
	}
}

// settled reports whether p is what was measured, and not what is left for want of a measurement.
func (p *Placement) settled(share float64) bool {
	return p.Strategy == GPUOnly || share < 1 || p.Ratio.High > 0 && p.Ratio.High < 1
}

// placedBefore is what the newest run on this very host decided, nil if none did.
func (r *tune) placedBefore() *Placement {
	for _, c := range r.problem.here(r.published()) {
		if c.proof.Placement != nil {
			return c.proof.Placement
		}
	}
	return nil
}

// fits is the part of the layers that the card has room for beside the workspace of c.
func (p Problem) fits(c Config) float64 {
	if p.Card == nil || p.Card.TotalBytes == 0 {
		return 1
	}
	room := float64(memory.Defaults.Usable(p.Card.TotalBytes)) - float64(c.WorkspaceBytes)
	layers := float64(max(1, p.Model.Layers))
	return min(1, max(0, math.Floor(room/float64(max(1, p.LayoutBytes(c.Layout)))*layers)/layers))
}

// lost is why the target refuses everything from now on, if it does.
func (r *tune) lost() error {
	if t, ok := r.target.(interface{ Lost() error }); ok {
		return t.Lost()
	}
	return nil
}

// againstCPU compares both answers in every regime of a request, in interleaved pairs. Each regime gets its part of what is
// left: where it is too short for one, such as a prompt on a slow CPU, the others are compared all the same.
func (r *tune) againstCPU(ctx context.Context, cert *Certificate) ([]RegimeCheck, error) {
	rig, err := r.tuner.opt.Rig(ctx, r.problem.on(targetCPU), r.budget.Seed)
	if err != nil {
		return nil, err
	}
	defer rig.Target.Close()
	regimes := slices.DeleteFunc(slices.Clone(Regimes), func(regime target.Regime) bool { return r.problem.Objective.tokens(regime) == 0 })
	var checks []RegimeCheck
	for i, regime := range regimes {
		part, cancel := r.until(ctx, r.now().Add(r.deadline.Sub(r.now())/time.Duration(len(regimes)-i)))
		check, err := r.inPairs(part, rig.Target, regime, cert)
		late := part.Err() != nil
		cancel()
		if err != nil && !late {
			return checks, err
		}
		checks = append(checks, check)
	}
	return checks, ctx.Err()
}

// inPairs compares the answer of the rival on its target with this run's.
func (r *tune) inPairs(ctx context.Context, rival target.Target, regime target.Regime, cert *Certificate) (RegimeCheck, error) {
	check := RegimeCheck{Regime: regime, Verdict: Undecided}
	cpu, err := rival.Prepare(ctx, regime, r.rival.Best.Config.Arm(regime))
	if err != nil {
		return check, err
	}
	gpu, err := r.target.Prepare(ctx, regime, cert.Best.Config.Arm(regime))
	if err != nil {
		return check, err
	}
	c, err := r.timer.Compare(ctx, cpu, gpu, measure.CompareOptions{
		Blocks: hintBlocks, Looks: hintBlocks / leastBlocks, Confidence: duelConfidence, MinGain: minGain,
	})
	check.Ratio, check.baseNs = ratioOf(c), c.Base.Median
	return check, err
}

// apartDoubt is by how much a ratio of rates may be wrong that were not measured in pairs but minutes apart: our choice, far
// above what hosts were seen to drift.
const apartDoubt = 2

// apart completes the comparison with the CPU: a regime for which there was no time for pairs is judged by the rates that
// both runs measured, one after the other.
func (r *tune) apart(cert *Certificate, checks []RegimeCheck) []RegimeCheck {
	var list []RegimeCheck
	for _, regime := range Regimes {
		if r.problem.Objective.tokens(regime) == 0 {
			continue
		}
		i := slices.IndexFunc(checks, func(c RegimeCheck) bool { return c.Regime == regime })
		if i >= 0 && checks[i].Ratio.Low > 0 {
			list = append(list, checks[i])
			continue
		}
		c := RegimeCheck{Regime: regime, Verdict: Undecided, Reason: "not compared with the CPU in the time left"}
		if cpu, gpu := r.rival.bestNs(regime), cert.bestNs(regime); cpu > 0 && gpu > 0 {
			c.Ratio, c.baseNs = Ratio{Estimate: cpu / gpu, Low: cpu / gpu / apartDoubt, High: cpu / gpu * apartDoubt}, cpu
			c.Reason = "measured apart and not in pairs, so by a factor of 2 uncertain"
		}
		list = append(list, c)
	}
	return list
}

// bestNs is what a token takes in a regime with what c decided for it; 0 = it was not decided.
func (c *Certificate) bestNs(regime target.Regime) float64 {
	for _, v := range c.inForce() {
		switch {
		case v.Regime != regime:
		case v.Verdict == measure.Adopt:
			return v.BestNs
		case v.Verdict == measure.Keep:
			return v.DefaultNs
		}
	}
	return 0
}

// decide takes the GPU where a request is proven to be faster there. The CPU, which every host has, needs no proof. share is
// the part of the layers that fit the card: where it is not all, only a split could use the card. A token goes through its
// layers one after the other, so a split takes the sum of both parts, and is never better than the better one alone: it
// matters only where the card is too small. Its time is reckoned from both measured rates, and told; it is not measured, and
// so not taken.
func decide(o Objective, checks []RegimeCheck, share float64) *Placement {
	p := &Placement{Strategy: CPUOnly, Regimes: checks}
	var verdicts []RegimeVerdict
	for _, c := range checks {
		if c.Ratio.Low <= 0 {
			p.Reason = fmt.Sprintf("%s could not be compared with the CPU in the time left", c.Regime)
			return p
		}
		verdicts = append(verdicts, RegimeVerdict{Regime: c.Regime, Verdict: measure.Adopt, DefaultNs: c.baseNs, Ratio: c.Ratio})
	}
	p.Ratio = requestRatio(o, verdicts)
	how := ""
	for _, c := range checks {
		if c.Ratio.Confidence == 0 {
			p.Ratio.Confidence, how = 0, " (not all was measured in pairs)"
		}
	}
	switch {
	case p.Ratio.Estimate == 0:
		p.Reason = "the time ended before the GPU was compared with the CPU"
	case p.Ratio.Low > 1 && share < 1:
		split := 1 / (share/p.Ratio.Estimate + 1 - share)
		p.Reason = fmt.Sprintf("only %.0f %% of the layers fit the card's memory; with these there and the rest on the CPU, a request would be served %.2f times as fast as on the CPU by the measured rates, transfers left out (estimate); a split is not measured, so it is not taken", 100*share, split)
	case p.Ratio.Low > 1:
		p.Strategy = GPUOnly
		p.Reason = fmt.Sprintf("a request takes %.2f times as long on the CPU%s; a split between both would lie between them", p.Ratio.Estimate, how)
	case p.Ratio.High < 1:
		p.Reason = fmt.Sprintf("a request is faster on the CPU: the GPU takes %.2f times as long%s", 1/p.Ratio.Estimate, how)
	default:
		p.Reason = "the GPU was not proven faster than the CPU" + how
	}
	return p
}

// target is where a config runs.
func (c Config) target() string {
	if c.Strategy == GPUOnly || c.Strategy == Hybrid {
		return targetCUDA
	}
	return targetCPU
}

// answering returns p on the target that answers for it: that of a pin, else the GPU where a run decided for it, else the
// CPU. The note says why it is not the GPU where something was learned on one; late, that it may be once the driver answers.
func (t *Tuner) answering(ctx context.Context, p Problem, snapshot *history.Snapshot) (on Problem, note string, late bool) {
	gpu := p.on(targetCUDA)
	if pin, ok := p.pin(snapshot); ok {
		if pin.target() == targetCPU {
			return p, "", false
		}
		card, err := t.cardAtOnce(ctx)
		if err != nil { // without one the pin says that it is not possible here
			return p, "", errors.Is(err, errDriverLate)
		}
		gpu.Card = card
		return gpu, "", false
	}
	if p.unused != "" || len(gpu.entries(snapshot)) == 0 && len(gpu.shipped()) == 0 {
		return p, "", false
	}
	card, err := t.cardAtOnce(ctx)
	if err != nil {
		return p, "; a config for a GPU is known, but there is " + err.Error(), errors.Is(err, errDriverLate)
	}
	gpu.Card = card
	for _, c := range append(gpu.learned(snapshot), gpu.shipped()...) {
		switch {
		case !c.ok:
			note = "; " + c.reason
		case c.proof.Placement == nil || c.proof.Placement.Strategy == CPUOnly:
			return p, "", false
		default:
			return gpu, "", false
		}
	}
	return p, note, false
}

// answeringForSure is answering for what must not happen to the wrong target: it waits for a driver as long as that takes.
func (t *Tuner) answeringForSure(ctx context.Context, p Problem, snapshot *history.Snapshot) (Problem, error) {
	on, _, late := t.answering(ctx, p, snapshot)
	if !late {
		return on, nil
	}
	if _, err := t.card(ctx, ""); err != nil && !errors.Is(err, ErrNoGPU) {
		return p, err
	}
	on, _, _ = t.answering(ctx, p, snapshot)
	return on, nil
}
