package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// The claim of README.md on the committed tables, with few seeds and slack: of all runs on all decode spaces at least half
// are within 3 % of the best after 20 points, and none is as bad as what it is compared with.
func TestTableKeepsTheClaim(t *testing.T) {
	fields, err := recorded("table.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	var decode []field
	for _, f := range fields {
		if strings.HasSuffix(f.name, "/decode") {
			decode = append(decode, f)
		}
	}
	if len(decode) < 4 {
		t.Fatalf("%d decode spaces in the table; want at least 4", len(decode))
	}
	list, err := choose("auto", "bisection", "heuristic", "default")
	if err != nil {
		t.Fatal(err)
	}
	verdicts, err := judge(t.Context(), decode, list, task{seeds: seeds, workers: 2, points: 20})
	if err != nil {
		t.Fatal(err)
	}
	within, mean := map[string]int{}, map[string]float64{}
	for _, v := range verdicts {
		for _, r := range v.regrets(20, recommended) {
			mean[v.player] += r / float64(seeds*len(decode))
			if r <= near {
				within[v.player]++
			}
		}
	}
	if runs := seeds * len(decode); within["auto"] < runs/2 {
		t.Errorf("auto: %d of %d runs within 3 %% of the best after 20 points; want at least half", within["auto"], runs)
	}
	for _, other := range []string{"bisection", "heuristic", "default"} {
		if mean["auto"] >= mean[other]/2 {
			t.Errorf("mean regret of auto %.3f, of %s %.3f; want less than half of it", mean["auto"], other, mean[other])
		}
	}
}

// seeds is how many runs of each strategy on each space the claim rests on here.
var seeds = 4

// line is a space of one ordinal knob.
func line(t *testing.T, name string, values ...string) *bandit.Space {
	t.Helper()
	s, err := bandit.NewSpace([]bandit.Knob{{Name: "other", Values: []string{"a", "b"}}, {Name: name, Values: values}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBisectionFindsTheValley(t *testing.T) {
	values := strings.Fields("1 2 3 4 5 6 7 8 12 16 24 32 48 64 96 128")
	space := line(t, "threads", values...)
	for valley := range values {
		b := newBisection(space, bandit.Point{1, 0}, "threads")
		asked := 0
		for asks := b.Ask(1); len(asks) > 0; asks = b.Ask(1) {
			p := asks[0].Point
			if p[0] != 1 {
				t.Fatalf("it asked for %v: want the other knob as the default has it", p)
			}
			asked++
			b.Tell(bandit.Trial{Point: p, Costs: []float64{1 + math.Abs(float64(p[1]-valley))}})
		}
		if diff := cmp.Diff([]bandit.Point{{1, valley}}, b.Recommend(1)); diff != "" || asked > 8 {
			t.Errorf("valley at %s: %d questions (want at most 8), recommends (-want +got):\n%s", values[valley], asked, diff)
		}
	}
}

func TestOutcomeSettled(t *testing.T) {
	for name, c := range map[string]struct {
		regrets []float64
		want    int
	}{
		"from the start":     {[]float64{0, 0.01}, 1},
		"late":               {[]float64{0.2, 0.1, 0.03}, 3},
		"not for good":       {[]float64{0.2, 0.01, 0.1, 0.02}, 4},
		"never":              {[]float64{0.2, 0.1}, 0},
		"at first, not last": {[]float64{0, 0.1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var o outcome
			for _, r := range c.regrets {
				o = append(o, replay.Standing{Regret: r})
			}
			if got := o.settled(); got != c.want {
				t.Errorf("settled after %d; want %d", got, c.want)
			}
		})
	}
}

// fake is a target on which every arm takes its number of threads in milliseconds, and which forgets nothing.
type fake struct {
	prepared int
	ran      int
	fail     error
	after    int // runs before it fails
}

func (f *fake) Name() string { return "fake" }
func (f *fake) Close() error { return nil }

func (f *fake) Prepare(_ context.Context, _ target.Regime, arm target.Arm) (measure.Subject, error) {
	f.prepared++
	if arm.Layout != kernels.I2S {
		return measure.Subject{}, fmt.Errorf("layout %s: %w", arm.Layout, target.ErrMismatch)
	}
	return measure.Subject{Name: arm.String(), Units: 1, Run: func(_ context.Context, n int) (time.Duration, error) {
		if f.ran++; f.fail != nil && f.ran > f.after {
			return 0, f.fail
		}
		return time.Duration(n*(10-arm.Threads)) * time.Millisecond, nil
	}}, nil
}

func TestSweepResumes(t *testing.T) {
	m, _ := model.Preset("bitnet-embedding-270m")
	host := probe.Host{Arch: "amd64", CPU: probe.CPU{UsableCores: 2, UsablePhysical: 2, CPUs: []int{0, 1}}}
	p := problemOf(host, m)
	journal := filepath.Join(t.TempDir(), "journal.jsonl")
	sweepOnce := func(f *fake, rounds int) error {
		s, err := newSweep(journal, p, target.Decode, f)
		if err != nil {
			t.Fatal(err)
		}
		if s.done(rounds) {
			return nil
		}
		return errors.Join(s.run(t.Context(), rounds), s.journal.Close())
	}
	broken := errors.New("somebody pulled the plug")
	if err := sweepOnce(&fake{fail: broken, after: 12}, 3); !errors.Is(err, broken) {
		t.Fatalf("error %v; want %v", err, broken)
	}
	if err := sweepOnce(&fake{}, 3); err != nil {
		t.Fatal(err)
	}
	table := filepath.Join(t.TempDir(), "table.jsonl.gz")
	if err := pack(filepath.Dir(journal), table); err != nil {
		t.Fatal(err)
	}
	spaces, err := readTable(table)
	if err != nil {
		t.Fatal(err)
	}
	space, _ := p.Space(target.Decode)
	if len(spaces) != 1 || spaces[0].Space.Size() != space.Size() {
		t.Fatalf("%d tables; want one of %d points", len(spaces), space.Size())
	}
	for i, row := range spaces[0].Rows {
		want := 3
		if row.Status != bandit.OK {
			t.Errorf("point %v: %v", row.Point, row.Status)
		}
		if len(row.Ratios) != want || len(row.NsPerToken) != want || len(row.ElapsedMs) != want {
			t.Errorf("point %v: %d ratios, %d costs, %d times; want %d of each", row.Point, len(row.Ratios), len(row.NsPerToken), len(row.ElapsedMs), want)
		}
		threads := p.ArmAt(space, spaces[0].Space.At(i)).Threads
		if got, want := tuner.Median(row.Ratios), float64(10-threads)/8; math.Abs(got-want) > 1e-4 {
			t.Errorf("point %v: ratio %v; want %v", row.Point, got, want)
		}
	}
	full := &fake{}
	if err := sweepOnce(full, 3); err != nil || full.prepared > 0 {
		t.Errorf("a journal that is complete: %d prepared, error %v; want nothing done", full.prepared, err)
	}
}

func TestSweepRefusesTheJournalOfAnotherHost(t *testing.T) {
	m, _ := model.Preset("bitnet-embedding-270m")
	journal := filepath.Join(t.TempDir(), "journal.jsonl")
	text := `{"space":{"name":"x","knobs":[{"name":"threads","ordinal":true,"values":["96"]}]}}` + "\n" + `{"row":{"point":{"threads":"96"},"status":"ok"}}` + "\n"
	if err := os.WriteFile(journal, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	host := probe.Host{CPU: probe.CPU{UsableCores: 1, UsablePhysical: 1, CPUs: []int{0}}}
	if _, err := newSweep(journal, problemOf(host, m), target.Decode, &fake{}); err == nil || !strings.Contains(err.Error(), "move the journal away") {
		t.Errorf("error %v; want it to say what to do", err)
	}
}

func TestRunRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing":       {nil, "want record, pack, noise, judge or model"},
		"unknown verb":  {[]string{"sing"}, `"sing": want record`},
		"no table":      {[]string{"judge", "-table", "nowhere"}, "nowhere"},
		"no journal":    {[]string{"pack", "-journal", t.TempDir()}, "no journal in"},
		"strategy":      {[]string{"model", "-strategies", "auto,best"}, `strategy "best": want some of random`},
		"unknown model": {[]string{"record", "-models", "gpt"}, `model "gpt": no such preset`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context(), c.args); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want %q in it", err, c.want)
			}
		})
	}
}
