package bandit_test

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/bandit/bandittest"
)

var (
	studyRuns  = flag.Int("study.runs", enoughRuns, "runs of each strategy on each table")
	studyNames = flag.String("study.strategies", "random,auto", "strategies to study, with commas between")
)

// enoughRuns of each strategy on each table are needed to tell auto from random.
const enoughRuns = 8

// budgets are the numbers of samples after which a recommendation is judged.
var budgets = []int{10, 20, 40}

// TestStudy prints how dear the recommendation is after 10, 20 and 40 samples, relative to the optimum, and checks
// that auto beats random at 20 and 40 by 2 standard errors: with other seeds, a strategy no better than random would
// pass both in less than 1 of 40 runs. The table in the package documentation is from
//
//	go test ./bandit -run Study -v -study.runs 100 -study.strategies random,exhaustive,halving,auto
func TestStudy(t *testing.T) {
	recorded := recordedTables(t)
	runs := *studyRuns
	if recorded == nil && runs == enoughRuns {
		runs *= 3 // the synthetic tables alone vary more: with 8 runs auto's own lead is within 2 standard errors
	}
	results := map[string][][]float64{}
	for name := range strings.SplitSeq(*studyNames, ",") {
		results[name] = study(t, name, recorded, runs)
	}
	if results["auto"] == nil || results["random"] == nil || *studyRuns < enoughRuns {
		t.Logf("NOTHING IS CLAIMED: that takes random, auto and %d runs", enoughRuns)
		return
	}
	for b, samples := range budgets {
		var gain []float64
		for i, regret := range results["random"][b] {
			gain = append(gain, math.Log1p(regret)-math.Log1p(results["auto"][b][i]))
		}
		if mean, deviation := meanAndError(gain); samples >= 20 && mean < 2*deviation {
			t.Errorf("after %d samples auto's log regret is %.3f ± %.3f below random's; want 2 standard errors", samples, mean, deviation)
		}
	}
}

// study returns the regrets of a strategy per budget, over all tables and runs, and logs quantiles per table.
func study(t *testing.T, name string, recorded []*bandittest.Table, runs int) [][]float64 {
	t.Helper()
	all := make([][]float64, len(budgets))
	byTable := map[string][][]float64{}
	var order []string
	for seed := range uint64(runs) {
		for _, table := range append(bandittest.Synthetic(seed), recorded...) {
			if byTable[table.Name] == nil {
				byTable[table.Name] = make([][]float64, len(budgets))
				order = append(order, table.Name)
			}
			s, err := bandit.New(name, table.Space, bandit.Options{Seed: seed, Start: table.Start, Budget: slices.Max(budgets)})
			if err != nil {
				t.Fatal(err)
			}
			for b, regret := range bandittest.Regrets(s, table, seed, budgets) {
				all[b] = append(all[b], regret)
				byTable[table.Name][b] = append(byTable[table.Name][b], regret)
			}
		}
	}
	for _, table := range order {
		t.Logf("%-10s %-20s %s", name, table, quantiles(byTable[table]))
	}
	t.Logf("%-10s %-20s %s", name, "all", quantiles(all))
	return all
}

// quantiles formats the median and the 90th percentile in percent, per budget.
func quantiles(regrets [][]float64) string {
	var text strings.Builder
	for _, r := range regrets {
		sorted := slices.Sorted(slices.Values(r))
		fmt.Fprintf(&text, "%7.1f %5.1f", 100*sorted[len(sorted)/2], 100*sorted[len(sorted)*9/10])
	}
	return text.String()
}

func meanAndError(x []float64) (mean, deviation float64) {
	var sum, squares float64
	for _, v := range x {
		sum, squares = sum+v, squares+v*v
	}
	n := float64(len(x))
	return sum / n, math.Sqrt((squares/n - sum/n*sum/n) / n)
}
