package tuner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

func TestTuneRemembersAndResumes(t *testing.T) {
	dir := t.TempDir()
	host := measuretest.New(1, measuretest.SharedHost()...)
	first := &simulated{host: host, cost: planted}
	tuner := first.open(t, dir, 1)
	if plan, err := tuner.Plan(t.Context(), anyModel); err != nil || plan.Source != Heuristic {
		t.Fatalf("before tuning: source %q, %v, want heuristic", plan.Source, err)
	}
	a, err := tuner.Tune(t.Context(), anyModel, Budget{Time: 30 * time.Second, Objective: ObjectiveDecode, Seed: 1})
	if err != nil || a.Verdict != measure.Adopt {
		t.Fatalf("first run: %v, %v, want ADOPT", a.Verdict, err)
	}
	plan, err := tuner.Plan(t.Context(), anyModel)
	if err != nil || plan.Source != Measured || plan.Config.Decode.Blocking.ChunkRows == 0 {
		t.Fatalf("after tuning: %+v, %v, want the measured config with chunks", plan, err)
	}
	second := &simulated{host: host, cost: planted}
	b, err := second.open(t, dir, 2).Tune(t.Context(), anyModel, Budget{Time: 30 * time.Second, Objective: ObjectiveDecode, Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	if b.Known == 0 || b.Elapsed >= a.Elapsed || b.Verdict != measure.Adopt {
		t.Errorf("second run: %s after %.1f s with %d known; the first took %.1f s: want it to start from what is known and end sooner",
			b.Verdict, b.Elapsed, b.Known, a.Elapsed)
	}
}

func TestFailuresAreStatusesAndNeverWin(t *testing.T) {
	dir := t.TempDir()
	s := &simulated{host: measuretest.New(1, measuretest.SharedHost()...), cost: planted}
	s.err = func(r target.Regime, a target.Arm) error {
		chunked := map[int]error{2: target.ErrMismatch, 3: target.ErrRejected, 4: target.ErrOutOfMemory}
		switch {
		case a.Blocking.ChunkRows > 0: // the fast arms are all broken
			return fmt.Errorf("arm: %w", chunked[a.Threads])
		case a.Threads == 3:
			return errors.New("illegal instruction")
		}
		return nil
	}
	tuner := s.open(t, dir, 1)
	cert, err := tuner.Tune(t.Context(), anyModel, Budget{Time: time.Minute, Objective: ObjectiveDecode})
	if err != nil {
		t.Fatal(err)
	}
	if cert.Verdict == measure.Adopt || cert.Best.Config.Decode.Blocking.ChunkRows > 0 || cert.Failed == 0 {
		t.Errorf("verdict %s with %d failures, best %+v: want no broken arm adopted", cert.Verdict, cert.Failed, cert.Best.Config.Decode)
	}
	for arm, n := range s.seen {
		if arm.Blocking.ChunkRows > 0 && n > 1 {
			t.Errorf("%v failed and was tried %d times, want once", arm, n)
		}
	}
	store, err := history.Open(dir, history.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	err = store.Records(t.Context(), history.Filter{}, func(r history.Record) error { seen[r.Status] = true; return nil })
	for _, want := range []string{"ok", "mismatch", "rejected", "out_of_memory", "crash"} {
		if err != nil || !seen[want] {
			t.Errorf("statuses kept: %v (%v), want %s among them", seen, err, want)
		}
	}
}

func TestInterruptKeepsWhatWasMeasured(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	s := &simulated{host: measuretest.New(1, measuretest.SharedHost()...)}
	samples := 0
	s.cost = func(r target.Regime, a target.Arm) time.Duration {
		if samples++; samples == 8 {
			cancel()
		}
		return planted(r, a)
	}
	tuner := s.open(t, dir, 1)
	cert, err := tuner.Tune(ctx, anyModel, Budget{Time: time.Minute})
	if err != nil || cert == nil || !cert.Interrupted {
		t.Fatalf("interrupted run: %+v, %v, want a certificate that says so", cert, err)
	}
	p, err := tuner.problem(t.Context(), anyModel)
	if err != nil {
		t.Fatal(err)
	}
	n, err := tuner.countRecords(t.Context(), p)
	if err != nil || n == 0 {
		t.Errorf("%d records kept after the interrupt (%v), want some", n, err)
	}
}

func TestBadBudgetsNameTheField(t *testing.T) {
	s := &simulated{host: measuretest.New(1), cost: flat}
	tuner := s.open(t, "", 1)
	for name, c := range map[string]struct {
		budget Budget
		want   string
	}{
		"zero":      {Budget{}, "budget"},
		"negative":  {Budget{Time: -time.Second}, "budget"},
		"threads":   {Budget{Time: time.Second, MaxThreads: 5}, "max threads 5: this host can use 1 to 4"},
		"objective": {Budget{Time: time.Second, Objective: "speed"}, `objective "speed"`},
		"target":    {Budget{Time: time.Second, Target: "abacus"}, `target "abacus"`},
		"layout":    {Budget{Time: time.Second, Layout: "q4"}, `layout "q4"`},
		"strategy":  {Budget{Time: time.Second, Strategy: "luck"}, `"luck"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tuner.Tune(t.Context(), anyModel, c.budget)
			if !errors.Is(err, ErrBadBudget) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want ErrBadBudget that says %s", err, c.want)
			}
		})
	}
}
