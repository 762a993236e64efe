package bandit

import (
	"math/rand/v2"
	"slices"
)

func init() { register("descent", newDescent) }

// descent is a local search that costs next to nothing: it asks for the neighbours of the best point, then for those of
// the next best, and so on, so that it leaves a local optimum by the cheapest way known. The best point may change with
// every answer. It begins with points that are far apart, asks one anywhere now and then, and the best again until they have
// enough samples.
type descent struct{ *ledger }

var _ Strategy = (*descent)(nil)

func newDescent(l *ledger) Strategy { return &descent{l} }

// strayEvery is after how many answers a point is asked that may be anywhere.
const strayEvery = 16

// Ask implements Strategy.
func (d *descent) Ask(n int) []Trial { return d.askEach(n, d.next) }

func (d *descent) next() (int, bool) {
	if i, ok := d.nextStart(); ok {
		return i, true
	}
	dice := d.dice()
	if len(d.arms) < d.set.FirstPoints {
		if i, ok := d.distant(dice); ok {
			return i, true
		}
	}
	if stray := d.strangers(1, dice); d.told%strayEvery == 0 && len(stray) > 0 {
		return stray[0], true
	}
	if d.opt.Samples > 1 && d.told%2 == 0 {
		if i, ok := d.least(d.live); ok {
			return i, true
		}
	}
	for _, r := range d.ranked() {
		if i, ok := d.beside(r.point, dice); ok {
			return i, true
		}
	}
	if stray := d.strangers(1, dice); len(stray) > 0 {
		return stray[0], true
	}
	return d.least(d.live)
}

// least returns the measured point of the least cost among those that may be taken.
func (l *ledger) least(may func(point int) bool) (int, bool) {
	for _, r := range l.ranked() {
		if may(r.point) {
			return r.point, true
		}
	}
	return 0, false
}

// beside returns a fresh neighbour of a point at random.
func (l *ledger) beside(point int, dice *rand.Rand) (int, bool) {
	if l.spent != nil && l.spent[point] {
		return 0, false
	}
	near := slices.DeleteFunc(l.space.neighbours(point), func(i int) bool { return !l.fresh(i) })
	if len(near) == 0 {
		if l.spent == nil {
			l.spent = make([]bool, l.space.Size())
		}
		l.spent[point] = true
		return 0, false
	}
	return near[dice.IntN(len(near))], true
}
