package tuner

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

func TestRollbackToTheDefaultAndRecertification(t *testing.T) {
	store := t.TempDir()
	s := &simulated{host: measuretest.New(1, measuretest.Jitter(0.005)), cost: planted}
	tuner := s.open(t, store, 1)
	if _, err := tuner.Rollback(t.Context(), anyModel, "test", "nothing"); !errors.Is(err, ErrNothingLearned) {
		t.Fatalf("where nothing was learned: %v, want ErrNothingLearned", err)
	}
	cert, err := tuner.Tune(t.Context(), anyModel, Budget{Time: 20 * time.Second, Target: targetCPU, Objective: ObjectiveDecode, Seed: 1})
	if err != nil || cert.Verdict != measure.Adopt {
		t.Fatalf("tune: %+v, %v", cert, err)
	}
	plan, err := tuner.Rollback(t.Context(), anyModel, "ada", "p99 rose")
	if err != nil {
		t.Fatal(err)
	}
	p := problemOn(*fourCores())
	for _, r := range Regimes {
		if got, want := plan.Config.Arm(r), p.Default().Arm(r); got != want {
			t.Errorf("%s after a rollback: %v, want the default %v", r, got, want)
		}
	}
	if plan.Source != Measured || !strings.Contains(plan.Reason, "rolled back to by ada") || !strings.Contains(plan.Reason, "p99 rose") {
		t.Errorf("after a rollback: %s, %q", plan.Source, plan.Reason)
	}
	if _, err := tuner.Rollback(t.Context(), anyModel, "ada", "again"); err == nil || !strings.Contains(err.Error(), "nothing before it") {
		t.Errorf("a second one: %v, want that there is nothing before the default", err)
	}
	if cert, err = tuner.Tune(t.Context(), anyModel, Budget{Time: 20 * time.Second, Target: targetCPU, Objective: ObjectiveDecode, Seed: 2}); err != nil {
		t.Fatal(err)
	}
	again, err := tuner.Plan(t.Context(), anyModel)
	if err != nil || cert.Verdict != measure.Adopt || again.Config.Hash() == plan.Config.Hash() || strings.Contains(again.Reason, "rolled back") {
		t.Errorf("after it was certified anew: %s, %q (%v)", cert.Verdict, again.Reason, err)
	}
}

// Two configs were certified one after the other. The first answers again, and after it the default, never the second.
func TestRollbackGoesBackOneCertificateAtATime(t *testing.T) {
	store := t.TempDir()
	s := &simulated{host: measuretest.New(1, measuretest.Jitter(0.005)), cost: planted}
	tuner := s.open(t, store, 1)
	var hashes []string
	for i, cost := range []func(target.Regime, target.Arm) time.Duration{planted, shifted} {
		s.cost = cost
		s.seen = map[target.Arm]int{}
		cert, err := tuner.Tune(t.Context(), anyModel, Budget{Time: time.Minute, Target: targetCPU, Objective: ObjectiveDecode, Seed: uint64(i) + 1})
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, cert.Best.Config.Hash())
	}
	if hashes[0] == hashes[1] {
		t.Fatal("both runs came to one config: the test shows nothing")
	}
	plan, err := tuner.Rollback(t.Context(), anyModel, "test", "slower")
	if err != nil || plan.Config.Hash() != hashes[0] {
		t.Fatalf("rolled back to %s (%v), want the first run's %s", plan.Config.Hash(), err, hashes[0])
	}
	plan, err = tuner.Rollback(t.Context(), anyModel, "test", "slower still")
	if err != nil || plan.Config.Arm(target.Decode) != problemOn(*fourCores()).Default().Arm(target.Decode) {
		t.Errorf("rolled back again to %v (%v), want the default", plan.Config.Decode, err)
	}
}

// shifted is a host on which chunks have become slow.
func shifted(_ target.Regime, a target.Arm) time.Duration {
	if a.Blocking.ChunkRows > 0 {
		return 20 * time.Millisecond
	}
	return 10 * time.Millisecond
}

func TestRollbackLeavesAPinAlone(t *testing.T) {
	store := t.TempDir()
	s := &simulated{host: measuretest.New(1, measuretest.Jitter(0.005)), cost: planted}
	tuner := s.open(t, store, 1)
	if _, err := tuner.Tune(t.Context(), anyModel, Budget{Time: 20 * time.Second, Target: targetCPU, Objective: ObjectiveDecode, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	plan, err := tuner.Plan(t.Context(), anyModel)
	if err != nil {
		t.Fatal(err)
	}
	if err := tuner.Pin(t.Context(), anyModel, plan.Config, "ada"); err != nil {
		t.Fatal(err)
	}
	if _, err := tuner.Rollback(t.Context(), anyModel, "daemon", "drift"); err == nil || !strings.Contains(err.Error(), "pinned by ada") {
		t.Errorf("rollback under a pin: %v, want that it is pinned by ada", err)
	}
}
