package replay_test

import (
	"math"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
)

func scoredTables(t *testing.T, sizes ...int) []replay.Scored {
	t.Helper()
	var tables []replay.Scored
	for _, n := range sizes {
		scored, err := replay.Score(synthetic(t, n))
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, scored)
	}
	return tables
}

// The results are those of the seeds one by one, however many workers there are, and progress tells of each run once.
func TestExperiment(t *testing.T) {
	x := replay.Experiment{Tables: scoredTables(t, 60, 200), Strategies: []string{"random", "descent"}, First: 5, Seeds: 4}
	want := make(replay.Results, 2)
	for s, name := range x.Strategies {
		want[s] = make([][]replay.Result, 2)
		for i, table := range x.Tables {
			for seed := range uint64(4) {
				r, err := table.Play(t.Context(), name, 5+seed)
				if err != nil {
					t.Fatal(err)
				}
				want[s][i] = append(want[s][i], r)
			}
		}
	}
	for _, x.Workers = range []int{0, 1, 5} {
		told := 0
		x.Progress = func(p replay.Progress) {
			if told++; p.Done != told || p.Total != 16 || p.Seed < 5 || p.Seed > 8 || p.Done == p.Total && p.Left != 0 {
				t.Errorf("run %d: progress %+v", told, p)
			}
		}
		got, err := x.Run(t.Context())
		if diff := gocmp.Diff(want, got, cmpopts.EquateNaNs()); err != nil || diff != "" {
			t.Errorf("%d workers: error %v, results (-want +got):\n%s", x.Workers, err, diff)
		}
		if told != 16 {
			t.Errorf("%d workers: told of %d runs; want 16", x.Workers, told)
		}
	}
}

// One seed of everything is played before the next, so that an early end is fair.
func TestExperimentGoesBySeed(t *testing.T) {
	var seeds []uint64
	x := replay.Experiment{Tables: scoredTables(t, 60, 200), Strategies: []string{"random", "descent"}, Seeds: 3, Workers: 1,
		Progress: func(p replay.Progress) { seeds = append(seeds, p.Seed) }}
	if _, err := x.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff([]uint64{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}, seeds); diff != "" {
		t.Errorf("seeds (-want +got):\n%s", diff)
	}
}

func TestExperimentFails(t *testing.T) {
	x := replay.Experiment{Tables: scoredTables(t, 60), Strategies: []string{"random", "best"}, Seeds: 3, Workers: 2}
	results, err := x.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), `"best": want one of`) {
		t.Errorf("error %v; want that of the unknown strategy", err)
	}
	if got := len(results.Complete(1, 0)); got != 0 || !math.IsNaN(results.Mean(1, 0)) {
		t.Errorf("%d runs of it, mean %v; want none", got, results.Mean(1, 0))
	}
}

// By hand: ten points of 1 to 10 ms that cost 100 ms and their time. Random search is near after some draws; the curve of
// a run says what the run had at these numbers of evaluations.
func TestCurves(t *testing.T) {
	var text strings.Builder
	w := newCache(t, &text, 10)
	for x := range 10 {
		w.add(x, float64(10-x), x == 4)
	}
	table, err := replay.Read("ten", strings.NewReader(w.end()))
	if err != nil {
		t.Fatal(err)
	}
	scored, err := replay.Score(table)
	if err != nil {
		t.Fatal(err)
	}
	result, err := scored.Play(t.Context(), "exhaustive", 1)
	if err != nil {
		t.Fatal(err)
	}
	// A rank-1 lattice of ten points with step 7 (the least from 10/phi = 6 on that is coprime to 10): 0 7 4 1 8 5 2 9 6 3,
	// with the times 10, 3, failed, 9, 2, 5, 8, 1. The optimum is 1.
	steps := []float32{10, 3, 3, 3, 2, 2, 2, 1, 1, 1}
	for i, n := range scored.Counts {
		if result.ByCount[i] != steps[n-1] {
			t.Errorf("after %d evaluations: %v of the optimum; want %v", n, result.ByCount[i], steps[n-1])
		}
	}
	if first, last := scored.Counts[0], scored.Counts[len(scored.Counts)-1]; first != 1 || last < 5 || last > 10 {
		t.Errorf("evaluations from %d to %d; want 1 to the budget", first, last)
	}
	if len(result.ByTime) != len(scored.Clock) || result.ByTime[len(result.ByTime)-1] > 3 || result.ByTime[0] < result.ByTime[len(result.ByTime)-1] {
		t.Errorf("by time %v; want a curve that falls", result.ByTime)
	}
}
