package tuner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// Outcome is how a check of the learned config ended.
type Outcome string

// The outcomes.
const (
	Confirmed Outcome = "CONFIRMED" // right, and no slower than the default
	Failed    Outcome = "FAILED"    // wrong, or proven slower
	Undecided Outcome = "INCONCLUSIVE"
	Proposed  Outcome = "PROPOSED" // of a received config of an engine: not checked here, where its program is not
)

// slack is how much slower than the default a learned setting may be within a confirmation: below it the difference
// is not worth a tune.
const slack = 0.01

// ErrNothingLearned means that a check was asked for where nothing was measured yet.
var ErrNothingLearned = errors.New("nothing was learned here yet; run tune first")

// Verification is the result of a paired check, now, of what was learned against the default.
type Verification struct {
	Verdict Outcome       `json:"verdict"`
	Model   string        `json:"model"`
	Source  Source        `json:"source"`
	Regimes []RegimeCheck `json:"regimes"`
	Elapsed float64       `json:"elapsed_seconds"`
}

// RegimeCheck is the part of a Verification that belongs to one regime.
type RegimeCheck struct {
	Regime  target.Regime `json:"regime"`
	Verdict Outcome       `json:"verdict"`
	Ratio   Ratio         `json:"ratio"`
	Reason  string        `json:"reason"`
	// LearnedNs is what one pass took with the learned setting, in the middle of the samples; 0 = it was not measured.
	LearnedNs float64 `json:"learned_ns"`

	verified bool    // bit for bit
	baseNs   float64 // what the default took
}

// Verify compares the learned config of a model with the default on this host: first bit for bit, then in interleaved
// pairs, within budget. It changes nothing, also not what Plan wants to have checked again (Recheck): see the decisions.
func (t *Tuner) Verify(ctx context.Context, model string, budget time.Duration) (*Verification, error) {
	if err := t.may("verify", ModeTune, ModeAdvise); err != nil {
		return nil, err
	}
	plan, err := t.Plan(ctx, model)
	if err != nil {
		return nil, err
	}
	if plan.Source == Heuristic {
		return nil, fmt.Errorf("verify %s: %w", plan.Model, ErrNothingLearned)
	}
	r, err := t.newTune(ctx, model, Budget{Time: budget, Target: plan.Config.target()})
	if err != nil {
		return nil, err
	}
	unlock, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	r.problem.Layout = plan.Config.Layout // it may be one that no run would try of its own accord
	measuring, cancel := r.until(ctx, r.deadline)
	defer cancel()
	if err := r.open(measuring); err != nil {
		if _, late := r.outOfTime(ctx, measuring, err); late != nil {
			return nil, late
		}
		return nil, ctx.Err()
	}
	defer r.target.Close()
	v := &Verification{Verdict: Confirmed, Model: plan.Model, Source: plan.Source}
	for i, regime := range Regimes {
		end := r.now().Add(r.deadline.Sub(r.now()) / time.Duration(len(Regimes)-i))
		check := r.check(measuring, regime, plan.Config.Arm(regime), duelBlocks, end)
		v.Regimes = append(v.Regimes, check)
		v.Verdict = worse(v.Verdict, check.Verdict)
	}
	v.Elapsed = r.now().Sub(r.started).Seconds()
	return v, ctx.Err()
}

// worse is the graver of two outcomes.
func worse(a, b Outcome) Outcome {
	for _, o := range []Outcome{Failed, Undecided} {
		if a == o || b == o {
			return o
		}
	}
	return Confirmed
}

// check compares an arm with the default in at most so many blocks, until end.
func (r *tune) check(ctx context.Context, regime target.Regime, learned target.Arm, blocks int, end time.Time) RegimeCheck {
	c := RegimeCheck{Regime: regime, Verdict: Undecided}
	standard := r.problem.Default().Arm(regime)
	r.tell(Event{Phase: "verify", Regime: regime, Text: learned.String()})
	subject, err := r.target.Prepare(ctx, regime, learned)
	switch {
	case ctx.Err() != nil:
		c.Reason = "the time was used up"
		return c
	case err != nil:
		r.disprove(learned, err)
		c.Verdict, c.Reason = Failed, err.Error()
		return c
	}
	c.verified = true
	switch {
	case learned == standard:
		c.Verdict, c.Reason = Confirmed, "the learned setting is the default, and right"
		ctx, cancel := r.until(ctx, end)
		defer cancel()
		if rate, err := r.timer.Measure(ctx, subject, leastBlocks); err == nil {
			c.LearnedNs = rate.Median
		}
		return c
	}
	base, err := r.target.Prepare(ctx, regime, standard)
	if err != nil {
		c.Reason = "the default could not be prepared: " + err.Error()
		return c
	}
	ctx, cancel := r.until(ctx, end)
	defer cancel()
	result, err := r.timer.Compare(ctx, base, subject, measure.CompareOptions{Blocks: blocks, Looks: min(duelLooks, blocks/leastBlocks), Confidence: duelConfidence, MinGain: -slack})
	c.Ratio, c.LearnedNs = ratioOf(result), result.Cand.Median
	switch {
	case err != nil && ctx.Err() == nil:
		c.Verdict, c.Reason = Failed, err.Error()
	case result.Blocks < leastBlocks:
		c.Reason = "too few samples within the budget"
	case result.High < 1-slack:
		c.Verdict = Failed
	case result.Low > 1-slack:
		c.Verdict = Confirmed
	}
	return c
}
