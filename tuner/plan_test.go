package tuner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// problemOn is the ordinary question on a host.
func problemOn(h probe.Host) Problem {
	m, _ := model.Preset(anyModel)
	return Problem{Host: h, Model: m, Target: "cpu", Objective: ObjectiveMixed, Layout: kernels.I2S}
}

// learnedOn is a learned config of a host: its heuristic with a mark in the decode blocking.
func learnedOn(t *testing.T, h probe.Host) history.Learned {
	t.Helper()
	p := problemOn(h)
	config := p.Heuristic()
	config.Decode.Blocking.ChunkRows = 256
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	var proof Certificate
	for _, r := range Regimes {
		proof.Regimes = append(proof.Regimes, RegimeVerdict{Regime: r, Verdict: measure.Adopt, Default: p.Default().Arm(r), Best: config.Arm(r)})
	}
	certificate, err := json.Marshal(proof)
	if err != nil {
		t.Fatal(err)
	}
	return history.Learned{
		Host: h.Fingerprint(), Model: p.Model.Fingerprint(), Target: p.Target, Objective: string(p.Objective), Signature: kernels.Signature(),
		Identity: fields(h.Identity()), Envelope: fields(h.Envelope()), Condition: fields(h.Condition()),
		Config: data, Certificate: certificate, MeasuredAt: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Evaluations: 70,
	}
}

func TestPlanTakesTheSurestSource(t *testing.T) {
	here := *fourCores()
	half := here
	half.CPU.UsableCores, half.CPU.UsablePhysical = 2, 2
	half.Cgroup.QuotaCPUs = 2.5
	sibling := here
	sibling.CPU.Model, sibling.CPU.L3.Bytes = "Simulated CPU, larger", 64<<20
	stranger := here
	stranger.Arch = "mips"
	rival := here
	rival.CPU.Vendor = "SomeoneElse"

	pinned := problemOn(here).Heuristic()
	pinned.Prefill.Batch = 64
	pin, err := json.Marshal(pinned)
	if err != nil {
		t.Fatal(err)
	}
	impossible := pinned
	impossible.Decode.Threads = 99
	badPin, err := json.Marshal(impossible)
	if err != nil {
		t.Fatal(err)
	}
	otherTable := learnedOn(t, here)
	otherTable.Signature = "0123456789abcdef"

	fingerprint := problemOn(here).Model.Fingerprint()
	for name, c := range map[string]struct {
		host     probe.Host
		snapshot *history.Snapshot
		want     Source
		reason   string
	}{
		"nothing":             {here, nil, Heuristic, "run tune"},
		"measured here":       {here, &history.Snapshot{Learned: []history.Learned{learnedOn(t, here)}}, Measured, "2026-11-01"},
		"smaller limits":      {half, &history.Snapshot{Learned: []history.Learned{learnedOn(t, here)}}, Derived, "re-bounded because"},
		"other kernel table":  {here, &history.Snapshot{Learned: []history.Learned{otherTable}}, Heuristic, "another kernel table"},
		"another vendor":      {here, &history.Snapshot{Learned: []history.Learned{learnedOn(t, rival)}}, Heuristic, "cpu_vendor"},
		"a host like this":    {here, &history.Snapshot{Learned: []history.Learned{learnedOn(t, sibling)}}, NearHost, "differs in"},
		"another world":       {here, &history.Snapshot{Learned: []history.Learned{learnedOn(t, stranger)}}, Heuristic, "arch"},
		"both":                {here, &history.Snapshot{Learned: []history.Learned{learnedOn(t, sibling), learnedOn(t, here)}}, Measured, "on this host"},
		"pinned":              {here, &history.Snapshot{Learned: []history.Learned{learnedOn(t, here)}, Pins: []history.Pin{{Model: fingerprint, Config: pin, By: "ada"}}}, Pinned, "ada"},
		"pinned beyond reach": {here, &history.Snapshot{Pins: []history.Pin{{Model: fingerprint, Config: badPin, By: "ada"}}}, Heuristic, "run tune"},
	} {
		t.Run(name, func(t *testing.T) {
			plan := problemOn(c.host).plan(c.snapshot)
			if plan.Source != c.want || !strings.Contains(plan.Reason, c.reason) {
				t.Errorf("source %s because %q, want %s because … %s …", plan.Source, plan.Reason, c.want, c.reason)
			}
			if err := plan.Config.Validate(c.host); err != nil {
				t.Errorf("the plan is not possible: %v", err)
			}
		})
	}
}

func TestReboundTakesTheBestThreadsWithinTheBound(t *testing.T) {
	small := *fourCores()
	small.CPU.UsableCores, small.CPU.UsablePhysical = 3, 3
	curve, err := json.Marshal(Curve{target.Decode: {1: 3, 2: 2, 3: 2.5, 4: 1.5}})
	if err != nil {
		t.Fatal(err)
	}
	wide := learnedOn(t, *fourCores())
	wide.Curve = curve
	got := problemOn(small).rebound(problemOn(*fourCores()).Heuristic(), wide)
	if got.Decode.Threads != 2 || got.Prefill.Threads != 3 {
		t.Errorf("decode %d, prefill %d threads: want 2 (best of the curve within 3) and 3 (the bound, for want of a curve)", got.Decode.Threads, got.Prefill.Threads)
	}
}

func TestGrownLimitsDoNotKeepOneThread(t *testing.T) {
	small := *fourCores()
	small.CPU.UsableCores, small.CPU.UsablePhysical, small.Cgroup.QuotaCPUs = 1, 1, 1
	plan := problemOn(*fourCores()).plan(&history.Snapshot{Learned: []history.Learned{learnedOn(t, small)}})
	if plan.Source != Derived || plan.Config.Decode.Threads != 4 {
		t.Errorf("%s with %d threads: want a derived plan with the 4 threads of the heuristic", plan.Source, plan.Config.Decode.Threads)
	}
}

func TestPlanOfADamagedSnapshotSaysSo(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "current.cfg"), []byte("not a snapshot"), 0o600); err != nil {
		t.Fatal(err)
	}
	tuner, err := Open(Options{Store: dir, Host: fourCores()})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := tuner.Plan(t.Context(), anyModel)
	if err != nil || plan.Source != Heuristic || !strings.Contains(plan.Reason, "could not be read") {
		t.Errorf("plan %s because %q, %v: want the heuristic, with the damage in the reason", plan.Source, plan.Reason, err)
	}
}

func TestPlanNeverCreatesAStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	tuner, err := Open(Options{Store: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tuner.Plan(t.Context(), anyModel); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("stat of the store: %v, want that it does not exist", err)
	}
}

func TestWarmPlanDoesNotAllocate(t *testing.T) {
	tuner, err := Open(Options{Store: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	plan := func() {
		if _, err := tuner.Plan(ctx, anyModel); err != nil {
			t.Fatal(err)
		}
	}
	plan()
	if n := testing.AllocsPerRun(1000, plan); n != 0 {
		t.Errorf("%v allocations per warm Plan, want 0", n)
	}
}

func BenchmarkPlanWarm(b *testing.B) {
	tuner, err := Open(Options{Store: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tuner.Plan(b.Context(), anyModel); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPlanCold(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		tuner, err := Open(Options{Store: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := tuner.Plan(b.Context(), anyModel); err != nil {
			b.Fatal(err)
		}
	}
}
