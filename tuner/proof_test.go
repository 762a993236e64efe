package tuner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// quiet is a simulated host with little noise on a surface.
func quiet(cost func(target.Regime, target.Arm) time.Duration) *simulated {
	return &simulated{host: measuretest.New(1, measuretest.Jitter(0.01)), cost: cost}
}

// fastest is a surface on which chunked arms take half the time, so that a duel is short.
func fastest(_ target.Regime, a target.Arm) time.Duration {
	if a.Blocking.ChunkRows > 0 {
		return 5 * time.Millisecond
	}
	return 10 * time.Millisecond
}

// tuned runs a tune that must succeed.
func tuned(t *testing.T, s *simulated, dir string, b Budget) *Certificate {
	t.Helper()
	if b.Time == 0 {
		b.Time = 20 * time.Second
	}
	cert, err := s.open(t, dir, 1).Tune(t.Context(), anyModel, b)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// planned is the plan of a new process over the store.
func planned(t *testing.T, dir string) Plan {
	t.Helper()
	plan, err := quiet(flat).open(t, dir, 1).Plan(t.Context(), anyModel)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestUndecidedRegimeKeepsTheHeuristic(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	s := quiet(nil)
	s.cost = func(r target.Regime, a target.Arm) time.Duration {
		if r == target.Prefill && s.seen[a] > 0 && a.Blocking.ChunkRows > 0 {
			cancel() // in the middle of the last regime's search
		}
		return fastest(r, a)
	}
	before := planned(t, dir)
	cert, err := s.open(t, dir, 1).Tune(ctx, anyModel, Budget{Time: 20 * time.Second})
	if err != nil || !cert.Interrupted || cert.Verdict != measure.Adopt {
		t.Fatalf("%+v, %v: want an interrupted run that adopted for decode", cert, err)
	}
	after := planned(t, dir)
	if after.Config.Prefill != before.Config.Prefill || after.Config.Decode == before.Config.Decode {
		t.Errorf("prefill %+v, was %+v; decode %+v: want only decode changed", after.Config.Prefill, before.Config.Prefill, after.Config.Decode)
	}
	if !strings.Contains(after.Reason, "prefill from facts alone") {
		t.Errorf("reason %q: want it to say that prefill was not decided", after.Reason)
	}
}

func TestPinIsNeverPublishedAsMeasured(t *testing.T) {
	dir := t.TempDir()
	s := quiet(fastest)
	tuner := s.open(t, dir, 1)
	plan, err := tuner.Plan(t.Context(), anyModel)
	if err != nil {
		t.Fatal(err)
	}
	pinned := plan.Config
	pinned.Prefill.Threads, pinned.Prefill.Batch = 1, 33
	if err := tuner.Pin(t.Context(), anyModel, pinned, "ada"); err != nil {
		t.Fatal(err)
	}
	if _, err := tuner.Tune(t.Context(), anyModel, Budget{Time: 20 * time.Second, Objective: ObjectiveDecode}); err != nil {
		t.Fatal(err)
	}
	if got := planned(t, dir); got.Source != Pinned || got.Config.Prefill.Batch != 33 {
		t.Errorf("while pinned: %s, batch %d", got.Source, got.Config.Prefill.Batch)
	}
	if err := tuner.Unpin(t.Context(), anyModel); err != nil {
		t.Fatal(err)
	}
	if got := planned(t, dir); got.Source != Measured || got.Config.Prefill != plan.Config.Prefill {
		t.Errorf("unpinned: %s, prefill %+v: want measured, with the heuristic's prefill %+v", got.Source, got.Config.Prefill, plan.Config.Prefill)
	}
}

func TestABoundedRunDoesNotAnswerForAll(t *testing.T) {
	dir := t.TempDir()
	cost := func(r target.Regime, a target.Arm) time.Duration { return fastest(r, a) * 4 / time.Duration(a.Threads) }
	cert := tuned(t, quiet(cost), dir, Budget{MaxThreads: 1, Objective: ObjectiveDecode})
	if plan := planned(t, dir); plan.Source != Heuristic || cert.Best.Config.Decode.Threads != 1 {
		t.Errorf("%s plan after a run bounded to %d thread: want the heuristic", plan.Source, cert.Best.Config.Decode.Threads)
	}
	if cert := tuned(t, quiet(cost), dir, Budget{Objective: ObjectiveDecode}); cert.Verdict != measure.Adopt {
		t.Fatalf("unbounded run: %s", cert.Verdict)
	}
	again := tuned(t, quiet(cost), dir, Budget{MaxThreads: 1, Objective: ObjectiveDecode})
	if got := again.Best.Config.Decode.Threads; got > 1 && again.Regimes[0].Verdict == measure.Adopt {
		t.Errorf("a bounded run adopted %d threads", got)
	}
	if plan := planned(t, dir); plan.Source != Measured || plan.Config.Decode.Threads != 4 {
		t.Errorf("%s plan with %d threads: want what the unbounded run proved", plan.Source, plan.Config.Decode.Threads)
	}
}

func TestInterruptedDuelKeepsWhatWasProven(t *testing.T) {
	dir := t.TempDir()
	first := tuned(t, quiet(fastest), dir, Budget{Objective: ObjectiveDecode})
	ctx, cancel := context.WithCancel(t.Context())
	s := quiet(flat) // the gain is gone, and the run is stopped before it can tell
	tuner := s.open(t, dir, 1)
	tuner.opt.Progress = func(e Event) {
		if e.Phase == "duel" {
			cancel()
		}
	}
	cert, err := tuner.Tune(ctx, anyModel, Budget{Time: 20 * time.Second, Objective: ObjectiveDecode})
	if err != nil || cert.Verdict != measure.Inconclusive || cert.Best.Config.Decode != first.Best.Config.Decode {
		t.Errorf("%s with %+v, %v: want INCONCLUSIVE with what was proven, %+v", cert.Verdict, cert.Best.Config.Decode, err, first.Best.Config.Decode)
	}
	if plan := planned(t, dir); plan.Config.Decode != first.Best.Config.Decode {
		t.Errorf("plan %+v, want %+v", plan.Config.Decode, first.Best.Config.Decode)
	}
}

func TestARunThatFindsTheGainGoneTakesItBack(t *testing.T) {
	dir := t.TempDir()
	tuned(t, quiet(fastest), dir, Budget{Objective: ObjectiveDecode})
	cert := tuned(t, quiet(flat), dir, Budget{Objective: ObjectiveDecode})
	if plan := planned(t, dir); cert.Verdict != measure.Keep || plan.Config.Decode.Blocking.ChunkRows != 0 {
		t.Errorf("%s, plan %+v: want KEEP_DEFAULT and the default", cert.Verdict, plan.Config.Decode)
	}
}

func TestWinner(t *testing.T) {
	duel := func(threads int, ratio, low, high float64) contender {
		c := measure.Comparison{Ratio: ratio, Low: low, High: high, Blocks: 40}
		return contender{arm: target.Arm{Threads: threads}, comparison: c, verdict: measure.Decide(c, minGain, 0)}
	}
	one := target.Arm{Threads: 1}
	for name, c := range map[string]struct {
		learned *target.Arm
		duels   []contender
		want    int
		verdict measure.Verdict
	}{
		"the clearly fastest":                {nil, []contender{duel(1, 1.1, 1.05, 1.15), duel(2, 1.3, 1.25, 1.35)}, 2, measure.Adopt},
		"ties go by the strategy's order":    {nil, []contender{duel(1, 1.28, 1.2, 1.35), duel(2, 1.3, 1.25, 1.35)}, 1, measure.Adopt},
		"ties go to what was proven":         {&one, []contender{duel(2, 1.3, 1.25, 1.35), duel(1, 1.28, 1.2, 1.35)}, 1, measure.Adopt},
		"an undecided rival is no keep":      {nil, []contender{duel(1, 0.995, 0.985, 1.005), duel(2, 1.03, 0.99, 1.07)}, 2, measure.Inconclusive},
		"proven once and undecided now":      {&one, []contender{duel(1, 1.75, 0.9, 3), duel(2, 1.05, 1.02, 1.08)}, 1, measure.Inconclusive},
		"proven once and now clearly slower": {&one, []contender{duel(1, 1.05, 1.02, 1.08), duel(2, 1.3, 1.25, 1.35)}, 2, measure.Adopt},
		"an adopted one beats a lucky one":   {nil, []contender{duel(1, 1.5, 0.9, 2.5), duel(2, 1.1, 1.05, 1.15)}, 2, measure.Adopt},
	} {
		t.Run(name, func(t *testing.T) {
			s := &search{tune: &tune{}, learned: c.learned}
			if got := s.winner(c.duels); got.arm.Threads != c.want || got.verdict != c.verdict {
				t.Errorf("contender %d with %s, want %d with %s", got.arm.Threads, got.verdict, c.want, c.verdict)
			}
		})
	}
}

func TestNoTrialIsNoVerdict(t *testing.T) {
	s := quiet(flat)
	tuner := s.open(t, "", 1)
	tuner.host.CPU.Features = 0 // the heuristic is the default
	cert, err := tuner.Tune(t.Context(), anyModel, Budget{Time: 300 * time.Millisecond, Objective: ObjectiveDecode})
	if err == nil && cert.Evaluations == 0 && cert.Verdict != measure.Inconclusive {
		t.Errorf("%s without a single trial", cert.Verdict)
	}
}

func TestCurveSurvivesAResume(t *testing.T) {
	dir := t.TempDir()
	cost := func(r target.Regime, a target.Arm) time.Duration { return fastest(r, a) * 4 / time.Duration(a.Threads) }
	for run := range 2 {
		tuned(t, quiet(cost), dir, Budget{Objective: ObjectiveDecode})
		snapshot, err := history.ReadSnapshot(dir)
		if err != nil {
			t.Fatal(err)
		}
		var curve Curve
		if err := json.Unmarshal(snapshot.Learned[0].Curve, &curve); err != nil || len(curve[target.Decode]) < 2 {
			t.Errorf("run %d: curve %v, %v: want costs for several thread counts", run, curve, err)
		}
		if curve[target.Decode][4] >= curve[target.Decode][2] {
			t.Errorf("run %d: curve %v: want 4 threads cheaper than 2", run, curve[target.Decode])
		}
	}
}

func TestOneRegimesFailureKeepsTheOthers(t *testing.T) {
	dir := t.TempDir()
	s := quiet(fastest)
	s.err = func(r target.Regime, a target.Arm) error {
		if r == target.Prefill {
			return fmt.Errorf("batch: %w", target.ErrOutOfMemory)
		}
		return nil
	}
	cert := tuned(t, s, dir, Budget{})
	if cert.Verdict != measure.Adopt || len(cert.Warnings) == 0 || planned(t, dir).Source != Measured {
		t.Errorf("%s, warnings %q: want decode adopted and published, and the failure told", cert.Verdict, cert.Warnings)
	}
}

func TestAWrongHeuristicIsNeitherYardstickNorAnswer(t *testing.T) {
	dir := t.TempDir()
	s := quiet(flat)
	heuristic := problemOn(*fourCores()).Heuristic().Arm(target.Decode)
	s.err = func(r target.Regime, a target.Arm) error {
		if a.Kernel == heuristic.Kernel {
			return fmt.Errorf("row 7: %w", target.ErrMismatch)
		}
		return nil
	}
	if heuristic == problemOn(*fourCores()).Default().Arm(target.Decode) { // a build with one kernel has nothing to fall back to
		if cert, err := s.open(t, dir, 1).Tune(t.Context(), anyModel, Budget{Time: time.Second, Objective: ObjectiveDecode}); !errors.Is(err, target.ErrMismatch) {
			t.Errorf("%+v, %v: want ErrMismatch", cert, err)
		}
		return
	}
	cert := tuned(t, s, dir, Budget{Objective: ObjectiveDecode})
	if got := planned(t, dir).Config.Decode.Kernel; got == heuristic.Kernel || cert.Failed == 0 {
		t.Errorf("plan says %s after it was found wrong (%d failures told)", got, cert.Failed)
	}
}

func TestSetUpEnds(t *testing.T) {
	slow := func(ctx context.Context, _ Problem, _ uint64) (Rig, error) {
		<-ctx.Done()
		return Rig{}, ctx.Err()
	}
	tuner, err := Open(Options{Host: fourCores(), Rig: slow})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tuner.Tune(t.Context(), anyModel, Budget{Time: time.Millisecond}); !errors.Is(err, ErrNoBudget) {
		t.Errorf("budget used up: %v, want ErrNoBudget", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	cert, err := tuner.Tune(ctx, anyModel, Budget{Time: time.Hour})
	if err != nil || !cert.Interrupted || cert.Verdict != measure.Inconclusive {
		t.Errorf("interrupted: %+v, %v: want an interrupted certificate", cert, err)
	}
}

func TestPinWithoutAStore(t *testing.T) {
	tuner := quiet(flat).open(t, "", 1)
	plan, err := tuner.Plan(t.Context(), anyModel)
	if err != nil {
		t.Fatal(err)
	}
	if err := tuner.Pin(t.Context(), anyModel, plan.Config, "ada"); err == nil || !strings.Contains(err.Error(), "no store") {
		t.Errorf("pin: %v, want that there is no store", err)
	}
	if err := tuner.Unpin(t.Context(), anyModel); err == nil {
		t.Error("unpin without a store succeeded")
	}
}

func TestVerify(t *testing.T) {
	slower := func(by float64) func(target.Regime, target.Arm) time.Duration {
		return func(_ target.Regime, a target.Arm) time.Duration {
			if a.Blocking.ChunkRows > 0 {
				return time.Duration(float64(10*time.Millisecond) * by)
			}
			return 10 * time.Millisecond
		}
	}
	for name, c := range map[string]struct {
		cost func(target.Regime, target.Arm) time.Duration
		err  error
		want Outcome
	}{
		"faster still": {fastest, nil, Confirmed},
		"the same":     {flat, nil, Confirmed},
		"within slack": {slower(1.003), nil, Confirmed},
		"slower":       {slower(1.2), nil, Failed},
		"wrong":        {fastest, target.ErrMismatch, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tuned(t, quiet(fastest), dir, Budget{Objective: ObjectiveDecode})
			s := &simulated{host: measuretest.New(2, measuretest.Jitter(0.005)), cost: c.cost}
			s.err = func(r target.Regime, a target.Arm) error {
				if a.Blocking.ChunkRows > 0 {
					return c.err
				}
				return nil
			}
			v, err := s.open(t, dir, 2).Verify(t.Context(), anyModel, time.Minute)
			if err != nil || v.Regimes[0].Verdict != c.want {
				t.Errorf("%+v, %v: want decode %s", v, err, c.want)
			}
		})
	}
	if _, err := quiet(flat).open(t, "", 1).Verify(t.Context(), anyModel, time.Minute); !errors.Is(err, ErrNothingLearned) {
		t.Errorf("nothing learned: %v", err)
	}
}

// A check of a changed host tells, and writes nothing: the doubt stays until a tune.
func TestVerifyLeavesTheDoubt(t *testing.T) {
	dir := t.TempDir()
	s := quiet(fastest)
	before := s.open(t, dir, 1)
	before.host.Governor = "performance"
	if _, err := before.Tune(t.Context(), anyModel, Budget{Time: 20 * time.Second, Objective: ObjectiveDecode}); err != nil {
		t.Fatal(err)
	}
	now := s.open(t, dir, 2)
	now.host.Governor = "powersave"
	recheck := func() []string {
		t.Helper()
		now.forget()
		plan, err := now.Plan(t.Context(), anyModel)
		if err != nil || plan.Source != Measured {
			t.Fatalf("%+v, %v", plan, err)
		}
		return plan.Recheck
	}
	first := recheck()
	v, err := now.Verify(t.Context(), anyModel, time.Minute)
	if err != nil || v.Regimes[0].Verdict != Confirmed || len(first) != 1 || !slices.Equal(recheck(), first) {
		t.Errorf("%+v, %v; to be checked again %v, and after the check %v: want it confirmed, and the same", v, err, first, recheck())
	}
	if _, err := now.Tune(t.Context(), anyModel, Budget{Time: 20 * time.Second, Objective: ObjectiveDecode, Seed: 2}); err != nil || len(recheck()) > 0 {
		t.Errorf("after a tune %v, %v: want no doubt", recheck(), err)
	}
}

func TestASecondRunIsBusy(t *testing.T) {
	dir := t.TempDir()
	tuned(t, quiet(fastest), dir, Budget{Objective: ObjectiveDecode})
	inside, done := make(chan bool), make(chan bool)
	s := quiet(fastest)
	tuner := s.open(t, dir, 1)
	rig := tuner.opt.Rig
	tuner.opt.Rig = func(ctx context.Context, p Problem, seed uint64) (Rig, error) {
		inside <- true
		<-done
		return rig(ctx, p, seed)
	}
	var first sync.WaitGroup
	first.Go(func() {
		if _, err := tuner.Tune(t.Context(), anyModel, Budget{Time: time.Second}); err != nil {
			t.Error(err)
		}
	})
	<-inside
	other := quiet(flat).open(t, dir, 1)
	for name, run := range map[string]func() error{
		"tune in this process":   func() error { _, err := tuner.Tune(t.Context(), anyModel, Budget{Time: time.Second}); return err },
		"tune in another":        func() error { _, err := other.Tune(t.Context(), anyModel, Budget{Time: time.Second}); return err },
		"verify in another":      func() error { _, err := other.Verify(t.Context(), anyModel, time.Second); return err },
		"verify in this process": func() error { _, err := tuner.Verify(t.Context(), anyModel, time.Second); return err },
	} {
		if err := run(); !errors.Is(err, ErrBusy) {
			t.Errorf("%s: %v, want ErrBusy", name, err)
		}
	}
	close(done)
	first.Wait()
	store, err := history.Open(dir, history.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	runs, err := store.Runs(t.Context())
	if err != nil || len(runs) != 2 || runs[1].Finished.IsZero() {
		t.Errorf("%d runs kept (%v), want the two that measured, and no trace of those that were refused", len(runs), err)
	}
}

// A store that goes away while measuring costs nothing but the record: the verdict is still there.
func TestAStoreThatGoesAwayLosesNoVerdict(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := quiet(fastest)
	tuner := s.open(t, dir, 1)
	tuner.opt.Progress = func(e Event) {
		if e.Phase == "duel" {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		}
	}
	cert, err := tuner.Tune(t.Context(), anyModel, Budget{Time: 20 * time.Second, Objective: ObjectiveDecode})
	if cert == nil || cert.Verdict != measure.Adopt {
		t.Fatalf("%+v, %v: want the certificate", cert, err)
	}
	if err == nil {
		if plan := planned(t, dir); plan.Source != Measured {
			t.Errorf("no error, and the plan is %s", plan.Source)
		}
	}
}

func TestPlanWhileTuning(t *testing.T) {
	s := quiet(fastest)
	tuner := s.open(t, t.TempDir(), 1)
	stop := make(chan bool)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if _, err := tuner.Plan(t.Context(), anyModel); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	if _, err := tuner.Tune(t.Context(), anyModel, Budget{Time: 5 * time.Second, Objective: ObjectiveDecode}); err != nil {
		t.Error(err)
	}
	close(stop)
	readers.Wait()
	if plan, err := tuner.Plan(t.Context(), anyModel); err != nil || plan.Source != Measured {
		t.Errorf("plan after the run: %s, %v: want measured at once", plan.Source, err)
	}
}

func TestRequestRatio(t *testing.T) {
	regimes := []RegimeVerdict{
		{Regime: target.Decode, Verdict: measure.Adopt, DefaultNs: 10, Ratio: Ratio{Estimate: 2, Low: 1.8, High: 2.2}},
		{Regime: target.SmallBatch, Verdict: measure.Adopt, DefaultNs: 10, Ratio: Ratio{Estimate: 9, Low: 8, High: 10}},
		{Regime: target.Prefill, Verdict: measure.Keep, DefaultNs: 5},
	}
	got := requestRatio(ObjectiveMixed, regimes)
	want := (128.0*10 + 512*5) / (128*5 + 512*5)
	if got.Estimate != want || got.Low >= got.Estimate || got.High <= got.Estimate {
		t.Errorf("mixed: %+v, want %.3f within its interval", got, want)
	}
	if got := requestRatio(ObjectiveDecode, regimes); got.Estimate != 2 {
		t.Errorf("decode: %+v, want 2", got)
	}
	if got := requestRatio(ObjectivePrefill, regimes); got.Estimate != 1 || got.Low != 1 {
		t.Errorf("prefill, which keeps its default: %+v, want 1", got)
	}
	regimes[2].DefaultNs = 0
	if got := requestRatio(ObjectiveMixed, regimes); got != (Ratio{}) {
		t.Errorf("prefill was not measured: %+v, want nothing said of a request", got)
	}
	if got := requestRatio(ObjectiveMixed, nil); got != (Ratio{}) {
		t.Errorf("nothing measured: %+v", got)
	}
}

// An arm that was proven fast and turns out wrong must not be the answer any more, whatever else was learned.
func TestAProvenArmThatTurnsOutWrongIsTakenBack(t *testing.T) {
	dir := t.TempDir()
	tuned(t, quiet(fastest), dir, Budget{Time: 40 * time.Second})
	tuned(t, quiet(fastest), dir, Budget{Objective: ObjectiveDecode})
	if planned(t, dir).Config.Decode.Blocking.ChunkRows == 0 {
		t.Fatal("the fast arm was not learned")
	}
	broken := quiet(fastest)
	broken.err = func(r target.Regime, a target.Arm) error {
		if a.Blocking.ChunkRows > 0 {
			return fmt.Errorf("row 7: %w", target.ErrMismatch)
		}
		return nil
	}
	for run := range 2 {
		tuned(t, broken, dir, Budget{Objective: ObjectiveDecode})
		if plan := planned(t, dir); plan.Config.Decode.Blocking.ChunkRows > 0 {
			t.Errorf("run %d: the plan still is %+v, which gives wrong results", run, plan.Config.Decode)
		}
	}
	// What is wrong stays wrong for a run that never gets to try it.
	ctx, cancel := context.WithCancel(t.Context())
	s := quiet(fastest)
	s.cost = func(r target.Regime, a target.Arm) time.Duration { cancel(); return fastest(r, a) }
	if _, err := s.open(t, dir, 1).Tune(ctx, anyModel, Budget{Time: 20 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if plan := planned(t, dir); plan.Config.Decode.Blocking.ChunkRows > 0 {
		t.Errorf("after an interrupted run the plan is %+v again", plan.Config.Decode)
	}
}
