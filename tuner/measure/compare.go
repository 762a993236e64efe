package measure

import (
	"context"
	"fmt"
	"math"
)

// Comparison is what is known of a candidate's cost beside the base's.
type Comparison struct {
	Ratio      float64 // base cost / candidate cost: above 1 the candidate is faster; 1 when nothing is known
	Low, High  float64 // interval of Ratio; unbounded (0, math.MaxFloat64) with too few blocks
	Confidence float64 // that the interval holds the true ratio, whenever the comparison stopped
	Blocks     int     // blocks that count, four samples each
	Censored   int     // blocks that the host disturbed; they take part in nothing but Base and Cand.CensoredSamples
	LogRatios  []float64
	Base, Cand Summary
	Warnings   []error // ErrFewSamples, ErrUnsteady, ErrNoisy, ErrCensored, ErrUnwatched
}

// CompareOptions says how long a comparison may go on and what ends it.
type CompareOptions struct {
	// Blocks is the most blocks to take. If 0, 40.
	Blocks int
	// Looks is how often, evenly spaced, the comparison asks whether it may stop. If 0, 4; with 1 it never stops early.
	// There is at most one look in 5 blocks.
	Looks int
	// Confidence is that of the interval over all looks together, below 1. If 0, 0.95.
	Confidence float64
	// MinGain and NoiseFloor are what Decide will be asked with: the comparison stops when its answer is settled.
	MinGain, NoiseFloor float64
}

// Compare measures cand beside base in fresh blocks until Decide is settled or the blocks are used up. The interval is
// a repeated confidence interval over the looks of a group-sequential plan (Lan & DeMets, 1983; Jennison & Turnbull,
// 1989): stopping early does not make a false alarm more likely. On an error, among them that of ctx, the
// Comparison holds what was measured before it, with an interval that is still valid.
func (t *Timer) Compare(ctx context.Context, base, cand Subject, opt CompareOptions) (Comparison, error) {
	pair := t.Pair(base, cand)
	plan := opt.plan()
	levels := plan.levels()
	for look, level := range levels {
		for done := plan.before(look); done < plan.at(look); done++ {
			if pair.censored >= plan.blocks { // the host is too disturbed to go on
				return pair.result(plan.interrupted(look), plan.confidence), nil
			}
			if err := pair.Block(ctx); err != nil {
				return pair.result(plan.interrupted(look), plan.confidence), err
			}
		}
		c := pair.result(level, plan.confidence)
		if Decide(c, opt.MinGain, opt.NoiseFloor) != Inconclusive {
			return c, nil
		}
	}
	return pair.result(levels[len(levels)-1], plan.confidence), nil
}

// plan fills in the defaults.
func (o CompareOptions) plan() plan {
	blocks := max(1, orDefault(o.Blocks, 40))
	looks := min(orDefault(o.Looks, 4), blocks/5)
	return plan{blocks: blocks, looks: max(1, looks), confidence: orDefault(o.Confidence, 0.95)}
}

// NoiseFloor compares s with itself over that many blocks (if 0, 40) and returns the largest gain, as a fraction,
// that the 95 % interval of doing nothing allows: what this host, now, cannot tell from no gain at all. It fails with
// ErrFewSamples if fewer than 6 blocks counted.
func (t *Timer) NoiseFloor(ctx context.Context, s Subject, blocks int) (float64, error) {
	pair := t.Pair(s, s)
	for range orDefault(blocks, 40) {
		if err := pair.Block(ctx); err != nil {
			return 0, err
		}
	}
	_, low, high := Estimate(pair.logRatios, 0.95)
	if math.IsInf(high, 1) {
		return 0, fmt.Errorf("measure: noise floor of %s: %w: %d blocks, %d censored", s.Name, ErrFewSamples, len(pair.logRatios), pair.censored)
	}
	return math.Expm1(max(-low, high)), nil
}
