package bandit

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// modelled is how many measured arms a belief is computed from, the best ones, and fitted on how many its scales are
// chosen: the time grows with their cubes.
const modelled, fitted = 64, 48

// grain is the step in which log costs are compared, a millionth: so far below any noise that it decides nothing, so
// far above rounding that every platform decides alike.
const grain = 1e-6

// jitter is a variance that keeps matrices positive definite.
const jitter = 1e-7

// belief is the posterior of the log cost of every point, given the best measured arms: normal (Rasmussen and Williams
// 2006, section 2.7).
type belief struct {
	space  *Space
	points []int     // measured arms, best posterior first; behind the best that are modelled, by their medians
	score  float64   // posterior mean plus half a standard deviation of the first
	known  columns   // the points that the model is computed from
	effect effects   // the prior
	mean   float64   // of all points, by generalised least squares
	weight []float64 // covariance⁻¹ (centres - mean)
	factor blas64.Triangular
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

// newBelief computes the posterior given the best arms; nil where none has been measured.
func newBelief(l *ledger, most int) *belief {
	ranks := l.ranked()
	if len(ranks) == 0 {
		return nil
	}
	scale := noiseScale(l.arms)
	b := &belief{space: l.space, effect: l.effects(scale), points: make([]int, len(ranks))}
	for i, r := range ranks {
		b.points[i] = r.point
	}
	arms := make([]estimate, min(most, len(ranks)))
	for i := range arms {
		arms[i] = l.estimate(ranks[i].point, scale)
	}
	b.condition(arms)
	b.sort(arms)
	return b
}

// condition computes known, factor, mean and weight.
func (b *belief) condition(arms []estimate) {
	n := len(arms)
	centres, noise := make([]float64, n), make([]float64, n)
	for i, a := range arms {
		centres[i], noise[i] = a.centre, a.variance
	}
	b.known = b.space.columns(b.points[:n])
	cov := make([]float64, n*n)
	for i, point := range b.points[:n] {
		b.effect.cov(b.space.At(point), b.known, cov[i*n:i*n+i+1])
	}
	b.factor = noisy(cov, noise)
	b.mean, b.weight = centred(b.factor, centres)
	blas64.Trsv(blas.Trans, b.factor, blas64.Vector{N: n, Inc: 1, Data: b.weight})
}

// sort puts the modelled points in order of their scores, among equals first those with the firmer centre, then the
// lower number.
func (b *belief) sort(arms []estimate) {
	type place struct {
		estimate
		score float64
	}
	places := make([]place, len(arms))
	for i, p := range b.predict(b.points[:len(arms)]) {
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
	point           int
	mean, deviation float64
	white           []float64 // factor⁻¹ times the covariance with the known points
}

// predict returns the prediction of each point.
func (b *belief) predict(points []int) []prediction {
	n := len(b.weight)
	all := blas64.General{Rows: len(points), Cols: n, Stride: n, Data: make([]float64, len(points)*n)}
	out := make([]prediction, len(points))
	for i, point := range points {
		row := all.Data[i*n : (i+1)*n]
		b.effect.cov(b.space.At(point), b.known, row)
		out[i] = prediction{point: point, mean: b.mean + dot(b.weight, row), white: row}
	}
	blas64.Trsm(blas.Right, blas.Trans, 1, b.factor, all)
	prior := b.effect.variance()
	for i := range out {
		p := &out[i]
		p.deviation = math.Sqrt(max(prior-dot(p.white, p.white), jitter))
	}
	return out
}

// joint returns the Cholesky factor of the posterior covariance of points that were predicted.
func (b *belief) joint(some []prediction) blas64.Triangular {
	n := len(some)
	points := make([]int, n)
	for i, p := range some {
		points[i] = p.point
	}
	known := b.space.columns(points)
	cov := make([]float64, n*n)
	for i, p := range some {
		row := cov[i*n : i*n+i+1]
		b.effect.cov(b.space.At(p.point), known, row)
		for j := range row {
			row[j] -= dot(p.white, some[j].white)
		}
		row[i] += jitter
	}
	return cholesky(cov, n)
}
