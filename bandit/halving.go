package bandit

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

func init() { register("halving", newHalving) }

// halving gives many points one sample and the better ones more: rung r holds the points with 2^r samples, and of
// those that reached a rung the best 1/keepOne are promoted to the next (Jamieson and Talwalkar 2016), one at a time
// and whenever there is one, which needs no rounds and suits parallel questions and restarts (ASHA; Li et al. 2020).
// A point that is clearly worse than the best is never promoted (racing; Maron and Moore 1994). New points are drawn
// at random, or, two times in three, from the neighbours of the best. When all points are known, the survivors
// race until they are separated or have enough samples.
type halving struct{ *ledger }

var _ Strategy = (*halving)(nil)

func newHalving(l *ledger) Strategy { return &halving{l} }

const (
	// keepOne of this many is promoted from a rung.
	keepOne = 3
	// racing is by how many standard deviations two intervals must be apart for one point to be clearly worse:
	// each side errs in 2.3 % of the cases.
	racing = 2
)

// Ask implements Strategy.
func (h *halving) Ask(n int) []Trial {
	var asks []Trial
	for len(asks) < n {
		t, ok := h.next()
		if !ok {
			break
		}
		asks = append(asks, t)
	}
	return asks
}

func (h *halving) next() (Trial, bool) {
	if i, ok := h.nextStart(); ok {
		return h.ask(i, 1), true
	}
	field := h.field()
	if t, ok := h.promote(field); ok {
		return t, true
	}
	if i, ok := h.newcomer(field); ok {
		return h.ask(i, 1), true
	}
	for _, r := range field {
		if h.live(r.point) && !field[0].beats(r) {
			return h.ask(r.point, h.samples(r.point)), true
		}
	}
	return Trial{}, false
}

// runner is a measured point in the race.
type runner struct {
	point             int
	centre, deviation float64
	grain             float64 // the centre in grains
}

// field returns the measured points, best centre first. It begins with the order of their medians, which is nearly that.
func (h *halving) field() []runner {
	ranks := h.ranked()
	scale := noiseScale(h.arms)
	field := make([]runner, len(ranks))
	for i, r := range ranks {
		e := h.estimate(r.point, scale)
		field[i] = runner{r.point, e.centre, math.Sqrt(e.variance), grains(e.centre)}
	}
	slices.SortFunc(field, func(x, y runner) int { return cmp.Or(cmp.Compare(x.grain, y.grain), x.point-y.point) })
	return field
}

// beats reports whether r is clearly better than the other.
func (r runner) beats(other runner) bool {
	return grains(other.centre-racing*other.deviation) > grains(r.centre+racing*r.deviation)
}

// promote asks for the next rung of the best point that deserves it, highest rung first.
func (h *halving) promote(field []runner) (Trial, bool) {
	if h.opt.Samples == 1 {
		return Trial{}, false
	}
	top := 1
	for 2*top < h.opt.Samples {
		top *= 2
	}
	for rung := top; rung >= 1; rung /= 2 {
		reached := slices.DeleteFunc(slices.Clone(field), func(r runner) bool { return h.samples(r.point) < rung })
		for _, r := range reached[:len(reached)/keepOne] {
			if known := h.samples(r.point); known < 2*rung && h.live(r.point) && !field[0].beats(r) {
				return h.ask(r.point, 2*rung-known), true
			}
		}
	}
	return Trial{}, false
}

// newcomer returns a new point: a neighbour of the best that have one, or, one time in three, any.
func (h *halving) newcomer(field []runner) (int, bool) {
	dice := h.dice()
	if len(h.arms) >= firstLooks && len(h.arms)%3 != 0 {
		if i, ok := h.nearby(field, dice); ok {
			return i, true
		}
	}
	return h.explore(dice)
}

// nearby returns a fresh neighbour of the best point that has one which is likely feasible.
func (h *halving) nearby(field []runner, dice *rand.Rand) (int, bool) {
	for _, r := range field {
		if i, ok := h.beside(r.point, dice); ok && dice.Float64() < h.feasible(h.space.At(i)) {
			return i, true
		}
	}
	return 0, false
}
