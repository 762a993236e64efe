package bandit

import (
	"math"
	"slices"
)

// effects is a prior of log cost over a space: every knob has an effect of its own, and all knobs together have one
// more, so that
//
//	cov(p, q) = Σ_k own[k]² · corr_k(p_k, q_k) + joint² · Π_k corr_k(p_k, q_k)
//
// An Ordinal knob's values correlate by their distance, Matérn with ν = 3/2 (Rasmussen and Williams 2006, eq. 4.17);
// a Categorical one's not at all. Costs of machines multiply, so that logarithms add: what one kernel teaches about
// threads holds for the next.
type effects struct {
	knobs []Knob
	own   []float64   // standard deviation of each knob's effect
	joint float64     // standard deviation of the effect of the combination
	reach float64     // length scale of Ordinal knobs, in units of their whole range
	corr  [][]float64 // per knob, the correlation of value u with v at [u*count+v]
}

// The prior guesses of the scales, and the values tried for them: from what is lost in noise to a factor of two and
// more. Chosen on the synthetic tables; see Decisions.
const (
	priorOwn   = 0.2
	priorJoint = 0.1
	priorReach = 1
)

var (
	triedScales = []float64{0.003, 0.02, 0.06, 0.2, 0.6}
	triedReach  = []float64{0.06, 0.25, 0.5, 1}
)

func newEffects(knobs []Knob) effects {
	e := effects{knobs: knobs, own: make([]float64, len(knobs)), joint: priorJoint}
	for k := range e.own {
		e.own[k] = priorOwn
	}
	return e.reaching(priorReach)
}

// reaching returns e with another length scale.
func (e effects) reaching(reach float64) effects {
	e.reach = reach
	e.corr = make([][]float64, len(e.knobs))
	for k, knob := range e.knobs {
		e.corr[k] = correlations(knob, reach)
	}
	return e
}

// scaled returns e with another scale for knob k, or for the combination where k is len(knobs).
func (e effects) scaled(k int, scale float64) effects {
	if k == len(e.knobs) {
		e.joint = scale
		return e
	}
	e.own = slices.Clone(e.own)
	e.own[k] = scale
	return e
}

func correlations(knob Knob, reach float64) []float64 {
	count := len(knob.Values)
	table := make([]float64, count*count)
	for u := range count {
		for v := range count {
			switch {
			case u == v:
				table[u*count+v] = 1
			case knob.Kind == Ordinal:
				d := math.Sqrt(3) * math.Abs(float64(u-v)) / (reach * float64(count-1))
				table[u*count+v] = (1 + d) * math.Exp(-d)
			}
		}
	}
	return table
}

// cov returns the prior covariance of the log costs of p and q.
func (e *effects) cov(p, q Point) float64 {
	sum, product := 0.0, e.joint*e.joint
	for k := range p {
		c := e.corr[k][p[k]*len(e.knobs[k].Values)+q[k]]
		sum += e.own[k] * e.own[k] * c
		product *= c
	}
	return sum + product
}

// logPrior is a log-normal prior of the scales, wide enough to matter only where little is measured.
func (e *effects) logPrior() float64 {
	square := func(x float64) float64 { return x * x }
	p := -0.1 * square(math.Log(e.joint/priorJoint))
	for _, own := range e.own {
		p -= 0.1 * square(math.Log(own/priorOwn))
	}
	return p
}
