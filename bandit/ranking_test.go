package bandit

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// told returns a ledger of the hill that was told n random answers, one in eight of them a failure, and looks at it
// after each with look. Points come up several times.
func told(t *testing.T, opt Options, n int, look func(*ledger)) *ledger {
	t.Helper()
	s, cost := hill(t)
	l, err := newLedger(s, opt)
	if err != nil {
		t.Fatal(err)
	}
	dice := rand.New(rand.NewPCG(3, 4))
	for range n {
		p := s.At(dice.IntN(s.Size()))
		done := Trial{Point: p, Costs: []float64{2 + cost(p) + 0.1*dice.Float64()}, Elapsed: time.Second}
		if dice.IntN(8) == 0 {
			done = Trial{Point: p, Status: Crash}
		}
		l.Tell(done)
		look(l)
	}
	return l
}

// A ranking and an outlook that were kept up to date are those made at the end.
func TestRankingIsKeptUpToDate(t *testing.T) {
	now := told(t, Options{}, 600, func(l *ledger) {
		l.ranked()
		l.feasible(l.space.At(0))
	})
	late := told(t, Options{}, 600, func(*ledger) {})
	if diff := cmp.Diff(late.ranked(), now.ranked(), cmp.AllowUnexported(rank{})); diff != "" {
		t.Errorf("ranking (-made at the end +kept up to date):\n%s", diff)
	}
	if !slices.IsSortedFunc(now.ranked(), rank.compare) || len(now.ranked()) < 100 {
		t.Errorf("ranking of %d points; want many, in order", len(now.ranked()))
	}
	for i := range now.space.Size() {
		if p := now.space.At(i); late.feasible(p) != now.feasible(p) {
			t.Errorf("point %v: feasible %v made at the end, %v kept up to date", p, late.feasible(p), now.feasible(p))
		}
	}
}

// What is drawn is a function of the set: one more point displaces at most one.
func TestDrawnSeldomChanges(t *testing.T) {
	var before []rank
	changes := 0
	told(t, Options{}, 400, func(l *ledger) {
		now := l.drawn(16)
		if len(before) == 16 {
			kept := 0
			for _, r := range before {
				if slices.ContainsFunc(now, func(s rank) bool { return s.point == r.point }) {
					kept++
				}
			}
			if kept < 15 {
				t.Fatalf("drawn %v after %v; want all but one the same", now, before)
			}
			if kept < 16 {
				changes++
			}
		}
		before = now
	})
	// A new point is among 16 of n with probability 16/n, and one of the 16 fails with 16/432/8: over 400 answers of 432
	// points some 45 changes are expected.
	if changes > 120 {
		t.Errorf("%d of 400 answers changed what is drawn; want a few", changes)
	}
}

func TestTapered(t *testing.T) {
	s, _ := hill(t)
	for known, want := range map[int]int{0: 60, 150: 60, 200: 33, 432: 15} {
		l, err := newLedger(s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range known {
			l.Tell(Trial{Point: s.At(i), Costs: []float64{1}})
		}
		if got := l.tapered(60); got != want {
			t.Errorf("%d known: %d of 60; want %d", known, got, want)
		}
	}
}
