package tuner

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// oneThreadWins is a host on which two threads take a quarter more time than one.
func oneThreadWins(_ target.Regime, a target.Arm) time.Duration {
	if a.Threads > 1 {
		return 125 * time.Millisecond
	}
	return 100 * time.Millisecond
}

// holds reports whether an interval, of at most 10 % either way, has the truth in it. A noiseless one is a point.
func holds(r Ratio, truth float64) bool {
	const rounding = 1e-9
	return r.Low <= truth+rounding && r.High >= truth-rounding && r.Low > 0.9*truth && r.High < 1.1*truth
}

// compareOn compares 2 threads with 1 on a quiet simulated host whose quota is one CPU.
func compareOn(t *testing.T, s *simulated, store string) (*Tuner, *Comparison) {
	t.Helper()
	tuner := s.open(t, store, 1)
	h := fourCores()
	h.Cgroup.QuotaCPUs, h.CPU.UsableCores, h.CPU.UsablePhysical = 1, 1, 1
	tuner.opt.Host, tuner.host = h, h
	c, err := tuner.Compare(t.Context(), anyModel, Change{Threads: 2}, Change{Threads: 1}, 10*time.Minute, "threads/above-quota")
	if err != nil {
		t.Fatal(err)
	}
	return tuner, c
}

// R2.51: original and changed configuration, in turn, with an interval; R2.45: what was compared and why is kept.
func TestCompare(t *testing.T) {
	store := t.TempDir()
	tuner, c := compareOn(t, &simulated{host: measuretest.New(1, measuretest.SharedHost()...), cost: oneThreadWins}, store)
	if c.Verdict != measure.Adopt || len(c.Regimes) != 2 || c.Original.Decode.Threads != 2 || c.Changed.Decode.Threads != 1 {
		t.Fatalf("%+v, want ADOPT of 1 thread in two regimes", c)
	}
	for _, rc := range c.Regimes {
		if !holds(rc.Ratio, 1.25) {
			t.Errorf("%s: ratio %+v, want an interval about 1.25", rc.Regime, rc.Ratio)
		}
	}
	known, err := tuner.Known(t.Context(), anyModel, Change{Threads: 2}, Change{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, rc := range c.Regimes {
		k := known[rc.Regime]
		if !holds(k.Ratio, 1.25) || k.Ratio.Confidence != 0.95 || len(k.Runs) != 1 || k.Runs[0] != c.Run {
			t.Errorf("%s: known %+v, want the ratio 1.25 of run %s", rc.Regime, k, c.Run)
		}
	}
	history, err := tuner.readStore()
	if err != nil {
		t.Fatal(err)
	}
	runs, err := history.Runs(t.Context())
	if err != nil || len(runs) != 1 || runs[0].Facts[comparisonFact] != "threads/above-quota" || runs[0].Verdict != "ADOPT" {
		t.Errorf("runs %+v, %v; want one that says why it was made", runs, err)
	}
	// Under another quota it is no evidence.
	other := *tuner.opt.Host
	other.Cgroup.QuotaCPUs = 1.5
	tuner.host = &other
	if known, err := tuner.Known(t.Context(), anyModel, Change{Threads: 2}, Change{Threads: 1}); err != nil || len(known) > 0 {
		t.Errorf("known under another quota: %v, %v", known, err)
	}
}

// A comparison with the change the wrong way round keeps the original.
func TestCompareKeepsTheBetterOriginal(t *testing.T) {
	s := &simulated{host: measuretest.New(1), cost: func(r target.Regime, a target.Arm) time.Duration {
		return 225*time.Millisecond - oneThreadWins(r, a)
	}}
	if _, c := compareOn(t, s, ""); c.Verdict != measure.Keep {
		t.Errorf("%s, want KEEP_DEFAULT", c.Verdict)
	}
}

// R2.45: what is faster in one regime and slower in another is no plain gain, and the trade-off is told.
func TestCompareTellsATradeOff(t *testing.T) {
	s := &simulated{host: measuretest.New(1), cost: func(r target.Regime, a target.Arm) time.Duration {
		if r == target.Prefill {
			return 225*time.Millisecond - oneThreadWins(r, a)
		}
		return oneThreadWins(r, a)
	}}
	_, c := compareOn(t, s, "")
	if c.Verdict != measure.Keep || !slices.Contains(c.Warnings, "the change is faster in decode and slower in prefill: which counts depends on the requests") {
		t.Errorf("%s, %q; want KEEP_DEFAULT and the trade-off", c.Verdict, c.Warnings)
	}
}

// R2.51: the verdict may be inconclusive; R2.44: for our kernels a change may change no bit of a result.
func TestCompareCanBeInconclusive(t *testing.T) {
	s := &simulated{host: measuretest.New(1), cost: oneThreadWins, err: func(r target.Regime, a target.Arm) error {
		if r == target.Prefill && a.Threads == 1 {
			return target.ErrMismatch
		}
		return nil
	}}
	_, c := compareOn(t, s, "")
	if c.Verdict != measure.Inconclusive || !c.Regimes[1].Wrong || !strings.Contains(c.Regimes[1].Reason, target.ErrMismatch.Error()) {
		t.Errorf("%s, %+v; want no verdict on wrong results", c.Verdict, c.Regimes[1])
	}
}

// What tune runs measured against one yardstick is evidence as well.
func TestKnownFromTuneRuns(t *testing.T) {
	s := &simulated{host: measuretest.New(3), cost: func(_ target.Regime, a target.Arm) time.Duration {
		return time.Duration(40+20*a.Threads) * time.Millisecond
	}}
	tuner := s.open(t, t.TempDir(), 3)
	cert, err := tuner.Tune(t.Context(), anyModel, Budget{Time: 10 * time.Minute, Objective: ObjectiveDecode, Strategy: "exhaustive", Seed: 3})
	if err != nil || cert.Verdict != measure.Adopt || cert.Best.Config.Decode.Threads != 1 {
		t.Fatalf("%+v, %v; want one thread adopted", cert, err)
	}
	known, err := tuner.Known(t.Context(), anyModel, Change{Threads: 4}, Change{Threads: 1})
	if k := known[target.Decode]; err != nil || !holds(k.Ratio, 2) {
		t.Errorf("%+v, %v; want 120 ms over 60 ms", k, err)
	}
}

func TestCompareRefuses(t *testing.T) {
	s := &simulated{host: measuretest.New(1), cost: flat}
	tuner := s.open(t, "", 1)
	for want, changes := range map[string][2]Change{
		"threads 5: this host has CPUs for 1 to 4":   {{Threads: 5}, {Threads: 1}},
		`kernel "mul/i2s/none" is not in this build`: {{}, {Kernel: "mul/i2s/none"}},
		"batch 100000: at most 65536":                {{}, {PrefillBatch: 100000}},
	} {
		_, err := tuner.Compare(t.Context(), anyModel, changes[0], changes[1], time.Minute, "")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", changes, err, want)
		}
	}
}
