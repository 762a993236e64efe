package bandit

import (
	"math"
	"math/rand/v2"
)

// The prior of the share of points that do not fail, worth one outcome at the point itself.
const (
	priorFeasible       = 0.9
	priorFeasibleWeight = 0.25
)

// outlook is what the known outcomes say about the others.
type outlook struct {
	knobs    int
	kin      [][]float64 // per knob, by the distance of two values
	place    map[int]int // of each point with a known outcome in the following
	values   []int       // knob by knob
	failed   []bool
	failures int
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
	o := &outlook{knobs: len(l.space.knobs), place: map[int]int{}}
	for _, knob := range l.space.knobs {
		o.kin = append(o.kin, kinship(knob))
	}
	for i := range l.arms {
		o.learn(l.space, &l.arms[i])
	}
	return o
}

// learn takes note of the outcome of an arm.
func (o *outlook) learn(s *Space, a *arm) {
	if len(a.logs) == 0 && a.failed == OK {
		return
	}
	at, known := o.place[a.point]
	if !known {
		at = len(o.failed)
		o.place[a.point] = at
		o.values = append(o.values, s.At(a.point)...)
		o.failed = append(o.failed, false)
	}
	if a.infeasible() && !o.failed[at] {
		o.failed[at] = true
		o.failures++
	}
}

// feasible sums weights as whole numbers, so that the order of the outcomes does not matter.
func (o *outlook) feasible(p Point) float64 {
	if o.failures == 0 {
		return 1
	}
	const unit = 1 << 32
	good, all := uint64(0), uint64(0)
	for i, failed := range o.failed {
		weight := float64(unit)
		for k, u := range o.values[i*o.knobs : (i+1)*o.knobs] {
			if v := p[k]; u != v {
				weight *= o.kin[k][max(u-v, v-u)]
			}
		}
		all += uint64(weight)
		if !failed {
			good += uint64(weight)
		}
	}
	return (float64(good)/unit + priorFeasible*priorFeasibleWeight) / (float64(all)/unit + priorFeasibleWeight)
}

// infeasible reports whether a failed in a way that speaks against its neighbours.
func (a *arm) infeasible() bool { return a.failed != OK && a.failed != Censored }

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
