package bandit

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// datum is what a gaussian learns of one point.
type datum struct {
	point  int
	cost   float64 // natural logarithm of the cost
	effort float64 // natural logarithm of what measuring took
}

// gaussian is a Gaussian process over a space (Rasmussen and Williams 2006, sections 2.2, 2.7 and 5.4.1), with
//
//	cov(p, q) = s² · Π_k matern52(|p_k - q_k| / reach_k) + nugget · s² · [p = q]
//
// where the values of an Ordinal knob lie evenly from 0 to 1 and any two of a Categorical one are 1 apart. The reach of
// every knob and the nugget are those of the highest posterior probability among a few; s² and the mean follow from
// the data.
type gaussian struct {
	space  *Space
	varied []int     // the knobs that have a choice
	reach  []float64 // of each of them
	corr   [][]float64
	nugget float64

	points       []Point // that it is conditioned on
	factor       blas64.Triangular
	cost, effort target
	variance     float64 // s²
}

// target is one of the two things that a gaussian predicts.
type target struct {
	mean   float64
	weight []float64
}

// The values tried for the reach of a knob, in units of its range, and for the nugget; where they begin; and the
// precision of the prior of the logarithm of a reach. The variance s² has an inverse-gamma prior that is worth two points
// at a standard deviation of 0.3.
var (
	triedReaches = []float64{0.15, 0.4, 1, 2.5, 8}
	triedNuggets = []float64{0.0005, 0.005, 0.05, 0.3}
)

const (
	priorReachOf   = 1
	reachPrecision = 0.5
	priorNugget    = 0.005
	priorVariance  = 0.09
)

// newGaussian chooses the scales on data, one at a time.
func newGaussian(s *Space, data []datum) *gaussian {
	g := &gaussian{space: s, nugget: priorNugget}
	for k, knob := range s.knobs {
		if len(knob.Values) > 1 {
			g.varied = append(g.varied, k)
			g.reach = append(g.reach, priorReachOf)
			g.corr = append(g.corr, matern(knob, priorReachOf))
		}
	}
	costs := make([]float64, len(data))
	for i, d := range data {
		g.points = append(g.points, s.At(d.point))
		costs[i] = d.cost
	}
	best := g.evidence(g.gram(-1), costs)
	const sweeps = 2
	for range sweeps {
		before := best
		for v := range g.varied {
			best = g.tryReaches(v, costs, best)
		}
		best = g.tryNuggets(costs, best)
		if best == before {
			break
		}
	}
	return g
}

// tryReaches chooses the reach of the v-th varied knob and returns the evidence.
func (g *gaussian) tryReaches(v int, costs []float64, best float64) float64 {
	rest, k := g.gram(v), g.varied[v]
	for _, reach := range triedReaches {
		kept, corr := g.reach[v], g.corr[v]
		if reach == kept {
			continue
		}
		g.reach[v], g.corr[v] = reach, matern(g.space.knobs[k], reach)
		if e := g.evidence(g.times(rest, v), costs); e > best+grain {
			best = e
		} else {
			g.reach[v], g.corr[v] = kept, corr
		}
	}
	return best
}

// tryNuggets chooses the nugget and returns the evidence.
func (g *gaussian) tryNuggets(costs []float64, best float64) float64 {
	gram := g.gram(-1)
	for _, nugget := range triedNuggets {
		kept := g.nugget
		if nugget == kept {
			continue
		}
		g.nugget = nugget
		if e := g.evidence(slices.Clone(gram), costs); e > best+grain {
			best = e
		} else {
			g.nugget = kept
		}
	}
	return best
}

// matern returns the correlation of value u with value v of a knob at [u*count+v]: Matérn with ν = 5/2 (Rasmussen and
// Williams 2006, eq. 4.17).
func matern(knob Knob, reach float64) []float64 {
	count := len(knob.Values)
	by := make([]float64, count) // by distance in places
	for d := range by {
		x := float64(d) / float64(count-1)
		if knob.Kind == Categorical && d > 0 {
			x = 1
		}
		r := math.Sqrt(5) * x / reach
		by[d] = (1 + r + r*r/3) * math.Exp(-r)
	}
	table := make([]float64, count*count)
	for u := range count {
		for v := range count {
			table[u*count+v] = by[max(u-v, v-u)]
		}
	}
	return table
}

// cov returns the prior correlation of two different points.
func (g *gaussian) cov(p, q Point) float64 {
	c := 1.0
	for v, k := range g.varied {
		c *= g.corr[v][p[k]*len(g.space.knobs[k].Values)+q[k]]
	}
	return c
}

// gram returns the lower triangle of the prior correlations of the points, without the factor of the varied knob
// numbered skip.
func (g *gaussian) gram(skip int) []float64 {
	n := len(g.points)
	a := make([]float64, n*n)
	for i := range n {
		for j := range i + 1 {
			a[i*n+j] = 1
		}
	}
	for v := range g.varied {
		if v != skip {
			g.multiply(a, v)
		}
	}
	return a
}

// times returns a triangle times the factor of a varied knob.
func (g *gaussian) times(gram []float64, v int) []float64 {
	a := slices.Clone(gram)
	g.multiply(a, v)
	return a
}

func (g *gaussian) multiply(a []float64, v int) {
	n, k := len(g.points), g.varied[v]
	count := len(g.space.knobs[k].Values)
	for i, p := range g.points {
		corr := g.corr[v][p[k]*count : (p[k]+1)*count]
		row := a[i*n : i*n+i]
		for j := range row {
			row[j] *= corr[g.points[j][k]]
		}
	}
}

// factorize turns a triangle of correlations into its Cholesky factor, after adding the nugget.
func (g *gaussian) factorize(a []float64) blas64.Triangular {
	n := len(g.points)
	for i := range n {
		a[i*n+i] = 1 + g.nugget
	}
	return cholesky(a, n)
}

// cholesky turns a triangle of n rows into its Cholesky factor.
func cholesky(a []float64, n int) blas64.Triangular {
	factor, ok := lapack64.Potrf(blas64.Symmetric{Uplo: blas.Lower, N: n, Stride: n, Data: a})
	if !ok {
		panic("bandit: covariance is not positive definite")
	}
	return factor
}

// whiten returns factor⁻¹ x.
func whiten(factor blas64.Triangular, x []float64) []float64 {
	x = slices.Clone(x)
	blas64.Trsv(blas.NoTrans, factor, blas64.Vector{N: len(x), Inc: 1, Data: x})
	return x
}

func dot(x, y []float64) float64 {
	return blas64.Dot(blas64.Vector{N: len(x), Inc: 1, Data: x}, blas64.Vector{N: len(y), Inc: 1, Data: y})
}

// centred returns the mean of y by generalised least squares, and what is left of y, whitened.
func centred(factor blas64.Triangular, y []float64) (mean float64, rest []float64) {
	one := make([]float64, len(y))
	for i := range one {
		one[i] = 1
	}
	one, rest = whiten(factor, one), whiten(factor, y)
	mean = dot(one, rest) / dot(one, one)
	for i := range rest {
		rest[i] -= mean * one[i]
	}
	return mean, rest
}

// scale returns the posterior of s² given whitened residuals.
func scale(rest []float64) float64 {
	return (dot(rest, rest) + 2*priorVariance) / float64(len(rest)+2)
}

// evidence returns the logarithm of the posterior probability of the scales given the costs at the points, up to a
// constant. It uses up the triangle of their correlations.
func (g *gaussian) evidence(gram, costs []float64) float64 {
	factor := g.factorize(gram)
	_, rest := centred(factor, costs)
	e := -float64(len(costs)) / 2 * math.Log(scale(rest))
	e -= logDiagonal(factor)
	for _, reach := range g.reach {
		d := math.Log(reach / priorReachOf)
		e -= reachPrecision / 2 * d * d
	}
	return e
}

// condition makes g predict from data.
func (g *gaussian) condition(data []datum) {
	g.points = nil
	cost, effort := make([]float64, len(data)), make([]float64, len(data))
	for i, d := range data {
		g.points = append(g.points, g.space.At(d.point))
		cost[i], effort[i] = d.cost, d.effort
	}
	g.factor = g.factorize(g.gram(-1))
	var rest []float64
	g.cost, rest = g.learn(cost)
	g.variance = scale(rest)
	g.effort, _ = g.learn(effort)
}

// learn returns what predicts y, and the whitened residuals.
func (g *gaussian) learn(y []float64) (target, []float64) {
	mean, rest := centred(g.factor, y)
	weight := slices.Clone(rest)
	blas64.Trsv(blas.Trans, g.factor, blas64.Vector{N: len(weight), Inc: 1, Data: weight})
	return target{mean, weight}, rest
}

// cross returns the correlation of p with the points.
func (g *gaussian) cross(p Point) []float64 {
	c := make([]float64, len(g.points))
	for i, q := range g.points {
		c[i] = g.cov(p, q)
	}
	return c
}

func (t target) at(cross []float64) float64 { return t.mean + dot(t.weight, cross) }

// deviation returns the standard deviation of the log cost of a point that correlates so with the points.
func (g *gaussian) deviation(cross []float64) float64 {
	known := whiten(g.factor, cross)
	return math.Sqrt(g.variance * max(1-dot(known, known), grain))
}
