package tuner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
)

// publishEngine makes a store with an engine's plan learned on a host.
func publishEngine(t *testing.T, dir, model string, host probe.Host, build string, threads string, at time.Time) {
	t.Helper()
	m, err := readEngineModel(model)
	if err != nil {
		t.Fatal(err)
	}
	store, err := history.Open(dir, history.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = store.Publish(context.Background(), history.Learned{
		Host: host.Fingerprint(), Model: m.fingerprint, ModelName: m.name, Target: EngineTarget + LlamaBench, Objective: "p512+n128", Signature: build,
		Envelope: fields(host.Envelope()), Config: []byte(`{"engine":"llama-bench","build":"` + build + `","plan":{"decode":{"threads":"` + threads + `"}}}`),
		Certificate: []byte(`{"verdict":"ADOPT"}`), MeasuredAt: at, Run: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheNewestBuildAnswersForAnEngine(t *testing.T) {
	dir, model := t.TempDir(), filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(model, []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	host := *fourCores()
	day := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	publishEngine(t, dir, model, host, "new/2", "3", day.Add(24*time.Hour))
	publishEngine(t, dir, model, host, "old/1", "2", day)
	plan := func(h probe.Host) EnginePlan {
		t.Helper()
		tuner, err := Open(Options{Store: dir, Host: &h})
		if err != nil {
			t.Fatal(err)
		}
		p, err := tuner.PlanEngine(context.Background(), model, LlamaBench)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := plan(host)
	if p.Source != Measured || p.Config.Build != "new/2" {
		t.Errorf("%s of build %s (%s), want that of build new/2", p.Source, p.Config.Build, p.Reason)
	}
	if d := cmp.Diff([]string{"--threads", "3"}, p.Flags); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	fewer := host
	fewer.CPU.UsableCores = 2
	if p := plan(fewer); p.Source != Derived || !slices.Equal(p.Flags, []string{"--threads", "2"}) || p.Ratio.Estimate > 0 {
		t.Errorf("with half the cores: %s %v (%s), want two threads", p.Source, p.Flags, p.Reason)
	}
}

func TestAnEngineRunWaitsForNoOther(t *testing.T) {
	dir, model := t.TempDir(), filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(model, []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	tuner, err := Open(Options{Store: dir, Host: fourCores()})
	if err != nil {
		t.Fatal(err)
	}
	tuner.measuring.Lock()
	defer tuner.measuring.Unlock()
	_, err = tuner.TuneEngine(context.Background(), model, EngineBudget{Time: time.Minute, Engine: LlamaBench, Command: "/bin/false"})
	if !errors.Is(err, ErrBusy) {
		t.Errorf("error %v, want %v", err, ErrBusy)
	}
}

func TestAnEngineThatIsNone(t *testing.T) {
	model := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(model, []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	tuner, err := Open(Options{Host: fourCores()})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		budget EngineBudget
		bad    bool // the caller's fault
	}{
		"no time":        {EngineBudget{Engine: LlamaBench}, true},
		"unknown engine": {EngineBudget{Time: time.Minute, Engine: "ollama"}, true},
		"threads":        {EngineBudget{Time: time.Minute, Engine: LlamaBench, MaxThreads: 5}, true},
		"tokens":         {EngineBudget{Time: time.Minute, Engine: LlamaBench, Prompt: -1}, true},
		"half a build":   {EngineBudget{Time: time.Minute, Engine: BitnetCPP, GEMMConfig: "gemm-config.h"}, true},
		"not to build":   {EngineBudget{Time: time.Minute, Engine: LlamaBench, GEMMConfig: "gemm-config.h", Build: "make"}, true},
		"not that":       {EngineBudget{Time: time.Minute, Engine: LlamaBench, Command: "/bin/false"}, false},
	} {
		cert, err := tuner.TuneEngine(context.Background(), model, c.budget)
		if err == nil || cert != nil || errors.Is(err, ErrBadBudget) != c.bad {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCoreMasks(t *testing.T) {
	for name, c := range map[string]struct {
		cpu  probe.CPU
		want []string
	}{
		"no hyper-threads": {probe.CPU{ThreadsPerCore: 1, CPUs: []int{0, 1, 2, 5}}, []string{"0x27"}},
		"two to a core":    {probe.CPU{ThreadsPerCore: 2, CPUs: []int{0, 1, 2, 3, 4, 5, 6, 7}}, []string{"0xff", "0xf"}},
		"one core":         {probe.CPU{ThreadsPerCore: 2, CPUs: []int{0, 1}}, []string{"0x3"}},
		"one CPU":          {probe.CPU{ThreadsPerCore: 1, CPUs: []int{3}}, nil},
		"beyond a word":    {probe.CPU{ThreadsPerCore: 2, CPUs: []int{60, 61, 62, 63, 64, 65}}, nil},
	} {
		if d := cmp.Diff(c.want, coreMasks(c.cpu)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestEngineRecordsSayWhatHappened(t *testing.T) {
	got := processNote(engine.Measured{Phase: "default", Cold: true, Celsius: 61.25, Status: engine.Hang, Note: "killed after 1m0s: loading"})
	if want := "default, cold, 61.2 degrees Celsius, hang: killed after 1m0s: loading"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWhatIsLearnedOfAnEngineHoldsInEveryDirectory(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		"bin/llama-bench": filepath.Join(here, "bin", "llama-bench"), "/opt/llama-bench": "/opt/llama-bench", "llama-bench": "llama-bench", "": "llama-bench",
	} {
		b := EngineBudget{Command: given}
		if err := b.complete(); err != nil || b.Command != want {
			t.Errorf("%q: %q (%v), want %q", given, b.Command, err, want)
		}
	}
}
