//go:build candidates

package bandit_test

import (
	"cmp"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
)

var (
	candidateNames = flag.String("candidates.names", "", "strategies, with | between, each perhaps with \"; Thrift 0.5, FirstPoints 2\"; all if empty")
	candidateFirst = flag.Int("candidates.first", 0, "the first seed")
	candidateSeeds = flag.Int("candidates.seeds", 10, "runs of each strategy on each space")
	candidateOut   = flag.String("candidates.out", "", "file to append strategy,space,first seed,seeds,score,standard error to; what it has is not run again")
)

// TestCandidates is the experiment of experiments/2026-11-strategies, whose README has the command. It takes long and is no
// test: hence the build tag.
func TestCandidates(t *testing.T) {
	done, err := os.ReadFile(*candidateOut)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	file, err := os.OpenFile(*candidateOut, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out := csv.NewWriter(file)
	base := bandit.Choose(bandit.Settings{})
	defer bandit.Choose(base)
	spaces := hyperTables(t)
	for _, name := range strings.Split(cmp.Or(*candidateNames, strings.Join(bandit.Names(), "|")), "|") {
		strategy, changes, _ := strings.Cut(name, "; ")
		bandit.Choose(changed(t, base, changes))
		for _, space := range spaces {
			key := []string{name, space.Name, strconv.Itoa(*candidateFirst), strconv.Itoa(*candidateSeeds)}
			if strings.Contains(string(done), line(key)) {
				continue
			}
			x := replay.Experiment{Tables: []replay.Scored{space}, Strategies: []string{strategy}, First: uint64(*candidateFirst), Seeds: *candidateSeeds, Workers: runtime.NumCPU()}
			results, err := x.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			mean, wrong := meanAndError(scores(results[0][0]))
			_ = out.Write(append(key, fmt.Sprintf("%.4f", mean), fmt.Sprintf("%.4f", wrong)))
			if out.Flush(); out.Error() != nil {
				t.Fatal(out.Error())
			}
		}
	}
}

// line is how a row of scores.csv begins.
func line(key []string) string {
	var text strings.Builder
	w := csv.NewWriter(&text)
	_ = w.Write(key) // a strings.Builder takes all
	w.Flush()
	return strings.TrimSpace(text.String()) + ","
}

// changed returns settings in which some are others: "Thrift 0.5, FirstPoints 2".
func changed(t *testing.T, s bandit.Settings, changes string) bandit.Settings {
	t.Helper()
	for change := range strings.SplitSeq(changes, ", ") {
		name, value, ok := strings.Cut(change, " ")
		if !ok {
			continue
		}
		field := reflect.ValueOf(&s).Elem().FieldByName(name)
		x, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
			t.Fatal(err)
		case field.Kind() == reflect.Int:
			field.SetInt(int64(x))
		default:
			field.SetFloat(x)
		}
	}
	return s
}

func scores(results []replay.Result) []float64 {
	x := make([]float64, len(results))
	for i, r := range results {
		x[i] = r.Score
	}
	return x
}
