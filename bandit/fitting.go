package bandit

import (
	"slices"

	"gonum.org/v1/gonum/floats"
)

// fitting chooses effects whose marginal likelihood is best, one scale at a time (Rasmussen and Williams 2006, section
// 5.4.1).
type fitting struct {
	points  columns
	centres []float64
	noise   []float64
	effect  effects
	parts   [][]float64 // of effect.cov between the points
	best    float64     // the evidence of effect
	work    []float64
}

// fit returns the effects that explain the estimates best.
func fit(s *Space, arms []estimate) effects {
	f := fitting{effect: newEffects(s.knobs), work: make([]float64, len(arms)*len(arms))}
	points := make([]int, len(arms))
	for i, a := range arms {
		points[i] = a.point
		f.centres, f.noise = append(f.centres, a.centre), append(f.noise, a.variance)
	}
	f.points = s.columns(points)
	f.parts = f.effect.parts(f.points)
	f.best = f.evidence(f.triangle(-1), f.effect)
	for k := range f.effect.scale {
		f.tryScales(k)
	}
	for _, reach := range triedReach {
		f.tryReach(reach)
	}
	return f.effect
}

func (f *fitting) tryScales(k int) {
	rest := f.triangle(k)
	for _, scale := range triedScales {
		if scale == f.effect.scale[k] {
			continue
		}
		f.try(f.effect.scaled(k, scale), f.parts, f.plus(rest, k, scale))
	}
}

func (f *fitting) tryReach(reach float64) {
	if reach == f.effect.reach {
		return
	}
	kept, e := f.parts, f.effect.reaching(reach)
	f.parts = e.parts(f.points)
	if !f.try(e, f.parts, f.triangle(-1)) {
		f.parts = kept
	}
}

// try takes effects whose covariance is a triangle, if they explain more.
func (f *fitting) try(e effects, parts [][]float64, cov []float64) bool {
	score := f.evidence(cov, e)
	if score <= f.best+grain {
		return false
	}
	f.effect, f.parts, f.best = e, parts, score
	return true
}

// triangle returns the covariances between the points, without the part numbered skip.
func (f *fitting) triangle(skip int) []float64 {
	sum := make([]float64, len(f.work))
	for k, scale := range f.effect.scale {
		if k != skip {
			add(sum, scale*scale, f.parts[k], len(f.centres))
		}
	}
	return sum
}

// plus returns a triangle plus part k. It is good until the next call.
func (f *fitting) plus(rest []float64, k int, scale float64) []float64 {
	copy(f.work, rest)
	add(f.work, scale*scale, f.parts[k], len(f.centres))
	return f.work
}

// add adds a multiple of the triangle x to sum, both of n rows.
func add(sum []float64, a float64, x []float64, n int) {
	for i := range n {
		row := sum[i*n : i*n+i+1]
		for j, v := range x[i*n : i*n+i+1] {
			row[j] += a * v
		}
	}
}

// evidence returns the logarithm of the posterior probability of effects, up to a constant. It uses up the triangle of
// their covariances.
func (f *fitting) evidence(cov []float64, e effects) float64 {
	factor := noisy(cov, f.noise)
	_, rest := factor.centred(f.centres)
	return -floats.Dot(rest, rest)/2 - factor.logDiagonal() + e.logPrior()
}

// noisy turns a triangle of covariances into its Cholesky factor, after adding the noise of each point.
func noisy(cov, noise []float64) triangle {
	n := len(noise)
	for i, v := range noise {
		cov[i*n+i] += v + jitter
	}
	return cholesky(cov, n)
}

// effects returns the effects that explain what is known best. They are chosen on at most fitted points: all take time
// with the cube at every question.
func (l *ledger) effects(scale float64) effects {
	few := l.drawn(fitted)
	arms := make([]estimate, len(few))
	for i, r := range few {
		arms[i] = l.estimate(r.point, scale)
	}
	if !slices.Equal(arms, l.fitted) {
		l.fitted, l.effect = arms, fit(l.space, arms)
	}
	return l.effect
}
