package fleet

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// randomEntry is drawn from few values, so that every rule of a merge meets ties.
func randomEntry(r *rand.Rand) Entry {
	e := entryOf(1, 1+r.IntN(3), r.IntN(2))
	e.Evaluations = 40 + r.IntN(2)
	e.Ratio.Low = 1.3 + 0.1*float64(r.IntN(2))
	e.MeasuredAt = epoch.Add(time.Duration(r.IntN(2)) * time.Hour)
	e.ModelName = []string{"", "a", "b"}[r.IntN(3)]
	for range r.IntN(3) {
		e.Contributors = union(e.Contributors, []string{mark(fmt.Sprint(r.IntN(60)))})
	}
	return e
}

// Whatever the order, the grouping and the repetitions, the same entry comes of it.
func TestMergeConverges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	full := 0
	sets := 150
	if testing.Short() {
		sets = 30
	}
	for range sets {
		var entries []Entry
		for range 2 + r.IntN(60) {
			entries = append(entries, randomEntry(r))
		}
		want := entries[0]
		for _, e := range entries[1:] {
			want = merge(want, e)
		}
		if want.Hosts() == maxContributors {
			full++
		}
		for range 5 {
			some := append([]Entry{}, entries...)
			for range r.IntN(5) {
				some = append(some, entries[r.IntN(len(entries))]) // pushed twice
			}
			for len(some) > 1 { // merged pair by pair, as hosts do that each merge with what they have read
				i := r.IntN(len(some))
				e := some[i]
				some = append(some[:i], some[i+1:]...)
				j := r.IntN(len(some))
				some[j] = merge(some[j], e)
			}
			if diff := cmp.Diff(want, some[0]); diff != "" {
				t.Fatalf("%d entries in another order (-want +got)\n%s", len(entries), diff)
			}
		}
		if doc, err := want.encode(); err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
	}
	if full == 0 {
		t.Error("no case had more contributors than are counted")
	}
	t.Logf("%d sets of 2 to 61 entries, 5 orders each; %d of them with all %d contributors", sets, full, maxContributors)
}

func TestEvidence(t *testing.T) {
	base := entryOf(1, 4, 20)
	for name, change := range map[string]func(*Entry){
		"more blocks":                     func(e *Entry) { e.Blocks, e.Evaluations, e.Ratio.Low = 21, 1, 1 },
		"as many blocks, more arms":       func(e *Entry) { e.Evaluations, e.Ratio.Low = 41, 1 },
		"as much evidence, a better gain": func(e *Entry) { e.Ratio.Low, e.MeasuredAt = 1.45, epoch.Add(-time.Hour) },
		"the same gain, newer":            func(e *Entry) { e.MeasuredAt, e.Config = epoch.Add(time.Hour), []byte(`{"threads":1}`) },
		"the same but for the config":     func(e *Entry) { e.Config = []byte(`{"threads":5}`) },
		"the same but for the rest":       func(e *Entry) { e.ModelName = "a name" },
	} {
		better := base
		change(&better)
		if compareEvidence(better, base) <= 0 || compareEvidence(base, better) >= 0 {
			t.Errorf("%s: does not win", name)
		}
	}
	if compareEvidence(base, base) != 0 {
		t.Error("an entry differs from itself")
	}
}
