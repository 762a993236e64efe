package tuner

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// Each mode answers and measures as it says, over a store in which something was learned.
func TestModes(t *testing.T) {
	s := &simulated{host: measuretest.New(1, measuretest.Jitter(0.005)), cost: planted}
	store := t.TempDir()
	free := s.open(t, store, 1)
	if _, err := free.Tune(t.Context(), anyModel, Budget{Time: 20 * time.Second, Target: targetCPU, Objective: ObjectiveDecode, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	learned := planOf(t, free)
	if learned.Source != Measured {
		t.Fatal(learned.Reason)
	}
	open := func(mode Mode, frozen ...string) *Tuner {
		opt := free.opt
		opt.Mode, opt.Frozen = mode, frozen
		tuner, err := Open(opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tuner.Close() })
		return tuner
	}
	for mode, want := range map[Mode]struct {
		source                       Source
		tunes, checks, sessionChoice bool
	}{
		ModeOff: {source: Heuristic}, ModeUse: {source: Measured}, ModeAdvise: {source: Measured, checks: true},
		ModeTune: {Measured, true, true, true}, ModeFrozen: {source: Measured},
	} {
		var frozen []string
		if mode == ModeFrozen {
			frozen = []string{learned.Hash}
		}
		tuner := open(mode, frozen...)
		plan := planOf(t, tuner)
		if plan.Source != want.source || mode == ModeOff && !strings.Contains(plan.Reason, "mode off uses nothing that was learned") {
			t.Errorf("%s: %s because %q, want %s", mode, plan.Source, plan.Reason, want.source)
		}
		on, err := tuner.serve(t.Context(), anyModel)
		if err != nil || len(on.regimes[target.Decode].arms) > 1 != want.sessionChoice {
			t.Errorf("%s: a session chooses among %v (%v)", mode, on.regimes[target.Decode].arms, err)
		}
		if _, err := tuner.Verify(t.Context(), anyModel, time.Minute); (err == nil) != want.checks || err != nil && !errors.Is(err, ErrMode) {
			t.Errorf("%s: verify: %v", mode, err)
		}
		if _, err := tuner.Tune(t.Context(), anyModel, brief); (err == nil) != want.tunes || err != nil && !errors.Is(err, ErrMode) {
			t.Errorf("%s: tune: %v", mode, err)
		}
		if want.tunes || mode == ModeFrozen {
			continue
		}
		bg := tuner.Background(t.Context(), "bitnet-embedding-270m")
		if cert, err := bg.Wait(t.Context()); cert != nil || err != nil || !strings.Contains(bg.State().Reason, "the mode does not allow it") {
			t.Errorf("%s: in the background: %v, %v, %q", mode, cert, err, bg.State().Reason)
		}
	}
	if _, err := open(ModeFrozen, "0123456789abcdef").Plan(t.Context(), anyModel); !errors.Is(err, ErrFrozen) || !strings.Contains(err.Error(), learned.Hash) {
		t.Errorf("frozen to another: %v, want ErrFrozen with the hash that would answer", err)
	}
	if _, err := open(ModeFrozen, learned.Hash).PlanEngine(t.Context(), "model.gguf", "llama-bench"); !errors.Is(err, ErrFrozen) {
		t.Errorf("an engine's config where all is frozen: %v", err)
	}
	for mode, frozen := range map[Mode][]string{ModeFrozen: nil, ModeUse: {learned.Hash}, "loud": nil} {
		if _, err := Open(Options{Mode: mode, Frozen: frozen}); err == nil || !strings.Contains(err.Error(), "mode "+string(mode)) && !strings.Contains(err.Error(), "loud") {
			t.Errorf("%s, %v: %v", mode, frozen, err)
		}
	}
}

// Mode off does not even take the target from what was learned.
func TestModeOffForgetsTheGPU(t *testing.T) {
	s := withGPU(2)
	free := s.open(t, t.TempDir(), 1)
	if cert, err := free.Tune(t.Context(), anyModel, anyTarget); err != nil || cert.Best.Config.Strategy != GPUOnly {
		t.Fatalf("%+v, %v: want the GPU", cert, err)
	}
	opt := free.opt
	opt.Mode = ModeOff
	off, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	defer off.Close()
	if plan := planOf(t, off); plan.Config.Strategy != CPUOnly || plan.Source != Heuristic {
		t.Errorf("%s by %s: %s", plan.Config.Strategy, plan.Source, plan.Reason)
	}
}
