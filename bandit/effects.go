package bandit

import (
	"math"
	"slices"
)

// effects is a prior of log cost over a space: every knob has an effect of its own, and all knobs together have one
// more, so that
//
//	cov(p, q) = Σ_k scale[k]² · corr_k(p_k, q_k) + scale[last]² · Π_k corr_k(p_k, q_k)
//
// An Ordinal knob's values correlate by their distance, Matérn with ν = 3/2 (Rasmussen and Williams 2006, eq. 4.17);
// a Categorical one's not at all. Costs of machines multiply, so that logarithms add: what one kernel teaches about
// threads holds for the next.
type effects struct {
	knobs []Knob
	scale []float64   // standard deviation of each knob's effect, and at the end that of the combination
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
	e := effects{knobs: knobs, scale: make([]float64, len(knobs)+1)}
	for k := range e.scale {
		e.scale[k] = e.prior(k)
	}
	return e.reaching(priorReach)
}

// prior returns the prior guess of scale k.
func (e effects) prior(k int) float64 {
	if k == len(e.knobs) {
		return priorJoint
	}
	return priorOwn
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

// scaled returns e with another scale number k.
func (e effects) scaled(k int, scale float64) effects {
	e.scale = slices.Clone(e.scale)
	e.scale[k] = scale
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

// row returns the correlations of value v of knob k with every value.
func (e *effects) row(k, v int) []float64 {
	count := len(e.knobs[k].Values)
	return e.corr[k][v*count : (v+1)*count]
}

// variance is that of the log cost of any point.
func (e *effects) variance() float64 {
	sum := 0.0
	for _, s := range e.scale {
		sum += s * s
	}
	return sum
}

// cov writes the prior covariances of p with the first points of some to dst, as many as it holds.
func (e *effects) cov(p Point, some columns, dst []float64) {
	last := len(e.knobs)
	joint := make([]float64, len(dst))
	for i := range joint {
		joint[i], dst[i] = e.scale[last]*e.scale[last], 0
	}
	for k, v := range p {
		row, own, values := e.row(k, v), e.scale[k]*e.scale[k], some[k][:len(dst)]
		for i, u := range values {
			c := row[u]
			dst[i] += own * c
			joint[i] *= c
		}
	}
	for i, c := range joint {
		dst[i] += c
	}
}

// parts returns the correlations between points of which cov is the weighted sum: of each knob, and at the end of all
// together. Each is a triangle, row i of which ends with its element i.
func (e *effects) parts(points columns) [][]float64 {
	n := len(points[0])
	parts := make([][]float64, len(e.scale))
	last := len(e.knobs)
	parts[last] = make([]float64, n*n)
	for i := range n {
		for j := range i + 1 {
			parts[last][i*n+j] = 1
		}
	}
	for k := range e.knobs {
		parts[k] = make([]float64, n*n)
		for i, v := range points[k] {
			row := e.row(k, int(v))
			for j, u := range points[k][:i+1] {
				parts[k][i*n+j] = row[u]
				parts[last][i*n+j] *= row[u]
			}
		}
	}
	return parts
}

// logPrior is a log-normal prior of the scales, wide enough to matter only where little is measured.
func (e *effects) logPrior() float64 {
	p := 0.0
	for k, s := range e.scale {
		d := math.Log(s / e.prior(k))
		p -= 0.1 * d * d
	}
	return p
}
