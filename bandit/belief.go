package bandit

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// modelled is how many measured arms a belief is computed from, half of them the best, and fitted on how many its scales
// are chosen: the time grows with their cubes.
const modelled, fitted = 64, 48

// grain is the step in which log costs are compared, a millionth: so far below any noise that it decides nothing, so
// far above rounding that every platform decides alike.
const grain = 1e-6

// jitter is a variance that keeps matrices positive definite.
const jitter = 1e-7

// belief is the posterior of the log cost of every point, given what is measured: normal (Rasmussen and Williams 2006,
// section 2.7).
type belief struct {
	space  *Space
	points []int     // measured arms, best posterior first; where not all are modelled, all but the best by their medians
	score  float64   // posterior mean plus half a standard deviation of the first
	known  columns   // the points that the model is computed from
	effect effects   // the prior
	mean   float64   // of all points, by generalised least squares
	weight []float64 // covariance⁻¹ (centres - mean)
	factor triangle
}

// estimate is what is known of one measured arm.
type estimate struct {
	point    int
	centre   float64 // robust mean of its own samples
	variance float64 // of centre
}

func (l *ledger) estimate(point int, scale float64) estimate {
	mean, variance := centre(l.arm(point).logs, scale)
	return estimate{point, mean, variance}
}

// newBelief computes the posterior given what was told; nil where none has been measured.
func newBelief(l *ledger) *belief {
	ranks := l.ranked()
	if len(ranks) == 0 {
		return nil
	}
	scale := noiseScale(l.arms)
	b := &belief{space: l.space, effect: l.effects(scale), points: make([]int, len(ranks))}
	for i, r := range ranks {
		b.points[i] = r.point
	}
	some := thin(ranks, l.tapered(modelled))
	arms := make([]estimate, len(some))
	for i, r := range some {
		arms[i] = l.estimate(r.point, scale)
	}
	b.condition(arms)
	if len(arms) < len(ranks) {
		arms = arms[:len(arms)/2]
	}
	b.sort(arms)
	return b
}

// condition computes known, factor, mean and weight.
func (b *belief) condition(arms []estimate) {
	n := len(arms)
	points, centres, noise := make([]int, n), make([]float64, n), make([]float64, n)
	for i, a := range arms {
		points[i], centres[i], noise[i] = a.point, a.centre, a.variance
	}
	b.known = b.space.columns(points)
	cov := make([]float64, n*n)
	for i, point := range points {
		b.effect.cov(b.space.At(point), b.known, cov[i*n:i*n+i+1])
	}
	b.factor = noisy(cov, noise)
	b.mean, b.weight = b.factor.centred(centres)
	b.factor.unwhiten(b.weight)
}

// sort puts the first points, whose estimates these are, in order of their scores, among equals first those with the firmer centre, then the
// lower number.
func (b *belief) sort(arms []estimate) {
	type place struct {
		estimate
		score float64
	}
	places := make([]place, len(arms))
	for i, p := range b.predict(b.points[:len(arms)]) {
		for !b.exact(&p) {
			b.refine(&p)
		}
		places[i] = place{arms[i], p.mean + p.deviation/2}
	}
	slices.SortFunc(places, func(x, y place) int {
		return cmp.Or(cmp.Compare(grains(x.score), grains(y.score)), cmp.Compare(grains(x.variance), grains(y.variance)), x.point-y.point)
	})
	b.score = places[0].score
	for i, p := range places {
		b.points[i] = p.point
	}
}

func grains(x float64) float64 { return math.Round(x / grain) }

// prediction is what a belief says of the log cost of one point.
type prediction struct {
	point     int
	mean      float64
	deviation float64   // at most; exact when all is whitened
	variance  float64   // the square of deviation, or less than jitter
	white     []float64 // the covariance with the known points, whitened so far
	done      int
}

// predict returns the predictions of points, whose deviations are those of the prior.
func (b *belief) predict(points []int) []prediction {
	n := len(b.weight)
	rows := make([]float64, len(points)*n)
	out := make([]prediction, len(points))
	prior, p := b.effect.variance(), make(Point, len(b.known))
	for i, point := range points {
		row := rows[i*n : (i+1)*n]
		b.space.read(point, p)
		b.effect.cov(p, b.known, row)
		out[i] = prediction{point: point, mean: b.mean + floats.Dot(b.weight, row), deviation: math.Sqrt(prior), variance: prior, white: row}
	}
	return out
}

// refine makes the deviation of p exact, or while that is far, half as far from it.
func (b *belief) refine(p *prediction) {
	to := b.factor.next(p.done)
	p.variance -= b.factor.whiten(p.white, p.done, to)
	p.deviation, p.done = math.Sqrt(max(p.variance, jitter)), to
}

// exact reports whether the deviation of p is.
func (b *belief) exact(p *prediction) bool { return p.done == b.factor.n }

// joint returns the Cholesky factor of the posterior covariance of points whose predictions are exact.
func (b *belief) joint(some []prediction) triangle {
	n := len(some)
	points := make([]int, n)
	for i, p := range some {
		points[i] = p.point
	}
	columns := b.space.columns(points)
	cov := make([]float64, n*n)
	for i, p := range some {
		row := cov[i*n : i*n+i+1]
		b.effect.cov(b.space.At(p.point), columns, row)
		for j := range row {
			row[j] -= floats.Dot(p.white, some[j].white)
		}
		row[i] += jitter
	}
	return cholesky(cov, n)
}
