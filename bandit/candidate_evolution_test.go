//go:build candidates

package bandit

import "math/rand/v2"

func init() {
	register("evolution", func(l *ledger) Strategy { return &evolution{bayes{ledger: l}} })
}

// evolution is a steady-state genetic algorithm without repeats (Syswerda 1991): the population is the best 20 known
// points, parents win a tournament of two, a child takes each knob from either and changes one knob in two on the mean.
type evolution struct{ bayes }

const firstGeneration = 12

// Ask implements Strategy.
func (e *evolution) Ask(n int) []Trial { return e.askEach(n, e.next) }

func (e *evolution) next() (int, bool) {
	if i, ok := e.nextStart(); ok {
		return i, true
	}
	dice := e.dice()
	if len(e.ranked()) < firstGeneration {
		if i, ok := e.distant(dice); ok {
			return i, true
		}
	}
	if i, ok := e.child(dice); ok {
		return i, true
	}
	if stray := e.strangers(1, dice); len(stray) > 0 {
		return stray[0], true
	}
	return e.again()
}

// parents is of how many of the best children are made.
const parents, tries = 20, 20

// child returns a fresh point with two parents.
func (l *ledger) child(dice *rand.Rand) (int, bool) {
	best := l.ranked()
	best = best[:min(parents, len(best))]
	if len(best) == 0 {
		return 0, false
	}
	parent := func() Point {
		return l.space.At(best[min(dice.IntN(len(best)), dice.IntN(len(best)))].point)
	}
	for range tries {
		p, q := parent(), parent()
		for k, knob := range l.space.knobs {
			if dice.IntN(2) == 0 {
				p[k] = q[k]
			}
			if len(knob.Values) > 1 && dice.IntN(len(p)) == 0 {
				p[k] = mutate(knob, p[k], dice)
			}
		}
		if i, ok := l.space.Index(p); ok && l.fresh(i) {
			return i, true
		}
	}
	return 0, false
}

// mutate returns another value: of an Ordinal knob mostly a near one.
func mutate(knob Knob, v int, dice *rand.Rand) int {
	if knob.Kind == Ordinal && dice.IntN(3) > 0 {
		step := 1 - 2*dice.IntN(2)
		if w := v + step; w >= 0 && w < len(knob.Values) {
			return w
		}
		return v - step
	}
	return (v + 1 + dice.IntN(len(knob.Values)-1)) % len(knob.Values)
}
