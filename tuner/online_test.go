package tuner

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/bandit/online"
	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// proven is a tuner on a quiet simulated host with the result of a run on a planted surface in its store.
func proven(t *testing.T, store string) *Tuner {
	t.Helper()
	s := &simulated{host: measuretest.New(1), cost: planted}
	tuner := s.open(t, store, 1)
	cert, err := tuner.Tune(t.Context(), anyModel, Budget{Time: 30 * time.Second, Objective: ObjectiveDecode, Layout: kernels.Layout("i2s")})
	if err != nil || cert.Verdict != measure.Adopt {
		t.Fatalf("%v, %v: want a planted gain adopted", cert, err)
	}
	return tuner
}

func openSession(t *testing.T, tuner *Tuner) *Session {
	t.Helper()
	s := tuner.Online(anyModel)
	t.Cleanup(func() { s.Close() })
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return s
}

// serve runs requests whose cost is given by whether chunks are used, and returns how many were tried on another arm.
func serve(s *Session, requests int, chunked, whole time.Duration) (tried int) {
	dice := rand.New(rand.NewPCG(9, 9))
	for range requests {
		c := s.Choose(Request{Tokens: 4})
		if c.Tried() {
			tried++
		}
		cost := whole
		if c.Arm.Blocking.ChunkRows > 0 {
			cost = chunked
		}
		s.Report(c, time.Duration(float64(4*cost)*math.Exp(0.05*dice.NormFloat64())))
	}
	return tried
}

func TestOnlineServesWhatWasProven(t *testing.T) {
	tuner := proven(t, t.TempDir())
	s := openSession(t, tuner)
	plan := s.Plan()
	if plan.Source != Measured || plan.Config.Decode.Blocking.ChunkRows == 0 {
		t.Fatalf("plan %+v: want the measured one, in chunks", plan)
	}
	if got := s.Choose().Arm; got != plan.Config.Arm(target.Decode) {
		t.Errorf("the first request is served by %s: want the plan's %s", got, plan.Config.Arm(target.Decode))
	}
	if n := len(s.now.Load().regimes[target.Decode].arms); n < 2 {
		t.Errorf("%d settings to choose among: want those of the duel", n)
	}
	if n := len(s.now.Load().regimes[target.Prefill].arms); n != 1 {
		t.Errorf("%d settings for a regime that was not measured: want 1, the plan's", n)
	}
	for _, r := range Regimes {
		if got := s.Choose(Request{Regime: r}).Arm; got.Kernel == "" {
			t.Errorf("%s: no setting", r)
		}
	}
}

// Under the service's own load the default is 15 % faster than what was proven: the session notices, and the next one
// begins with it.
func TestOnlineLearnsAndRemembers(t *testing.T) {
	store := t.TempDir()
	tuner := proven(t, store)
	s := openSession(t, tuner)
	tried := serve(s, 4000, 115*time.Microsecond, 100*time.Microsecond)
	if got := s.Choose(Request{Tokens: 4}).Arm.Blocking.ChunkRows; got != 0 {
		t.Errorf("served in chunks of %d rows: want none, which is 15 %% faster here", got)
	}
	if tried == 0 || tried > 200 {
		t.Errorf("%d of 4000 requests were tried on another setting: want some, and at most 5 %%", tried)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := openSession(t, tuner)
	if got := again.Choose(Request{Tokens: 4}).Arm.Blocking.ChunkRows; got != 0 {
		t.Errorf("a new session serves in chunks of %d rows: want what the last one learned", got)
	}
	if got := again.Choose(Request{Tokens: 900}).Arm.Blocking.ChunkRows; got == 0 {
		t.Error("a new session takes over what was learned for another batch")
	}
	kept, err := history.Open(store, history.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if damage, err := kept.Check(t.Context()); err != nil || !damage.OK {
		t.Errorf("history %+v, %v: want it sound", damage, err)
	}
}

// A real clock moves on between the records of a session: they are one memory all the same.
func TestOnlineRemembersEverySetting(t *testing.T) {
	tuner := proven(t, t.TempDir())
	now := tuner.opt.Now()
	tuner.opt.Now = func() time.Time { now = now.Add(time.Microsecond); return now }
	s := openSession(t, tuner)
	serve(s, 4000, 115*time.Microsecond, 100*time.Microsecond)
	want := costsKnown(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := openSession(t, tuner)
	again.Report(again.Choose(Request{Tokens: 4}), time.Millisecond)
	if got := costsKnown(again); got < want {
		t.Errorf("a new session knows %d costs of the %d that were known to the last one", got, want)
	}
}

// costsKnown counts what a session remembers of all settings for decoding.
func costsKnown(s *Session) (n int) {
	for _, m := range s.now.Load().regimes[target.Decode].chooser.Memories() {
		for _, costs := range m.Costs {
			n += len(costs)
		}
	}
	return n
}

// A service that began before anything was measured takes up what a run proves then, and so does a session that finds
// older memories in the history.
func TestOnlineFollowsANewProof(t *testing.T) {
	store := t.TempDir()
	tuner := (&simulated{host: measuretest.New(1), cost: planted}).open(t, store, 1)
	s := openSession(t, tuner)
	serve(s, 500, 95*time.Microsecond, 100*time.Microsecond)
	cert, err := tuner.Tune(t.Context(), anyModel, Budget{Time: 30 * time.Second, Objective: ObjectiveDecode, Layout: kernels.Layout("i2s")})
	if err != nil || cert.Verdict != measure.Adopt {
		t.Fatalf("%v, %v: want a planted gain adopted", cert, err)
	}
	if err := s.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := s.Choose(Request{Tokens: 4}).Arm, s.Plan().Config.Arm(target.Decode); got != want {
		t.Errorf("after a run %s serves: want the plan's %s", got, want)
	}
	serve(s, 4000, 115*time.Microsecond, 100*time.Microsecond)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if cert, err = tuner.Tune(t.Context(), anyModel, Budget{Time: 30 * time.Second, Objective: ObjectiveDecode, Layout: kernels.Layout("i2s")}); err != nil || cert.Verdict != measure.Adopt {
		t.Fatalf("%v, %v: want the gain adopted again", cert, err)
	}
	again := openSession(t, tuner)
	if got, want := again.Choose(Request{Tokens: 4}).Arm, again.Plan().Config.Arm(target.Decode); got != want {
		t.Errorf("after another run %s serves: want the plan's %s, which was proven after what was remembered", got, want)
	}
	serve(again, 400, 115*time.Microsecond, 100*time.Microsecond)
	if got := again.Choose(Request{Tokens: 4}).Arm.Blocking.ChunkRows; got != 0 {
		t.Error("what was remembered of the other setting is lost: after 400 requests it does not serve again")
	}
}

func TestSeatedMemory(t *testing.T) {
	m := online.Memory{Incumbent: 1, Costs: [][]float64{{2, 1, 4}, {1, 0.5}, nil}}
	want := online.Memory{Costs: [][]float64{{1, 0.5, 2}, {0.5, 0.25}, nil}}
	if diff := cmp.Diff(want, seated(m)); diff != "" {
		t.Errorf("relative to arm 0 (-want +got):\n%s", diff)
	}
	untried := online.Memory{Incumbent: 1, Costs: [][]float64{nil, {1, 0.9}}}
	if diff := cmp.Diff(online.Memory{Costs: [][]float64{nil, nil}}, seated(untried)); diff != "" {
		t.Errorf("of an arm that was not tried (-want +got):\n%s", diff)
	}
}

// Where a run decided for the GPU, a session serves the GPU's settings.
func TestOnlineServesWhereThePlanSays(t *testing.T) {
	tuner := withGPU(2).open(t, t.TempDir(), 1)
	if _, err := tuner.Tune(t.Context(), anyModel, anyTarget); err != nil {
		t.Fatal(err)
	}
	plan, err := tuner.Plan(t.Context(), anyModel)
	if err != nil || plan.Config.Strategy != GPUOnly {
		t.Fatalf("plan %+v, %v: want the GPU", plan, err)
	}
	s := openSession(t, tuner)
	if got, want := s.Choose().Arm, plan.Config.Arm(target.Decode); got != want {
		t.Errorf("%s serves: want the plan's %s", got, want)
	}
	before := s.now.Load()
	if err := s.renew(t.Context()); err != nil || s.now.Load() != before {
		t.Errorf("%v: the settings are made anew though the plan is the same", err)
	}
}

// What sessions keep stays bounded while a service runs, and is no measurement. Many may close at once.
func TestOnlineKeepsLittle(t *testing.T) {
	dir := t.TempDir()
	tuner := proven(t, dir)
	before, err := tuner.Explain(t.Context(), anyModel)
	if err != nil {
		t.Fatal(err)
	}
	s := openSession(t, tuner)
	const rounds = history.DefaultPerCell + 8
	for range rounds {
		serve(s, 10, 100*time.Microsecond, 100*time.Microsecond)
		if err := s.keep(s.now.Load()); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	store, err := history.Open(dir, history.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	cells := map[string]int{}
	if err := store.Records(t.Context(), history.Filter{}, func(r history.Record) error {
		if r.Run == s.run {
			cells[r.Regime+string(r.Config)]++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for cell, n := range cells {
		if n > history.DefaultPerCell {
			t.Errorf("%d records of %s after %d rounds: want at most %d", n, cell, rounds, history.DefaultPerCell)
		}
	}
	after, err := tuner.Explain(t.Context(), anyModel)
	if err != nil || len(cells) == 0 || after.Measurements != before.Measurements {
		t.Errorf("%d measurements after a session that kept records of %d settings, %v: want %d as before", after.Measurements, len(cells), err, before.Measurements)
	}
}

func TestAnOperatorsPinIsNotDoubted(t *testing.T) {
	tuner := proven(t, t.TempDir())
	s := openSession(t, tuner)
	if err := tuner.Pin(t.Context(), anyModel, tuner.mustProblem(t).Default(), "somebody"); err != nil {
		t.Fatal(err)
	}
	if err := s.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tried := serve(s, 2000, 50*time.Microsecond, 100*time.Microsecond); tried != 0 || s.Plan().Source != Pinned {
		t.Errorf("%d tries under a pin, plan from %s: want none and pinned", tried, s.Plan().Source)
	}
}

func (t *Tuner) mustProblem(test *testing.T) Problem {
	test.Helper()
	p, err := t.problem(test.Context(), anyModel)
	if err != nil {
		test.Fatal(err)
	}
	return p
}

func TestOnlineWithNothingLearned(t *testing.T) {
	s := (&simulated{host: measuretest.New(1), cost: flat}).open(t, "", 1).Online(anyModel)
	defer s.Close()
	if tried := serve(s, 1000, time.Millisecond, time.Millisecond); tried != 0 || s.Plan().Source != Heuristic {
		t.Errorf("%d tries from %s: want none of what nobody verified", tried, s.Plan().Source)
	}
}

func TestOnlineOfNoModel(t *testing.T) {
	s := (&simulated{host: measuretest.New(1), cost: flat}).open(t, "", 1).Online("no-such-model")
	if s.Err() == nil {
		t.Error("no error for a model that does not exist")
	}
	c := s.Choose()
	s.Report(c, time.Second)
	s.Failed(c)
	if c.Arm.Kernel != "" {
		t.Errorf("%s for a model that does not exist", c.Arm)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestOnlineForManyCallers(t *testing.T) {
	tuner := proven(t, t.TempDir())
	s := openSession(t, tuner)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { serve(s, 500, 90*time.Microsecond, 100*time.Microsecond) })
	}
	for range 20 {
		if err := s.renew(context.Background()); err != nil {
			t.Error(err)
		}
		tuner.forget()
	}
	all.Wait()
}

func TestOnlineAllocatesNothing(t *testing.T) {
	s := openSession(t, proven(t, t.TempDir()))
	if n := testing.AllocsPerRun(1000, func() { s.Report(s.Choose(Request{Tokens: 3, Load: 0.4}), time.Millisecond) }); n != 0 {
		t.Errorf("%g allocations for a request: want 0", n)
	}
}

func TestSessionRegimes(t *testing.T) {
	want := online.Context{Batch: 256, Load: 0.75}
	for _, of := range Regimes {
		if r, got, ok := parseSessionRegime(sessionRegime(of, want)); !ok || r != of || got != want {
			t.Errorf("%s of %+v reads back as %s of %+v", of, want, r, got)
		}
	}
	for _, text := range []string{"decode", "online/decode", "online/decode/x/1", "offline/decode/1/0.5",
		"online/decode/1/NaN", "online/decode/1/-0.25", "online/decode/1/2", "online/decode/1/0.5x", "online/decode/-1/0.5"} {
		if _, _, ok := parseSessionRegime(text); ok {
			t.Errorf("%q: read as a session's", text)
		}
	}
}

// A record that came from elsewhere, of no time and a context that no session writes, does not take the service down.
func TestOnlineOfAForeignRecord(t *testing.T) {
	dir := t.TempDir()
	tuner := proven(t, dir)
	p := tuner.mustProblem(t)
	plan, err := tuner.Plan(t.Context(), anyModel)
	if err != nil {
		t.Fatal(err)
	}
	arm := plan.Config.Arm(target.Decode)
	store, err := history.Open(dir, history.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Append(t.Context(), history.Record{Run: 1, Seq: 1, Host: p.fingerprint(), Model: p.Model.Fingerprint(), Target: targetCPU,
		Regime: "online/decode/1/NaN", Config: armJSON(arm), Signature: p.key(arm), Status: history.StatusOK, Costs: []float64{1}}); err != nil {
		t.Fatal(err)
	}
	if got := openSession(t, tuner).Choose().Arm; got != arm {
		t.Errorf("%s serves: want the plan's %s", got, arm)
	}
}

func BenchmarkOnline(b *testing.B) {
	tuner, err := Open(Options{Host: fourCores()})
	if err != nil {
		b.Fatal(err)
	}
	s := tuner.Online(anyModel)
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		s.Report(s.Choose(Request{Tokens: 3, Load: 0.4}), time.Millisecond)
	}
}
