package measure

import (
	"math"
	"sync"
)

// A look is one moment at which a comparison may stop. Looking often at growing data and stopping when it pleases
// makes false alarms likely; a group-sequential boundary prices the looks so that all of them together err no more
// often than one.

// spent is the part of alpha that may have been used when the share t of the blocks is in: the power family with
// exponent 2 (Kim & DeMets, 1987). The family of O'Brien & Fleming asks 4.3 sigma at a quarter of the blocks, which a
// rank test of ten blocks cannot show at all; this one asks 3.0.
func spent(alpha, t float64) float64 { return alpha * t * t }

// boundaries returns the critical values |Z| of successive looks at the information shares t (rising, the last is 1)
// of a process with independent normal increments, so that under the null hypothesis the probability of having
// crossed by look i is spend(t[i]) (Lan & DeMets, 1983). The densities are carried forward by the recursion of
// Armitage, McPherson & Rowe (1969).
func boundaries(t []float64, spend func(float64) float64) []float64 {
	critical := make([]float64, len(t))
	var paths density // of B(t) = Z*sqrt(t) on the paths that have not crossed
	for i := range t {
		before, used := 0.0, 0.0
		if i > 0 {
			before, used = t[i-1], spend(t[i-1])
		}
		sd := math.Sqrt(t[i] - before)
		edge := paths.edge(sd, spend(t[i])-used)
		critical[i] = edge / math.Sqrt(t[i])
		paths = paths.step(edge, sd)
	}
	return critical
}

// A density is a function sampled on a grid, with the weights that integrate it. The zero value is a unit mass at 0,
// where every path begins.
type density struct{ at, mass []float64 } // mass = density * weight

// gridPoints per look gives critical values to about 1e-5.
const gridPoints = 201

// step returns the density after a normal increment of that standard deviation, cut at ±edge (Simpson's rule).
func (d density) step(edge, sd float64) density {
	next := density{make([]float64, gridPoints), make([]float64, gridPoints)}
	h := 2 * edge / (gridPoints - 1)
	for i := range next.at {
		weight := h / 3 * [2]float64{2, 4}[i%2]
		if i == 0 || i == gridPoints-1 {
			weight = h / 3
		}
		next.at[i] = -edge + float64(i)*h
		next.mass[i] = weight * d.sum(func(u float64) float64 {
			z := (next.at[i] - u) / sd
			return math.Exp(-z*z/2) / (sd * math.Sqrt(2*math.Pi))
		})
	}
	return next
}

// edge returns the distance that the paths exceed with the given probability after an increment of standard
// deviation sd.
func (d density) edge(sd, probability float64) float64 {
	low, high := 0.0, 20.0
	for range 60 {
		mid := (low + high) / 2
		crossed := d.sum(func(u float64) float64 { return normalTail((mid-u)/sd) + normalTail((mid+u)/sd) })
		if crossed > probability {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// sum integrates f over the density.
func (d density) sum(f func(u float64) float64) float64 {
	if d.at == nil {
		return f(0)
	}
	total := 0.0
	for i, u := range d.at {
		total += d.mass[i] * f(u)
	}
	return total
}

// A plan is the looks of one comparison.
type plan struct {
	blocks, looks int
	confidence    float64
}

// levels remembers the answer of plan.levels: it is a pure function that costs some milliseconds.
var levels sync.Map // plan -> []float64

// before returns the number of blocks done when those of look i (from 0) begin.
func (p plan) before(i int) int { return p.blocks * i / p.looks }

// at returns the number of blocks at which look i (from 0) is taken.
func (p plan) at(i int) int { return p.blocks * (i + 1) / p.looks }

// levels returns, for each look, the confidence of the fixed-size interval whose use at all looks together keeps the
// plan's confidence: repeated confidence intervals (Jennison & Turnbull, 1989).
func (p plan) levels() []float64 {
	if known, ok := levels.Load(p); ok {
		return known.([]float64)
	}
	t := make([]float64, p.looks)
	for i := range t {
		t[i] = float64(p.at(i)) / float64(p.blocks)
	}
	critical := boundaries(t, func(t float64) float64 { return spent(1-p.confidence, t) })
	for i, z := range critical {
		t[i] = 1 - 2*normalTail(z)
	}
	levels.Store(p, t)
	return t
}

// interrupted returns the confidence of the interval for a comparison that something other than its own data ended
// before look i: what the looks before have not spent of alpha may all be spent now.
func (p plan) interrupted(i int) float64 {
	alpha := 1 - p.confidence
	return 1 - (alpha - spent(alpha, float64(p.before(i))/float64(p.blocks)))
}
