package replay

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
)

// slope is a file of samples: of the threads 1 to 8 each is faster than the one before, and chunks fail.
func slope(t *testing.T) string {
	t.Helper()
	head := Head{
		Name:   "slope",
		Knobs:  []Knob{{Name: "threads", Ordinal: true, Values: strings.Fields("1 2 3 4 5 6 7 8")}, {Name: "chunks", Values: []string{"no", "yes"}}},
		Starts: []Setting{{"threads": "4", "chunks": "no"}}, Default: Setting{"threads": "1", "chunks": "no"}, Yardstick: Setting{"threads": "4", "chunks": "no"},
	}
	lines := []Line{{Host: json.RawMessage(`{"os":"linux"}`)}, {Head: &head}}
	for n := 1; n <= 8; n++ {
		base := 4 / float64(n)
		lines = append(lines, Line{Row: &Row{Point: Setting{"threads": fmt.Sprint(n), "chunks": "no"}, SetupMs: 5}},
			Line{Row: &Row{Point: Setting{"threads": fmt.Sprint(n), "chunks": "yes"}, Status: bandit.Mismatch, SetupMs: 5}})
		for _, noise := range []float64{0.98, 1, 1.02, 1} {
			lines = append(lines, Line{Row: &Row{Point: Setting{"threads": fmt.Sprint(n), "chunks": "no"}, Ratios: []float64{base * noise}, NsPerToken: []float64{2e6 * base * noise}, ElapsedMs: []float64{10}}})
		}
	}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	for _, line := range lines {
		if err := out.Encode(line); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

func readSlope(t *testing.T, text string) *Samples {
	t.Helper()
	tables, err := ReadSamples(strings.NewReader(text))
	if err != nil || len(tables) != 1 {
		t.Fatalf("%d tables, %v; want 1", len(tables), err)
	}
	return tables[0]
}

func TestReadSamplesAddsUpTheRowsOfAPoint(t *testing.T) {
	text := slope(t)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprint(z, text)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"plain": text, "gzip": zipped.String(), "torn": text + `{"row":{"point"`} {
		t.Run(name, func(t *testing.T) {
			s := readSlope(t, file)
			if s.Space.Size() != 16 || string(s.Host) != `{"os":"linux"}` {
				t.Fatalf("%d points on %s; want 16 on linux", s.Space.Size(), s.Host)
			}
			i, err := s.Find(Setting{"threads": "8", "chunks": "no"})
			if err != nil {
				t.Fatal(err)
			}
			want := Row{Point: Setting{"threads": "8", "chunks": "no"}, SetupMs: 5, Ratios: []float64{0.49, 0.5, 0.51, 0.5}, NsPerToken: []float64{0.98e6, 1e6, 1.02e6, 1e6}, ElapsedMs: []float64{10, 10, 10, 10}}
			if diff := cmp.Diff(want, s.Rows[i]); diff != "" {
				t.Errorf("point 8 (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadSamplesRefuses(t *testing.T) {
	head := `{"space":{"name":"s","knobs":[{"name":"x","values":["1"]}]}}` + "\n"
	for name, c := range map[string]struct{ text, want string }{
		"row before space":     {`{"row":{"point":{"x":"1"},"status":"ok"}}` + "\n", `line 1: want "host", "space", or after a space "row"`},
		"other line":           {head + "{}\n", "line 2: want"},
		"no JSON":              {head + "row\n", "line 2: invalid character"},
		"unknown status":       {head + `{"row":{"point":{"x":"1"},"status":"fine"}}` + "\n", `line 2: bandit: read status "fine"`},
		"value that is none":   {head + `{"row":{"point":{"x":"2"},"status":"ok"}}` + "\n", "space s: bandit: list space"},
		"ratio of nothing":     {head + `{"row":{"point":{"x":"1"},"status":"ok","ratios":[0]}}` + "\n", "line 2: ratios of map[x:1]: 0: want more than 0"},
		"negative time":        {head + `{"row":{"point":{"x":"1"},"status":"ok","elapsed_ms":[-1]}}` + "\n", "line 2: elapsed_ms of map[x:1]: -1"},
		"space without points": {head, "space s: bandit: list space: 0 points"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ReadSamples(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want %q in it", err, c.want)
			}
		})
	}
}

// The judge's half is not the search's: a search that knows its half by heart is still judged by the other.
func TestLiveSplitsTheSamples(t *testing.T) {
	s := readSlope(t, slope(t))
	i, _ := s.Find(Setting{"threads": "8", "chunks": "no"})
	truths := map[float64]bool{}
	for seed := range uint64(20) {
		l, err := s.Live(seed)
		if err != nil {
			t.Fatal(err)
		}
		if l.Best != i {
			t.Fatalf("seed %d: the best is %v; want 8 threads", seed, s.Rows[l.Best].Point)
		}
		truths[l.Truth[i]] = true
	}
	if len(truths) < 3 {
		t.Errorf("the truth of a point is one of %v in 20 splits; want more", truths)
	}
	few := readSlope(t, strings.Replace(slope(t), `"threads":"1"},"status":"ok","ratios":[3.92]`, `"threads":"1"},"status":"ok"`, 1))
	at, _ := few.Find(Setting{"threads": "1", "chunks": "no"})
	few.Rows[at].Ratios = few.Rows[at].Ratios[:1]
	if _, err := few.Live(0); err == nil || !strings.Contains(err.Error(), "1 samples of map[chunks:no threads:1]; want at least 2") {
		t.Errorf("one sample: error %v; want it to name the point", err)
	}
}

func TestSearchStandsBeforeEachNewPoint(t *testing.T) {
	s := readSlope(t, slope(t))
	l, err := s.Live(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"random", "auto", "exhaustive"} {
		t.Run(name, func(t *testing.T) {
			search := func() []Standing {
				strategy, err := bandit.New(name, l.Space, bandit.Options{Seed: 3, Start: l.Starts})
				if err != nil {
					t.Fatal(err)
				}
				standings, err := l.Search(strategy, 3, 6, 100)
				if err != nil {
					t.Fatal(err)
				}
				return standings
			}
			run := search()
			if diff := cmp.Diff(run, search()); diff != "" {
				t.Errorf("the same seeds, another search (-first +second):\n%s", diff)
			}
			if len(run) == 0 || len(run) > 6 {
				t.Fatalf("%d standings; want 1 to 6", len(run))
			}
			for i := 1; i < len(run); i++ {
				if run[i].Blocks <= run[i-1].Blocks || run[i].Elapsed <= run[i-1].Elapsed {
					t.Errorf("after %d points %+v, before that %+v; want more blocks and time", i+1, run[i], run[i-1])
				}
				if run[i].Tried > run[i-1].Tried {
					t.Errorf("after %d points the best tried is %v, before that %v; want no worse", i+1, run[i].Tried, run[i-1].Tried)
				}
			}
		})
	}
}

func TestSearchEndsWithItsBlocks(t *testing.T) {
	l, err := readSlope(t, slope(t)).Live(1)
	if err != nil {
		t.Fatal(err)
	}
	strategy, err := bandit.New("exhaustive", l.Space, bandit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := l.Search(strategy, 0, 100, 40)
	if err != nil {
		t.Fatal(err)
	}
	last := run[len(run)-1]
	if len(run) != 16 || last.Blocks != 40 || l.Regret(last.Point) != 0 {
		t.Errorf("%d points and %d blocks, regret %v; want 16, 40 and 0", len(run), last.Blocks, l.Regret(last.Point))
	}
}

func TestTableSumsSamplesUp(t *testing.T) {
	s := readSlope(t, slope(t))
	table, err := s.Table()
	if err != nil {
		t.Fatal(err)
	}
	i, _ := s.Find(Setting{"threads": "8", "chunks": "no"})
	if got := table.Times()[i]; got != 1 {
		t.Errorf("8 threads take %v ms; want 1, half of the yardstick's 2", got)
	}
	if got := table.Costs()[i]; got != 5+4*10 {
		t.Errorf("an evaluation costs %v ms; want 45: preparing and four samples", got)
	}
	scored, err := Score(table)
	if err != nil {
		t.Fatal(err)
	}
	if scored.Score.Optimum != 1 {
		t.Errorf("optimum %v; want 1", scored.Score.Optimum)
	}
	if result, err := scored.Play(t.Context(), "auto", 1); err != nil || result.FinalRatio < 1 {
		t.Errorf("auto: %+v, error %v; want a ratio of at least 1", result, err)
	}
}

// A point of few samples, one of which is far off, is told as noisily as the others, and not as that sample again and again.
func TestLiveOfAPointThatWasGivenUp(t *testing.T) {
	s := readSlope(t, slope(t))
	slow, err := s.Find(Setting{"threads": "1", "chunks": "no"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Rows {
		s.Rows[i].Ratios = append(s.Rows[i].Ratios, s.Rows[i].Ratios...) // 8 samples, but of the slow one 3
	}
	s.Rows[slow].Ratios = []float64{4, 0.1, 4}
	dice := rand.New(rand.NewPCG(1, 1))
	for seed := range uint64(20) {
		l, err := s.Live(seed)
		if err != nil {
			t.Fatal(err)
		}
		if l.Truth[slow] != 4 {
			t.Errorf("seed %d: the truth is %v; want the median 4", seed, l.Truth[slow])
		}
		for range 20 {
			if cost := l.Measure(slow, false, dice).Costs[0]; cost < 3.9 || cost > 4.1 {
				t.Errorf("seed %d: a block says %v; want 4 with the noise of the others, 2 %%", seed, cost)
			}
		}
	}
}

// A file of samples holds as many tables as it likes, under names of their own.
func TestLoadSamples(t *testing.T) {
	dir := t.TempDir()
	unsampled := "" // as an interrupted sweep leaves it: prepared, not measured
	for line := range strings.Lines(slope(t)) {
		if !strings.Contains(line, `"ratios"`) {
			unsampled += line
		}
	}
	two := slope(t) + strings.Replace(slope(t), `"slope"`, `"another"`, 1)
	for name, text := range map[string]string{"two.jsonl": two, "none.jsonl": "", "host.jsonl": `{"host":{}}` + "\n", "bad.jsonl": two + "{}\n",
		"twice.jsonl": slope(t) + slope(t), "unsampled.jsonl": unsampled} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := Load(t.Context(), []string{filepath.Join(dir, "two.jsonl")}, 2)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, table := range loaded.Tables {
		names = append(names, table.Name)
	}
	if diff := cmp.Diff([]string{"slope", "another"}, names); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	if _, err := Load(t.Context(), []string{filepath.Join(dir, "twice.jsonl")}, 1); err == nil || !strings.Contains(err.Error(), "space slope: given twice") {
		t.Errorf("error %v; want one that names the space", err)
	}
	for name, want := range map[string]string{"none.jsonl": `no "space"`, "host.jsonl": `no "space"`, "bad.jsonl": "line ",
		"unsampled.jsonl": "no samples of"} {
		if _, err := Load(t.Context(), []string{filepath.Join(dir, name)}, 1); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; want the file and %q", name, err, want)
		}
	}
}
