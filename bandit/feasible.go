package bandit

import (
	"math"
	"math/rand/v2"
	"slices"
)

// The prior of the share of points that do not fail, worth one outcome at the point itself.
const (
	priorFeasible       = 0.9
	priorFeasibleWeight = 0.25
)

// feasible returns the probability that p does not fail: the share of the known outcomes that were no failures,
// weighted by kinship to p (kernel regression; Nadaraya 1964, Watson 1964).
func (l *ledger) feasible(p Point) float64 {
	if !slices.ContainsFunc(l.arms, arm.infeasible) {
		return 1
	}
	good, all := priorFeasible*priorFeasibleWeight, priorFeasibleWeight
	for _, a := range l.outcomes() {
		weight := l.space.kinship(p, l.space.At(a.point))
		all += weight
		if !a.infeasible() {
			good += weight
		}
	}
	return good / all
}

// infeasible reports whether a failed in a way that speaks against its neighbours.
func (a arm) infeasible() bool { return a.failed != OK && a.failed != Censored }

// outcomes returns the arms of which it is known whether they fail, by number.
func (l *ledger) outcomes() []arm {
	var known []arm
	for _, a := range l.arms {
		if len(a.logs) > 0 || a.failed != OK {
			known = append(known, a)
		}
	}
	slices.SortFunc(known, func(a, b arm) int { return a.point - b.point })
	return known
}

// kinship is 1 between a point and itself and falls to about e⁻⁶ over the range of an Ordinal knob and to 1/3 for
// another value of a Categorical one.
func (s *Space) kinship(p, q Point) float64 {
	kin := 1.0
	for k, knob := range s.knobs {
		switch {
		case p[k] == q[k]:
		case knob.Kind == Categorical:
			kin /= 3
		default:
			kin *= math.Exp(-6 * math.Abs(float64(p[k]-q[k])) / float64(len(knob.Values)))
		}
	}
	return kin
}

// explore returns a fresh point: the most feasible of a few random ones; false where none is left.
func (l *ledger) explore(dice *rand.Rand) (int, bool) {
	var fresh []int
	for i := range l.space.Size() {
		if l.fresh(i) {
			fresh = append(fresh, i)
		}
	}
	if len(fresh) == 0 {
		return 0, false
	}
	const draws = 8
	best, chance := 0, -1.0
	for range draws {
		i := fresh[dice.IntN(len(fresh))]
		if c := grains(l.feasible(l.space.At(i))); c > chance {
			best, chance = i, c
		}
	}
	return best, true
}
