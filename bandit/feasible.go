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

// outlook is what the known outcomes say about the others.
type outlook struct {
	points []Point // with a known outcome
	failed []bool
	any    bool        // one has failed
	kin    [][]float64 // per knob, by the distance of two values
}

// feasible returns the probability that p does not fail: the share of the known outcomes that were no failures,
// weighted by kinship to p (kernel regression; Nadaraya 1964, Watson 1964).
func (l *ledger) feasible(p Point) float64 {
	if l.odds == nil {
		l.odds = newOutlook(l)
	}
	return l.odds.feasible(p)
}

func newOutlook(l *ledger) *outlook {
	o := &outlook{}
	for _, a := range l.arms {
		o.any = o.any || a.infeasible()
	}
	if !o.any {
		return o
	}
	for _, knob := range l.space.knobs {
		o.kin = append(o.kin, kinship(knob))
	}
	for _, a := range l.outcomes() {
		o.points = append(o.points, l.space.At(a.point))
		o.failed = append(o.failed, a.infeasible())
	}
	return o
}

func (o *outlook) feasible(p Point) float64 {
	if !o.any {
		return 1
	}
	good, all := priorFeasible*priorFeasibleWeight, priorFeasibleWeight
	for i, q := range o.points {
		weight := 1.0
		for k, v := range p {
			if u := q[k]; u != v {
				weight *= o.kin[k][max(u-v, v-u)]
			}
		}
		all += weight
		if !o.failed[i] {
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

// kinship returns by how much two points are less akin for differing in one knob, by the distance of its values: by
// about e⁻⁶ over the range of an Ordinal knob, by 1/3 for another value of a Categorical one.
func kinship(knob Knob) []float64 {
	kin := make([]float64, len(knob.Values))
	for d := range kin {
		kin[d] = 1.0 / 3
		if knob.Kind == Ordinal {
			kin[d] = math.Exp(-6 * float64(d) / float64(len(knob.Values)))
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
