package bandit

import (
	"math"
	"math/rand/v2"
	"slices"
)

// strangers returns up to n fresh points at random, ascending; none only where none is left.
func (l *ledger) strangers(n int, dice *rand.Rand) []int {
	var drawn []int
	for tries := 0; tries < 2*n && len(drawn) < n; tries++ {
		if i := dice.IntN(l.space.Size()); l.fresh(i) {
			drawn = append(drawn, i)
		}
	}
	if len(drawn) < (n+1)/2 { // most are known: those that are not can be listed
		drawn = drawn[:0]
		for i := range l.space.Size() {
			if l.fresh(i) {
				drawn = append(drawn, i)
			}
		}
		dice.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
		drawn = drawn[:min(n, len(drawn))]
	}
	slices.Sort(drawn)
	return slices.Compact(drawn)
}

// distant returns a fresh point that is far from all that were asked, of a few at random; the first one is near the
// middle of the space. A point that is likely to fail counts as near.
func (l *ledger) distant(dice *rand.Rand) (int, bool) {
	const draws = 128
	pool := l.strangers(draws, dice)
	if len(pool) == 0 {
		return 0, false
	}
	best, merit := pool[0], math.Inf(-1)
	for _, i := range pool {
		p := l.space.At(i)
		m := -l.set.Middle * l.space.eccentricity(p)
		if len(l.arms) > 0 {
			m += l.remoteness(p)
		}
		if m = grains(m * l.feasible(p)); m > merit {
			best, merit = i, m
		}
	}
	return best, true
}

// remoteness returns the distance of p to the nearest point that was asked.
func (l *ledger) remoteness(p Point) float64 {
	least := math.Inf(1)
	for _, a := range l.arms {
		least = min(least, l.space.distance(p, l.space.At(a.point)))
	}
	return least
}

// distance is the sum over the knobs of how far the values are apart: a share of the range of an Ordinal knob, 1 for
// different values of a Categorical one.
func (s *Space) distance(p, q Point) float64 {
	sum := 0.0
	for k, knob := range s.knobs {
		switch {
		case p[k] == q[k]:
		case knob.Kind == Categorical:
			sum++
		default:
			sum += math.Abs(float64(p[k]-q[k])) / float64(len(knob.Values)-1)
		}
	}
	return sum
}

// eccentricity is the distance of p to the middle of the ranges of the Ordinal knobs, the lower one of two: of a switch,
// that is off.
func (s *Space) eccentricity(p Point) float64 {
	sum := 0.0
	for k, knob := range s.knobs {
		if last := len(knob.Values) - 1; knob.Kind == Ordinal && last > 0 {
			sum += math.Abs(float64(p[k]-last/2)) / float64(last)
		}
	}
	return sum
}
