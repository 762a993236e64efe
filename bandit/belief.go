package bandit

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"
)

// modelled is how many measured arms a belief is computed from, the best ones: the time grows with its cube.
const modelled = 128

// grain is the step in which log costs are compared, a millionth: so far below any noise that it decides nothing, so
// far above rounding that every platform decides alike.
const grain = 1e-6

// jitter is a variance that keeps matrices positive definite.
const jitter = 1e-7

// belief is the posterior of the log cost of every point, given all samples: normal, with the effects whose marginal
// likelihood is best (Rasmussen and Williams 2006, sections 2.7 and 5.4.1).
type belief struct {
	space  *Space
	scale  float64       // standard deviation of one sample
	points []estimate    // measured arms, best posterior first
	known  []Point       // the points that the model is computed from
	effect effects       // the chosen prior
	mean   float64       // of all points, by generalised least squares
	factor mat.Cholesky  // of the covariance of the centres of known
	weight *mat.VecDense // factor⁻¹ (centres - mean)
}

// estimate is what is known of one measured arm.
type estimate struct {
	point    int
	centre   float64 // robust mean of its own samples
	variance float64 // of centre
	score    float64 // posterior mean plus half a standard deviation
}

// newBelief computes the posterior; nil where no arm has been measured.
func newBelief(l *ledger) *belief {
	arms := l.measured()
	if len(arms) == 0 {
		return nil
	}
	b := &belief{space: l.space, scale: noiseScale(arms)}
	for _, a := range arms {
		mean, variance := centre(a.logs, b.scale)
		b.points = append(b.points, estimate{point: a.point, centre: mean, variance: variance, score: mean})
	}
	b.sort(b.points)
	best := b.points[:min(modelled, len(b.points))]
	b.learn(best)
	means, deviations := b.predict(b.known)
	for i := range best {
		best[i].score = means[i] + deviations[i]/2
	}
	b.sort(best)
	return b
}

// sort orders estimates by score; among equals those with the firmer centre, then the lower number, come first.
func (b *belief) sort(points []estimate) {
	slices.SortFunc(points, func(x, y estimate) int {
		return cmp.Or(cmp.Compare(grains(x.score), grains(y.score)), cmp.Compare(grains(x.variance), grains(y.variance)), x.point-y.point)
	})
}

func grains(x float64) float64 { return math.Round(x / grain) }

// learn chooses the effects, one scale at a time, and conditions on the arms.
func (b *belief) learn(arms []estimate) {
	centres, noise := make([]float64, len(arms)), make([]float64, len(arms))
	for i, a := range arms {
		b.known = append(b.known, b.space.At(a.point))
		centres[i], noise[i] = a.centre, a.variance
	}
	b.effect = newEffects(b.space.knobs)
	best := b.condition(centres, noise)
	try := func(e effects) {
		kept := *b
		b.effect, b.factor = e, mat.Cholesky{}
		if score := b.condition(centres, noise); score > best+grain {
			best = score
			return
		}
		*b = kept
	}
	for k := range len(b.effect.knobs) + 1 {
		for _, scale := range triedScales {
			try(b.effect.scaled(k, scale))
		}
	}
	for _, reach := range triedReach {
		try(b.effect.reaching(reach))
	}
}

// condition computes factor, mean and weight under the present effects and returns the logarithm of their posterior
// probability, up to a constant.
func (b *belief) condition(centres, noise []float64) float64 {
	n := len(centres)
	k := mat.NewSymDense(n, nil)
	for i, p := range b.known {
		for j := i; j < n; j++ {
			k.SetSym(i, j, b.effect.cov(p, b.known[j]))
		}
		k.SetSym(i, i, k.At(i, i)+noise[i]+jitter)
	}
	if !b.factor.Factorize(k) {
		panic("bandit: covariance is not positive definite")
	}
	ones := make([]float64, n)
	floats.AddConst(1, ones)
	one, y := mat.NewVecDense(n, ones), mat.NewVecDense(n, centres)
	b.weight = b.solve(y)
	pull := b.solve(one)
	b.mean = mat.Dot(one, b.weight) / mat.Dot(one, pull)
	b.weight.AddScaledVec(b.weight, -b.mean, pull)
	return -mat.Dot(y, b.weight)/2 - b.factor.LogDet()/2 + b.effect.logPrior()
}

// solve returns factor⁻¹ v. A covariance that is ill conditioned but could be factored is solved all the same: jitter
// bounds the error below grain.
func (b *belief) solve(v *mat.VecDense) *mat.VecDense {
	var x mat.VecDense
	_ = b.factor.SolveVecTo(&x, v)
	return &x
}

// predict returns the posterior mean and standard deviation of the log cost of each point.
func (b *belief) predict(points []Point) (means, deviations []float64) {
	means, deviations = make([]float64, len(points)), make([]float64, len(points))
	cross, solved := b.cross(points)
	for i, p := range points {
		c := cross.ColView(i)
		means[i] = b.mean + mat.Dot(c, b.weight)
		variance := b.effect.cov(p, p) - mat.Dot(c, solved.ColView(i))
		deviations[i] = math.Sqrt(max(variance, jitter))
	}
	return means, deviations
}

// joint returns the posterior of the log costs of the points together, to be sampled from dice.
func (b *belief) joint(points []Point, dice rand.Source) *distmv.Normal {
	means, _ := b.predict(points)
	cross, solved := b.cross(points)
	var known mat.Dense
	known.Mul(cross.T(), solved)
	cov := mat.NewSymDense(len(points), nil)
	for i, p := range points {
		for j := i; j < len(points); j++ {
			cov.SetSym(i, j, b.effect.cov(p, points[j])-known.At(i, j))
		}
		cov.SetSym(i, i, cov.At(i, i)+jitter)
	}
	normal, ok := distmv.NewNormal(means, cov, dice)
	if !ok {
		panic("bandit: covariance is not positive definite")
	}
	return normal
}

// cross returns the prior covariance of known (rows) with points (columns), and factor⁻¹ times it.
func (b *belief) cross(points []Point) (cross, solved *mat.Dense) {
	cross, solved = mat.NewDense(len(b.known), len(points), nil), new(mat.Dense)
	for i, p := range b.known {
		for j, q := range points {
			cross.Set(i, j, b.effect.cov(p, q))
		}
	}
	_ = b.factor.SolveTo(solved, cross) // as in solve
	return cross, solved
}
