package replay_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
)

const small = `{"device_name": "d", "kernel_name": "k", "tune_params_keys": ["x", "method", "layout"],
"tune_params": {"x": [16, 4, 100], "method": [0, 1, 2], "layout": ["b", "a"]}, "cache": {
"16,0,b": {"x": 16, "method": 0, "layout": "b", "time": 2.5, "times": [2, 3], "compile_time": 100, "verification_time": 10, "benchmark_time": 7, "strategy_time": 1, "framework_time": 4},
"4,2,a": {"x": 4, "method": 2, "layout": "a", "time": 1.5, "times": [1.5], "compile_time": 50},
"100,1,a": {"x": 100, "method": 1, "layout": "a", "time": "CompilationFailedConfig", "compile_time": 30, "framework_time": 2}
}}`

func smallTable(t *testing.T) *replay.Table {
	t.Helper()
	table, err := replay.Read("small", strings.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestReadMakesASpace(t *testing.T) {
	want := []bandit.Knob{
		{Name: "x", Kind: bandit.Ordinal, Values: []string{"4", "16", "100"}},
		{Name: "method", Kind: bandit.Categorical, Values: []string{"0", "1", "2"}},
		{Name: "layout", Kind: bandit.Categorical, Values: []string{"b", "a"}},
	}
	table := smallTable(t)
	if diff := gocmp.Diff(want, table.Space.Knobs()); diff != "" {
		t.Errorf("knobs (-want +got):\n%s", diff)
	}
	if got := table.Space.Size(); got != 3 {
		t.Errorf("%d points; want 3", got)
	}
}

func TestAnswer(t *testing.T) {
	table := smallTable(t)
	for _, c := range []struct {
		name string
		want bandit.Trial
	}{
		{"measured", bandit.Trial{Point: bandit.Point{1, 0, 0}, Costs: []float64{2.5}, Elapsed: 120 * time.Millisecond}},
		{"little recorded", bandit.Trial{Point: bandit.Point{0, 2, 1}, Costs: []float64{1.5}, Elapsed: 51500 * time.Microsecond}},
		{"failed", bandit.Trial{Point: bandit.Point{2, 1, 1}, Status: bandit.Rejected, Elapsed: 32 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 2 { // a failure fails again
				got, err := table.Answer(bandit.Trial{Point: c.want.Point, Want: 1})
				if diff := gocmp.Diff(c.want, got); err != nil || diff != "" {
					t.Errorf("error %v, answer (-want +got):\n%s", err, diff)
				}
			}
		})
	}
	for _, p := range []bandit.Point{{0, 0, 0}, {9, 0, 0}, {0}} {
		if _, err := table.Answer(bandit.Trial{Point: p}); err == nil || !strings.Contains(err.Error(), "was never recorded") {
			t.Errorf("point %v: error %v; want a refusal", p, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	twice := strings.Replace(small, `"4,2,a": {"x": 4, "method": 2, "layout": "a"`, `"4,2,a": {"x": 16, "method": 0, "layout": "b"`, 1)
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":        {"hello", "replay: table t: t4: read: line 1"},
		"no entry":       {small[:strings.Index(small, "{\n")+len("{\n")], "no whole entry"},
		"recorded twice": {twice, "all different"},
		"negative cost":  {strings.Replace(small, `"compile_time": 100`, `"compile_time": -200`, 1), `entry 16,0,"b": cost of the evaluation -`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := replay.Read("t", strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want %q in it", err, c.want)
			}
		})
	}
}

// A strategy on a table meets only what was recorded, and the same seed takes the same way.
func TestRunIsDeterministic(t *testing.T) {
	table := synthetic(t, 100)
	scored, err := replay.Score(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range bandit.Names() {
		t.Run(name, func(t *testing.T) {
			first, err := scored.Play(t.Context(), name, 3)
			if err != nil {
				t.Fatal(err)
			}
			second, err := scored.Play(t.Context(), name, 3)
			if diff := gocmp.Diff(first, second, cmpopts.EquateNaNs()); err != nil || diff != "" {
				t.Errorf("error %v, second run (-first +second):\n%s", err, diff)
			}
			if first.Steps == 0 || math.IsNaN(first.Score) {
				t.Errorf("result %+v; want a run", first)
			}
		})
	}
}

// synthetic returns a table of n points with a valley and failures.
func synthetic(t testing.TB, n int) *replay.Table {
	t.Helper()
	dice := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	w := newCache(t, &text, n)
	for x := range n {
		w.add(x, 1+math.Abs(float64(x)-0.7*float64(n))/float64(n)+0.1*dice.Float64(), x%17 == 3)
	}
	table, err := replay.Read("synthetic", strings.NewReader(w.end()))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// Random search of a table scores near 0 by definition: its failures cost it a little. 100 seeds of a standard
// deviation of 0.3 give a standard error of 0.03; 6 of them are a false alarm in 1e9.
func TestRandomScoresNothing(t *testing.T) {
	scored, err := replay.Score(synthetic(t, 2000))
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for seed := range uint64(100) {
		r, err := scored.Play(t.Context(), "random", seed)
		if err != nil {
			t.Fatal(err)
		}
		sum += r.Score / 100
	}
	if math.Abs(sum) > 0.2 {
		t.Errorf("random search scores %.3f; want 0 within 0.2", sum)
	}
}

// tables returns the recorded spaces, by name of the file.
func tables(t testing.TB, pattern string) []*replay.Table {
	t.Helper()
	dir := cmp.Or(os.Getenv("REPLAY_DATA"), filepath.Join("..", "..", "..", "shared", "replay"))
	names, _ := filepath.Glob(filepath.Join(dir, pattern))
	if len(names) == 0 {
		if strings.Contains(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), "replay") {
			t.Fatalf("recorded spaces are required, but %q has none; set REPLAY_DATA to their directory", dir)
		}
		t.Skipf("NOT TESTED: no recorded spaces in %q; set REPLAY_DATA to their directory", dir)
	}
	var all []*replay.Table
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		table, err := replay.Read(strings.TrimSuffix(filepath.Base(name), ".json.gz"), file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, table)
	}
	return all
}

// The figures of a recorded space, as its publishers and the README of the data give them.
func TestRecordedSpace(t *testing.T) {
	table := tables(t, "pnpoly-RTX_3090.json.gz")[0]
	scored, err := replay.Score(table)
	if err != nil {
		t.Fatal(err)
	}
	if size, failed := table.Space.Size(), table.Failed(); size != 4092 || failed != 318 {
		t.Errorf("%d points, %d failed; want 4092, 318", size, failed)
	}
	if ratio := scored.Score.Median / scored.Score.Optimum; math.Abs(ratio-1.55) > 0.005 {
		t.Errorf("median / optimum = %.3f; want 1.55", ratio)
	}
}

// BenchmarkReplay counts evaluations of the cheap strategies on one core: whole runs, scored and with their curves.
func BenchmarkReplay(b *testing.B) {
	scored, err := replay.Score(tables(b, "dedispersion-W6600.json.gz")[0])
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"random", "exhaustive"} {
		b.Run("strategy="+name, func(b *testing.B) {
			b.ReportAllocs()
			evaluations := 0
			for b.Loop() {
				r, err := scored.Play(b.Context(), name, 1)
				if err != nil {
					b.Fatal(err)
				}
				evaluations += r.Steps
			}
			b.ReportMetric(float64(evaluations)/b.Elapsed().Seconds(), "evaluations/s")
		})
	}
}
