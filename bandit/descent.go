package bandit

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

func init() { register("descent", newDescent) }

// descent is a local search that costs next to nothing: it asks for the neighbours of the best point, then for those of
// the next best, and so on, so that it leaves a local optimum by the cheapest way known. The best point may change with
// every answer. It begins with points that are far apart, asks one anywhere now and then, and the best again until they have
// enough samples.
type descent struct {
	*ledger
	spent map[int]bool // points that were found to have no fresh neighbour
}

var _ Strategy = (*descent)(nil)

func newDescent(l *ledger) Strategy { return &descent{ledger: l, spent: map[int]bool{}} }

// strayEvery is after how many answers a point is asked that may be anywhere.
const strayEvery = 16

// Ask implements Strategy.
func (d *descent) Ask(n int) []Trial { return d.askEach(n, d.next) }

// Tell implements Strategy. A question that is handed back makes its point fresh again.
func (d *descent) Tell(done ...Trial) {
	if slices.ContainsFunc(done, func(t Trial) bool { return t.Status == OK && len(t.Costs) == 0 }) {
		clear(d.spent)
	}
	d.ledger.Tell(done...)
}

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
		if a, ok := d.least(func(a *arm) bool { return d.live(a.point) }); ok {
			return a.point, true
		}
	}
	for {
		a, ok := d.least(func(a *arm) bool { return !d.spent[a.point] })
		if !ok {
			break
		}
		if i, ok := d.beside(a.point, dice); ok {
			return i, true
		}
		d.spent[a.point] = true
	}
	if stray := d.strangers(1, dice); len(stray) > 0 {
		return stray[0], true
	}
	a, ok := d.least(func(a *arm) bool { return d.live(a.point) })
	return a.point, ok
}

// least returns the measured arm of the least cost among those that may be taken.
func (l *ledger) least(may func(*arm) bool) (best arm, found bool) {
	least := 0.0
	for i := range l.arms {
		a := &l.arms[i]
		if a.failed != OK || len(a.logs) == 0 {
			continue
		}
		cost := grains(median(a.logs))
		if order := cmp.Or(cmp.Compare(cost, least), a.point-best.point); (!found || order < 0) && may(a) {
			best, least, found = *a, cost, true
		}
	}
	return best, found
}

// beside returns a fresh neighbour of a point at random.
func (l *ledger) beside(point int, dice *rand.Rand) (int, bool) {
	near := slices.DeleteFunc(l.space.neighbours(point), func(i int) bool { return !l.fresh(i) })
	if len(near) == 0 {
		return 0, false
	}
	return near[dice.IntN(len(near))], true
}
