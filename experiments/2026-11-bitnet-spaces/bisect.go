package main

import (
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
)

// bisection is what one does by hand: from the default, one ordinal knob after the other by bisection on the slope, as if
// the cost had one valley along it; the other knobs stay. It asks once for each point, and believes the answer.
type bisection struct {
	space *bandit.Space
	at    bandit.Point
	knobs []int // those to go through
	costs map[int]float64
}

var (
	_ bandit.Strategy    = (*bisection)(nil)
	_ bandit.Recommender = (*bisection)(nil)
)

// newBisection bisects the named knobs in this order.
func newBisection(s *bandit.Space, start bandit.Point, names ...string) *bisection {
	b := &bisection{space: s, at: start, costs: map[int]float64{}}
	for _, name := range names {
		b.knobs = append(b.knobs, slices.IndexFunc(s.Knobs(), func(k bandit.Knob) bool { return k.Name == name }))
	}
	return b
}

// Ask implements bandit.Strategy.
func (b *bisection) Ask(int) []bandit.Trial {
	at, ask := b.walk()
	if ask == nil {
		b.at = at
		return nil
	}
	return []bandit.Trial{{Point: ask, Want: 1}}
}

// Tell implements bandit.Strategy.
func (b *bisection) Tell(done ...bandit.Trial) {
	for _, t := range done {
		if i, ok := b.space.Index(t.Point); ok && len(t.Costs) > 0 {
			b.costs[i] = t.Costs[0]
		}
	}
}

// Recommend implements bandit.Recommender: where the walk has come.
func (b *bisection) Recommend(int) []bandit.Point {
	at, _ := b.walk()
	return []bandit.Point{at}
}

// walk goes as far as the answers lead, and returns where that is and what to ask next; nil at the end.
func (b *bisection) walk() (at, ask bandit.Point) {
	at = slices.Clone(b.at)
	for _, knob := range b.knobs {
		values := b.line(at, knob)
		low, high := 0, len(values)-1
		for low < high {
			middle := (low + high) / 2
			left, ok := b.cost(values[middle])
			if !ok {
				return at, values[middle]
			}
			right, ok := b.cost(values[middle+1])
			if !ok {
				return at, values[middle+1]
			}
			if left <= right {
				high = middle
			} else {
				low = middle + 1
			}
		}
		at = values[low]
	}
	return at, nil
}

// line returns the points that differ from p in one knob at the most, in the order of its values.
func (b *bisection) line(p bandit.Point, knob int) []bandit.Point {
	var points []bandit.Point
	for v := range b.space.Knobs()[knob].Values {
		q := slices.Clone(p)
		q[knob] = v
		if _, ok := b.space.Index(q); ok {
			points = append(points, q)
		}
	}
	return points
}

func (b *bisection) cost(p bandit.Point) (float64, bool) {
	i, _ := b.space.Index(p)
	cost, ok := b.costs[i]
	return cost, ok
}
