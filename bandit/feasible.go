package bandit

import (
	"math"
	"math/rand/v2"
	"slices"
)

// The prior of the share of points that do not fail, and how many relatives that belief is worth.
const (
	priorFeasible       = 0.9
	priorFeasibleWeight = 3
)

// feasible returns the probability that p does not fail: the share of its relatives that did not, weighted by
// kinship, 4 for p itself (kernel classification; Gelbart, Snoek and Adams 2014 treat unknown constraints alike).
func (l *ledger) feasible(p Point) float64 {
	if !slices.ContainsFunc(l.arms, arm.infeasible) {
		return 1
	}
	good, all := priorFeasible*priorFeasibleWeight, float64(priorFeasibleWeight)
	for _, i := range l.heard() {
		a := l.arms[l.slot[i]-1]
		weight := 4 * l.kinship(p, l.space.At(i))
		all += weight
		if !a.infeasible() {
			good += weight
		}
	}
	return good / all
}

// infeasible reports whether a failed in a way that speaks against its neighbours.
func (a arm) infeasible() bool { return a.failed != OK && a.failed != Censored }

// kinship falls from 1 for the same point: to e⁻⁴ over the range of an Ordinal knob, to 1/6 for another value of a
// Categorical one.
func (l *ledger) kinship(p, q Point) float64 {
	distance := 0.0
	for k, knob := range l.space.knobs {
		switch {
		case p[k] == q[k]:
		case knob.Kind == Categorical:
			distance += math.Log(6)
		default:
			distance += 4 * math.Abs(float64(p[k]-q[k])) / float64(len(knob.Values)-1)
		}
	}
	return math.Exp(-distance)
}

// heard returns the points of which an outcome is known, ascending.
func (l *ledger) heard() []int {
	var points []int
	for _, a := range l.arms {
		if len(a.logs) > 0 || a.failed != OK {
			points = append(points, a.point)
		}
	}
	slices.Sort(points)
	return points
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
