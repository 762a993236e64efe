package bandit

import (
	"cmp"
	"math"
	"slices"
	"testing"
)

// Leaving points early leaves none that is among the best.
func TestPromisingLeavesNoneOut(t *testing.T) {
	l := told(t, Options{}, 90, func(*ledger) {})
	s := &thompson{l}
	b := l.belief()
	live := s.pool(b, l.dice(), 0)
	want := b.predict(live)
	for i := range want {
		for !b.exact(&want[i]) {
			b.refine(&want[i])
		}
	}
	bound := func(p prediction) float64 { return grains(p.mean - 2*p.deviation) }
	slices.SortFunc(want, func(x, y prediction) int { return cmp.Or(cmp.Compare(bound(x), bound(y)), x.point-y.point) })
	got := s.promising(b, live)
	if len(got) != drawSize || len(live) < 4*drawSize {
		t.Fatalf("%d promising of %d; want %d of many", len(got), len(live), drawSize)
	}
	for i, p := range got {
		if p.point != want[i].point || !b.exact(&p) {
			t.Errorf("place %d: point %d; want %d, predicted exactly", i, p.point, want[i].point)
		}
	}
}

// Leaving points early does not leave the one of the greatest merit.
func TestImproveFindsTheGreatestMerit(t *testing.T) {
	l := told(t, Options{Samples: 1}, 90, func(*ledger) {})
	b := &bayes{ledger: l}
	pool := b.pool(l.dice())
	g := b.process()
	best := median(l.arm(l.ranked()[0].point).logs)
	merit := ascending(len(pool), func(n int) float64 {
		cross := g.cross(l.space.At(pool[n]), make([]float64, g.count))
		p := prospect{gain: best - g.cost.at(cross), price: b.set.Thrift * g.effort.at(cross)}
		return -p.merit(g.deviation(1-g.factor.whiten(cross, 0, g.count))) - math.Log(l.feasible(l.space.At(pool[n])))
	})
	if got, want := b.improve(pool), pool[merit[0].point]; got != want {
		t.Errorf("improve = %d; want %d", got, want)
	}
}
