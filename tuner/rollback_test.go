package tuner

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
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

// What was taken back is refused when the fleet offers it again, whether this host had it from there or had told it itself. A
// tune, which certifies on fresh samples, may bring it back.
func TestTheFleetDoesNotBringBackWhatWasRolledBack(t *testing.T) {
	for name, learn := range map[string]func(*testing.T, *Tuner){
		"received": func(t *testing.T, tuner *Tuner) {
			taught(t, tuner.opt.Fleet)
			if _, err := tuner.Receive(t.Context(), anyModel, time.Minute); err != nil {
				t.Fatal(err)
			}
		},
		"learned here": func(t *testing.T, tuner *Tuner) {
			if _, err := tuner.Tune(t.Context(), anyModel, brief); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &simulated{host: measuretest.New(2, measuretest.Jitter(0.005)), cost: by(0.5)}
			tuner := s.with(t, newFleet(t), t.TempDir())
			tuner.opt.Host.Governor = "performance"
			learn(t, tuner)
			before, err := tuner.Plan(t.Context(), anyModel)
			if err != nil || before.Config.Decode.Blocking.ChunkRows == 0 {
				t.Fatalf("%+v, %v: want chunks", before.Config.Decode, err)
			}
			after, err := tuner.Rollback(t.Context(), anyModel, "ada", "p99 rose")
			if err != nil || after.Config.equal(before.Config) {
				t.Fatalf("after the rollback %s answers, %v", after.Config.Hash(), err)
			}
			clear(s.seen)
			got, err := tuner.Receive(t.Context(), anyModel, time.Minute)
			if err != nil || len(got.Received) != 1 || got.Received[0].Verdict != Failed {
				t.Fatalf("%+v, %v: want one config, refused since it was taken back", got, err)
			}
			if !strings.Contains(got.Received[0].Reason, "rolled back by ada: p99 rose") || len(s.seen) > 0 {
				t.Errorf("%q after %d arms were prepared: want the reason, and nothing measured", got.Received[0].Reason, len(s.seen))
			}
			if !got.Plan.Config.equal(after.Config) {
				t.Errorf("after the pull %s answers, want %s", got.Plan.Config.Hash(), after.Config.Hash())
			}
			tuner.opt.Host.Governor = "powersave" // what was checked under other conditions would be checked again
			tuner.Reprobe()
			got, err = tuner.Receive(t.Context(), anyModel, time.Minute)
			if err != nil || len(got.Received) != 1 || !strings.Contains(got.Received[0].Reason, "taken back here") || !got.Plan.Config.equal(after.Config) {
				t.Errorf("under other conditions: %+v, %v", got, err)
			}
			if cert, err := tuner.Tune(t.Context(), anyModel, brief); err != nil || cert.Verdict != measure.Adopt {
				t.Errorf("a tune: %+v, %v; want that it may be adopted again", cert, err)
			}
			if _, err := tuner.Rollback(t.Context(), anyModel, "ada", "again"); err != nil {
				t.Fatal(err)
			}
			if got, err = tuner.Receive(t.Context(), anyModel, time.Minute); err != nil || got.Plan.Config.Decode.Blocking.ChunkRows != 0 {
				t.Errorf("taken back a second time: %+v, %v", got, err)
			}
		})
	}
}

// A, B and C were certified in turn, and B was taken back before C came: what answers before C is A.
func TestRollbackSkipsWhatWasTakenBackBefore(t *testing.T) {
	store := t.TempDir()
	s := &simulated{host: measuretest.New(1, measuretest.Jitter(0.005)), cost: planted}
	tuner := s.open(t, store, 1)
	p := problemOn(*fourCores())
	var hashes []string
	learn := func(threads int) {
		plan := p.Default()
		plan.Decode.Threads = threads
		hashes = append(hashes, plan.Hash())
		learnAs(t, tuner, plan, uint64(len(hashes)))
	}
	learn(1)
	learn(2)
	if plan, err := tuner.Rollback(t.Context(), anyModel, "ada", "slow"); err != nil || plan.Config.Hash() != hashes[0] {
		t.Fatalf("%s, %v: want the first, %s", plan.Config.Hash(), err, hashes[0])
	}
	learn(3)
	if plan, err := tuner.Rollback(t.Context(), anyModel, "ada", "slow"); err != nil || plan.Config.Hash() != hashes[0] {
		t.Errorf("%s, %v: want %s, since %s was taken back", plan.Config.Hash(), err, hashes[0], hashes[1])
	}
}

// learnAs publishes a config as what a run certified.
func learnAs(t *testing.T, tuner *Tuner, c Config, run uint64) {
	t.Helper()
	l := learnedOn(t, *fourCores())
	var proof Certificate
	if err := json.Unmarshal(l.Certificate, &proof); err != nil {
		t.Fatal(err)
	}
	proof.Best.Config, proof.Verdict = c, measure.Adopt
	config, bad1 := json.Marshal(c)
	document, bad2 := json.Marshal(proof)
	if err := errors.Join(bad1, bad2); err != nil {
		t.Fatal(err)
	}
	l.Config, l.Certificate, l.Run, l.MeasuredAt = config, document, run, tuner.opt.Now().Add(time.Duration(run)*time.Second)
	store, err := history.Open(tuner.opt.Store, history.Options{})
	if err != nil {
		t.Fatal(err)
	}
	done := history.Run{ID: run, Started: l.MeasuredAt, Finished: l.MeasuredAt, Host: l.Host, Model: l.Model, Target: l.Target, Objective: l.Objective,
		Verdict: string(measure.Adopt), Certificate: document}
	if err := errors.Join(store.PutRun(t.Context(), done), store.Publish(t.Context(), l)); err != nil {
		t.Fatal(err)
	}
	tuner.forget()
}

// A setting that gave wrong results is in no config that answers afterwards, though one with it was certified before.
func TestRollbackOfWrongResultsAvoidsTheSameSetting(t *testing.T) {
	s := &simulated{host: measuretest.New(1, measuretest.Jitter(0.005)), cost: planted}
	tuner := s.open(t, t.TempDir(), 1)
	p := problemOn(*fourCores())
	bad := p.Default()
	bad.Decode.Threads = 1
	learnAs(t, tuner, bad, 1)
	both := bad
	both.Prefill.Threads = 2
	learnAs(t, tuner, both, 2)
	plan, err := tuner.Rollback(t.Context(), anyModel, "the sentinel", "decode: result differs", target.Decode)
	if err != nil || plan.Config.Decode.Threads == 1 {
		t.Errorf("%+v answers, %v: want another setting for decode", plan.Config.Decode, err)
	}
	e, err := tuner.Explain(t.Context(), anyModel)
	if err != nil || !slices.ContainsFunc(e.PassedOver, func(why string) bool { return strings.Contains(why, "rolled back by the sentinel") }) && !strings.Contains(e.Plan.Reason, "the sentinel") {
		t.Errorf("%+v, %v: want the reason", e, err)
	}
}

// An operator takes a config back while a run is about to publish the same one again: the operator's word wins.
func TestARunDoesNotUndoARollback(t *testing.T) {
	store := t.TempDir()
	s := &simulated{host: measuretest.New(1, measuretest.Jitter(0.005)), cost: planted}
	tuner := s.open(t, store, 1)
	budget := Budget{Time: 20 * time.Second, Target: targetCPU, Objective: ObjectiveDecode, Seed: 1}
	if _, err := tuner.Tune(t.Context(), anyModel, budget); err != nil {
		t.Fatal(err)
	}
	learned := planOf(t, tuner)
	operator := s.open(t, store, 1)
	tuner.opt.Progress = func(e Event) {
		if e.Phase != "done" {
			return
		}
		if _, err := operator.Rollback(t.Context(), anyModel, "ada", "p99 rose"); err != nil {
			t.Error(err)
		}
	}
	cert, err := tuner.Tune(t.Context(), anyModel, budget)
	if err != nil || !cert.Best.Config.equal(learned.Config) {
		t.Fatalf("%v: the run came to %s, not to %s: the test shows nothing", err, cert.Best.Config.Hash(), learned.Hash)
	}
	if now := planOf(t, tuner); now.Hash == learned.Hash || !slices.ContainsFunc(cert.Warnings, func(w string) bool { return strings.Contains(w, "rolled back by ada") }) {
		t.Errorf("%s answers, warnings %q", now.Hash, cert.Warnings)
	}
}
