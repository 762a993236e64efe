package bandit

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// datum is what a gaussian learns of one point.
type datum struct {
	point  int
	cost   float64 // natural logarithm of the cost
	effort float64 // natural logarithm of what measuring took
	noise  float64 // variance of cost for being measured, over s²
}

// gaussian is a Gaussian process over a space (Rasmussen and Williams 2006, sections 2.2, 2.7 and 5.4.1), with
//
//	cov(p, q) = s² · Π_k matern52(|p_k - q_k| / reach_k) + nugget · s² · [p = q]
//
// and what is measured of p has the variance noise · s² more,
// where the values of an Ordinal knob lie evenly from 0 to 1 and any two of a Categorical one are 1 apart. The reach of
// every knob and the nugget are those of the highest posterior probability among a few; s² and the mean follow from
// the data.
type gaussian struct {
	space  *Space
	varied []int     // the knobs that have a choice
	reach  []float64 // of each of them
	corr   [][]float64
	nugget float64

	points       columns   // that it is conditioned on
	noise        []float64 // of their costs
	count        int       // of them
	factor       triangle
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
	g.know(data)
	costs := make([]float64, len(data))
	for i, d := range data {
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

// know sets the points.
func (g *gaussian) know(data []datum) {
	points, noise := make([]int, len(data)), make([]float64, len(data))
	for i, d := range data {
		points[i], noise[i] = d.point, d.noise
	}
	g.points, g.noise, g.count = g.space.columns(points), noise, len(data)
}

// row returns the correlations of value u of a varied knob with every value.
func (g *gaussian) row(v, u int) []float64 {
	count := len(g.space.knobs[g.varied[v]].Values)
	return g.corr[v][u*count : (u+1)*count]
}

// gram returns the lower triangle of the prior correlations of the points, without the factor of the varied knob
// numbered skip.
func (g *gaussian) gram(skip int) []float64 {
	n := g.count
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
	n, values := g.count, g.points[g.varied[v]]
	for i, u := range values {
		corr := g.row(v, int(u))
		row := a[i*n : i*n+i]
		for j := range row {
			row[j] *= corr[values[j]]
		}
	}
}

// factorize turns a triangle of correlations into its Cholesky factor, after adding nugget and noise.
func (g *gaussian) factorize(a []float64) triangle {
	for i := range g.count {
		a[i*g.count+i] = 1 + g.nugget + g.noise[i]
	}
	return cholesky(a, g.count)
}

// scale returns the posterior of s² given whitened residuals.
func scale(rest []float64) float64 {
	return (floats.Dot(rest, rest) + 2*priorVariance) / float64(len(rest)+2)
}

// evidence returns the logarithm of the posterior probability of the scales given the costs at the points, up to a
// constant. It uses up the triangle of their correlations.
func (g *gaussian) evidence(gram, costs []float64) float64 {
	factor := g.factorize(gram)
	_, rest := factor.centred(costs)
	e := -float64(len(costs)) / 2 * math.Log(scale(rest))
	e -= factor.logDiagonal()
	for _, reach := range g.reach {
		d := math.Log(reach / priorReachOf)
		e -= reachPrecision / 2 * d * d
	}
	return e
}

// condition makes g predict from data.
func (g *gaussian) condition(data []datum) {
	g.know(data)
	cost, effort := make([]float64, len(data)), make([]float64, len(data))
	for i, d := range data {
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
	mean, rest := g.factor.centred(y)
	weight := slices.Clone(rest)
	g.factor.unwhiten(weight)
	return target{mean, weight}, rest
}

// cross writes the correlations of p with the points to c and returns it.
func (g *gaussian) cross(p Point, c []float64) []float64 {
	for i := range c {
		c[i] = 1
	}
	for v, k := range g.varied {
		row, values := g.row(v, p[k]), g.points[k][:len(c)]
		for i, u := range values {
			c[i] *= row[u]
		}
	}
	return c
}

func (t target) at(cross []float64) float64 { return t.mean + floats.Dot(t.weight, cross) }

// deviation returns the standard deviation of the log cost of a point, given the variance that is left of a correlation
// of 1 with itself.
func (g *gaussian) deviation(left float64) float64 { return math.Sqrt(g.variance * max(left, grain)) }
