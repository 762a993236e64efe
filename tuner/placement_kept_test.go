package tuner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// onCard is anyTarget on the GPU alone.
func onCard() Budget {
	b := anyTarget
	b.Target = targetCUDA
	return b
}

// A run that could not compare the GPU with the CPU, for want of time or because somebody interrupted it, is no reason to
// leave the one that an earlier run proved faster.
func TestAnUndecidedPlacementLeavesTheOneBefore(t *testing.T) {
	dir := t.TempDir()
	s := withGPU(7) // too little for rates that were measured apart
	if cert, err := s.open(t, dir, 1).Tune(t.Context(), anyModel, anyTarget); err != nil || cert.Placement.Strategy != GPUOnly {
		t.Fatalf("%+v, %v: want the GPU", cert, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tuner := s.open(t, dir, 2)
	tuner.opt.Progress = func(e Event) {
		if e.Phase == "placement" {
			cancel()
		}
	}
	b := anyTarget
	b.Seed = 2
	cert, err := tuner.Tune(ctx, anyModel, b)
	if err != nil || cert.Placement == nil || cert.Placement.Strategy != GPUOnly || !strings.Contains(cert.Placement.Reason, "earlier run") {
		t.Fatalf("%+v, %v: want the GPU as before, and why", cert.Placement, err)
	}
	if plan := onSameHost(t, s, dir); plan.Config.Strategy != GPUOnly {
		t.Errorf("plan %+v: want the GPU as before", plan)
	}
}

// onSameHost is the plan of another process on the host of s.
func onSameHost(t *testing.T, s *simulated, dir string) Plan {
	t.Helper()
	plan, err := s.open(t, dir, 1).Plan(t.Context(), anyModel)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// An interrupt in the middle of a search on the GPU keeps what was measured, and the next run goes on from it.
func TestAnInterruptedTuneOfAGPUIsResumed(t *testing.T) {
	dir := t.TempDir()
	s := withGPU(2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tuner := s.open(t, dir, 1)
	tuner.opt.Progress = func(e Event) {
		if e.Phase == "search" && e.Evaluations >= 5 {
			cancel()
		}
	}
	cert, err := tuner.Tune(ctx, anyModel, onCard())
	if err != nil || !cert.Interrupted || cert.Evaluations < 5 || cert.Target != targetCUDA {
		t.Fatalf("%+v, %v: want an interrupted certificate of a GPU", cert, err)
	}
	again, err := s.open(t, dir, 1).Tune(t.Context(), anyModel, onCard())
	if err != nil || again.Known < cert.Evaluations || again.Fingerprint != cert.Fingerprint || again.Verdict != measure.Adopt {
		t.Errorf("known %d, %s, %v: want at least the %d arms of before, and ADOPT", again.Known, again.Verdict, err, cert.Evaluations)
	}
}

func TestVerifyAndPinOfAGPU(t *testing.T) {
	dir := t.TempDir()
	s := withGPU(2)
	if _, err := s.open(t, dir, 1).Tune(t.Context(), anyModel, anyTarget); err != nil {
		t.Fatal(err)
	}
	tuned := onSameHost(t, s, dir).Config
	v, err := s.open(t, dir, 1).Verify(t.Context(), anyModel, 20*time.Second)
	if err != nil || v.Verdict != Confirmed || len(v.Regimes) != len(Regimes) {
		t.Errorf("%+v, %v: want the GPU's config confirmed", v, err)
	}
	slow := withGPU(2)
	was := slow.cost
	slow.cost = func(r target.Regime, a target.Arm) time.Duration {
		if a.Launch.MaxRegisters == 64 {
			return 4 * was(r, a)
		}
		return was(r, a)
	}
	if v, err := slow.open(t, dir, 1).Verify(t.Context(), anyModel, 20*time.Second); err != nil || v.Verdict != Failed {
		t.Errorf("twice as slow as the default: %+v, %v, want FAILED", v, err)
	}

	pinned := tuned
	pinned.Decode.Launch.MaxRegisters = 128
	tuner := s.open(t, dir, 1)
	if err := tuner.Pin(t.Context(), anyModel, pinned, "anna"); err != nil {
		t.Fatal(err)
	}
	if plan := onSameHost(t, s, dir); plan.Source != Pinned || plan.Config.Decode != pinned.Decode || plan.Config.Strategy != GPUOnly {
		t.Errorf("plan %+v, want the pinned config of the GPU", plan)
	}
	if v, err := s.open(t, dir, 1).Verify(t.Context(), anyModel, 20*time.Second); err != nil || v.Source != Pinned || v.Verdict == Undecided {
		t.Errorf("the pin: %+v, %v, want a verdict", v, err)
	}
	bad := tuned
	bad.Decode.Launch.MaxRegisters = 256
	if err := tuner.Pin(t.Context(), anyModel, bad, "anna"); err == nil || !strings.Contains(err.Error(), "max_registers 256") {
		t.Errorf("256 registers: %v, want a refusal that names them", err)
	}
	none := quiet(flat)
	if plan := onSameHost(t, none, dir); plan.Source != Measured || plan.Config.Strategy != CPUOnly {
		t.Errorf("without the card: %+v, want what was measured on the CPU", plan)
	}
	if err := none.open(t, dir, 1).Pin(t.Context(), anyModel, tuned, "anna"); !errors.Is(err, ErrNoGPU) {
		t.Errorf("pinned without the card: %v, want that there is no GPU", err)
	}
	if err := tuner.Unpin(t.Context(), anyModel); err != nil {
		t.Error(err)
	}
	if plan := onSameHost(t, s, dir); plan.Source != Measured || plan.Config.Decode != tuned.Decode {
		t.Errorf("plan %+v, want what was measured", plan)
	}
}

// Where there is no time for pairs, the rates of both runs decide, but only what cannot be doubted.
func TestRatesMeasuredApartDecideWhatIsPlain(t *testing.T) {
	for name, c := range map[string]struct {
		ms   float64
		want Strategy
	}{"many times as fast": {1, GPUOnly}, "faster": {7, CPUOnly}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := withGPU(c.ms)
			tuner := s.open(t, t.TempDir(), 1)
			tuner.opt.Progress = func(e Event) {
				if e.Phase == "placement" {
					cancel()
				}
			}
			cert, err := tuner.Tune(ctx, anyModel, anyTarget)
			if err != nil || cert.Placement.Strategy != c.want || cert.Placement.Ratio.Confidence != 0 || !strings.Contains(cert.Placement.Reason, "not all was measured in pairs") {
				t.Errorf("%+v, %v: want %s by rates that were measured apart", cert.Placement, err, c.want)
			}
		})
	}
}
