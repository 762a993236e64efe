package measure

import (
	"context"
	"errors"
	"math"
	"slices"
)

// Pair is a comparison that grows block by block, for a race that gives each arm as much time as it deserves.
//
// A block is four samples in the order base, candidate, candidate, base (ABBA) or its mirror (BAAB), as a coin falls,
// and yields one log ratio. Slow drift cancels within a block; whatever else the host does falls on either subject
// with equal chance, so that under equal costs the log ratio is symmetric about 0 by construction.
type Pair struct {
	// Confidence is that of the interval in Result, taken as if looked at once. If 0, 0.95.
	Confidence float64

	timer       *Timer
	base, cand  Subject
	readied     bool
	readyBase   Ready
	readyCand   Ready
	logRatios   []float64
	baseSamples Summary
	candSamples Summary
	censored    int
}

// Pair begins a comparison of cand with base. Nothing is run before the first Block.
func (t *Timer) Pair(base, cand Subject) *Pair {
	return &Pair{timer: t, base: base, cand: cand}
}

// Block warms both subjects if this is the first block, then runs one block. A block with a censored sample does not
// count and is repeated, up to three times; if all are censored the comparison has not grown, which is no error.
func (p *Pair) Block(ctx context.Context) error {
	if err := p.ready(ctx); err != nil {
		return err
	}
	for tries := 0; tries < attempts; {
		counted, err := p.try(ctx)
		if errors.Is(err, errInterrupted) {
			continue
		}
		if counted || err != nil {
			return err
		}
		tries++
	}
	return nil
}

// errInterrupted means that a block has to begin anew.
var errInterrupted = errors.New("interrupted")

func (p *Pair) ready(ctx context.Context) (err error) {
	if p.readied {
		return nil
	}
	if p.readyBase, err = p.timer.ready(ctx, p.base); err != nil {
		return err
	}
	if p.readyCand, err = p.timer.ready(ctx, p.cand); err != nil {
		return err
	}
	p.readied = true
	return nil
}

// try runs one block and reports whether it counts. Samples of a block cut short by an error are dropped, and those of one
// that is interrupted, which begins anew: no block spans a rest.
func (p *Pair) try(ctx context.Context) (counted bool, err error) {
	if err := p.timer.rest(ctx, p.base, p.readyBase.Iterations); err != nil {
		return false, err
	}
	baseFirst := p.timer.baseFirst()
	p.timer.watch().mark()
	var costs [4]float64
	counted = true
	for slot := range costs {
		if interrupted(ctx) {
			return false, errInterrupted
		}
		disturbed := false
		if p.isBase(slot, baseFirst) {
			costs[slot], disturbed, err = p.timer.sample(ctx, p.base, p.readyBase.Iterations)
		} else {
			costs[slot], disturbed, err = p.timer.sample(ctx, p.cand, p.readyCand.Iterations)
		}
		if err != nil {
			return false, err
		}
		counted = counted && !disturbed
	}
	p.record(costs, baseFirst, counted)
	return counted, nil
}

// isBase reports whether a slot is the base's: the outer two of a block that base begins, else the inner two.
func (p *Pair) isBase(slot int, baseFirst bool) bool { return (slot == 0 || slot == 3) == baseFirst }

func (p *Pair) record(costs [4]float64, baseFirst, counted bool) {
	outer, inner := []float64{costs[0], costs[3]}, []float64{costs[1], costs[2]}
	if !baseFirst {
		outer, inner = inner, outer
	}
	if !counted {
		p.censored++
		p.baseSamples.CensoredSamples = append(p.baseSamples.CensoredSamples, outer...)
		p.candSamples.CensoredSamples = append(p.candSamples.CensoredSamples, inner...)
		return
	}
	p.baseSamples.Samples = append(p.baseSamples.Samples, outer...)
	p.candSamples.Samples = append(p.candSamples.Samples, inner...)
	p.logRatios = append(p.logRatios, (math.Log(outer[0])+math.Log(outer[1])-math.Log(inner[0])-math.Log(inner[1]))/2)
}

// Result is the comparison so far. Its interval is that of a fixed number of blocks: stopping when it looks good makes
// false alarms more likely than 1-Confidence. That does a race no harm, as long as what it finds is put to Compare,
// which takes fresh blocks and counts its looks.
func (p *Pair) Result() Comparison {
	confidence := orDefault(p.Confidence, 0.95)
	return p.result(confidence, confidence)
}

// result states the interval of the given level as one of the given confidence.
func (p *Pair) result(level, confidence float64) Comparison {
	centre, low, high := Estimate(p.logRatios, level)
	c := Comparison{
		Ratio: math.Exp(centre), Low: math.Exp(low), High: min(math.Exp(high), math.MaxFloat64), Confidence: confidence,
		Blocks: len(p.logRatios), Censored: p.censored, LogRatios: slices.Clone(p.logRatios),
		Base: p.timer.summarize(p.baseSamples, p.readyBase), Cand: p.timer.summarize(p.candSamples, p.readyCand),
	}
	c.Warnings = p.timer.warnings(doubt{
		c.Blocks, c.Censored, !math.IsInf(high, 1), p.readyBase.Steady && p.readyCand.Steady, max(c.Base.CV, c.Cand.CV),
	})
	return c
}
