package tuner

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// pinnedTo has an operator pin knobs, and returns what answers then.
func pinnedTo(t *testing.T, tuner *Tuner, knobs ...string) Plan {
	t.Helper()
	if err := tuner.PinKnobs(t.Context(), anyModel, knobs, "ada"); err != nil {
		t.Fatal(err)
	}
	return planOf(t, tuner)
}

func planOf(t *testing.T, tuner *Tuner) Plan {
	t.Helper()
	plan, err := tuner.Plan(t.Context(), anyModel)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// A pinned knob holds in every answer: from facts, from what was learned without it, and from a tune, which varies the others.
func TestAPinnedKnobHolds(t *testing.T) {
	s := &simulated{host: measuretest.New(1, measuretest.Jitter(0.005)), cost: planted}
	tuner := s.open(t, t.TempDir(), 1)
	short := Budget{Time: 20 * time.Second, Target: targetCPU, Objective: ObjectiveDecode, Seed: 1}

	plan := pinnedTo(t, tuner, "decode.threads=3")
	if plan.Source != Heuristic || plan.Config.Decode.Threads != 3 || plan.Config.Prefill.Threads == 3 || knobText(plan.PinnedKnobs) != "decode.threads=3" {
		t.Errorf("from facts: %s with %d and %d threads, pinned %v", plan.Source, plan.Config.Decode.Threads, plan.Config.Prefill.Threads, plan.PinnedKnobs)
	}
	clear(s.seen)
	cert, err := tuner.Tune(t.Context(), anyModel, short)
	if err != nil || cert.Verdict != measure.Adopt || cert.Default.Config.Decode.Threads != 3 {
		t.Fatalf("tune: %+v, %v; want a gain over a default with 3 threads", cert, err)
	}
	for arm := range s.seen {
		if arm.Threads != 3 {
			t.Errorf("tried %v", arm)
		}
	}
	if plan = planOf(t, tuner); plan.Source != Measured || plan.Config.Decode.Threads != 3 || plan.Config.Decode.Blocking.ChunkRows == 0 {
		t.Errorf("measured: %s, %+v", plan.Source, plan.Config.Decode)
	}

	plan = pinnedTo(t, tuner, "decode.threads=2")
	if plan.Source != Derived || plan.Config.Decode.Threads != 2 || plan.Config.Decode.Blocking.ChunkRows == 0 || !strings.Contains(plan.Reason, "not measured with decode.threads=2") || plan.Ratio.Estimate != 0 {
		t.Errorf("pinned after it was learned: %s, %+v, ratio %v, %q", plan.Source, plan.Config.Decode, plan.Ratio, plan.Reason)
	}
	if err := tuner.UnpinKnobs(t.Context(), anyModel, []string{"decode.threads"}); err != nil {
		t.Fatal(err)
	}
	plan = planOf(t, tuner)
	if plan.Source != Derived || len(plan.PinnedKnobs) > 0 || !strings.Contains(plan.Reason, "only the best with decode.threads=3") {
		t.Errorf("unpinned: %s, %v, %q", plan.Source, plan.PinnedKnobs, plan.Reason)
	}
	if _, err := tuner.Tune(t.Context(), anyModel, short); err != nil {
		t.Fatal(err)
	}
	free := planOf(t, tuner)
	if free.Source != Measured {
		t.Errorf("tuned without pins: %s, %q", free.Source, free.Reason)
	}
	if again := pinnedTo(t, tuner, "decode.threads=3"); again.Source != Measured || again.Config.Decode.Threads != 3 {
		t.Errorf("pinned as before: %s, %+v, %q; want what was measured then", again.Source, again.Config.Decode, again.Reason)
	}
}

// Where nothing is left to be varied, a tune decides so, and the answer is measured: it is not tuned for ever.
func TestATuneWhereEveryKnobIsPinned(t *testing.T) {
	s := &simulated{host: measuretest.New(1, measuretest.Jitter(0.005)), cost: planted}
	tuner := s.open(t, t.TempDir(), 1)
	p := problemOn(*fourCores())
	var knobs []string
	for name, value := range p.domain().values(p.Default().Arm(target.Decode)) {
		knobs = append(knobs, "decode."+name+"="+value)
	}
	pinnedTo(t, tuner, knobs...)
	cert, err := tuner.Tune(t.Context(), anyModel, Budget{Time: 20 * time.Second, Target: targetCPU, Objective: ObjectiveDecode, Seed: 1})
	if err != nil || cert.Verdict != measure.Keep {
		t.Fatalf("%+v, %v: want %s", cert, err, measure.Keep)
	}
	if plan := planOf(t, tuner); plan.Source != Measured || plan.Config.Arm(target.Decode) != p.Default().Arm(target.Decode) {
		t.Errorf("%s, %+v, %q", plan.Source, plan.Config.Decode, plan.Reason)
	}
}

// In a pinned layout nothing is better than the default, which then is the default in that layout.
func TestATuneInAPinnedLayoutKeepsItsDefault(t *testing.T) {
	p := problemOn(*fourCores()).in("")
	if len(p.layouts()) < 2 {
		t.Skip("NOT TESTED: another layout: this build has the kernels of one alone")
	}
	other := p.layouts()[1]
	s := &simulated{host: measuretest.New(1, measuretest.Jitter(0.005)), cost: flat}
	tuner := s.open(t, t.TempDir(), 1)
	pinnedTo(t, tuner, "layout="+string(other))
	cert, err := tuner.Tune(t.Context(), anyModel, Budget{Time: 2 * time.Minute, Target: targetCPU, Objective: ObjectiveDecode, Seed: 1})
	if err != nil || cert.Verdict != measure.Keep || cert.Best.Config.Layout != other {
		t.Fatalf("%s in %s, %v: want %s in %s", cert.Verdict, cert.Best.Config.Layout, err, measure.Keep, other)
	}
	if plan := planOf(t, tuner); plan.Source != Measured || plan.Config.Layout != other {
		t.Errorf("%s in layout %s: %q", plan.Source, plan.Config.Layout, plan.Reason)
	}
}

// What is learned under a pinned knob is this operator's affair.
func TestWhatWasLearnedUnderPinsIsNotShared(t *testing.T) {
	s := &simulated{host: measuretest.New(2, measuretest.Jitter(0.005)), cost: by(0.5)}
	tuner := s.with(t, newFleet(t), t.TempDir())
	pinnedTo(t, tuner, "decode.threads=3")
	cert, err := tuner.Tune(t.Context(), anyModel, brief)
	if err != nil || cert.Verdict != measure.Adopt || cert.Fleet != "" {
		t.Errorf("%v, %s, fleet %q: want it adopted and not given", err, cert.Verdict, cert.Fleet)
	}
	if shared, err := tuner.Share(t.Context(), ""); err == nil {
		t.Errorf("shared %+v", shared)
	}
}

func TestPinnedKnobsThatCannotBe(t *testing.T) {
	for text, want := range map[string]string{
		"decode.threads":                  "want KNOB=VALUE",
		"threads=3":                       "or one of [decode small_batch prefill]",
		"decode.layout=i2s":               "want layout, which all regimes share",
		"decode.speed=3":                  "the knobs of decode are kernel, threads, tile, prefetch_bytes, chunk_rows, batch",
		"decode.threads=three":            "want a number such as 1",
		"decode.threads=-1":               "want a number",
		"decode.threads=99":               "this host can use 1 to 4",
		"decode.batch=2":                  "decode takes 1",
		"decode.kernel=mul/none":          "one of mul/",
		"decode.tile=banana":              "one of ",
		"decode.prefetch_bytes=12345":     "no such prefetch distance",
		"layout=pancake":                  "one of [",
		"prefill.batch=99999999999999999": "the workspace would take more",
		"prefill.batch=70000":             "70000",
	} {
		s := &simulated{host: measuretest.New(1), cost: planted}
		tuner := s.open(t, t.TempDir(), 1)
		err := tuner.PinKnobs(t.Context(), anyModel, []string{text}, "ada")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want … %s …", text, err, want)
		}
		if plan := planOf(t, tuner); len(plan.PinnedKnobs) > 0 {
			t.Errorf("%s: is pinned", text)
		}
	}
}

// A kernel decides the layout, and a layout holds for all regimes.
func TestAPinnedKernelDecidesTheLayout(t *testing.T) {
	s := &simulated{host: measuretest.New(1), cost: planted}
	tuner := s.open(t, t.TempDir(), 1)
	p := problemOn(*fourCores()).in("")
	layouts := p.layouts()
	if len(layouts) < 2 {
		t.Skipf("NOT TESTED: another layout: this build has the kernels of one alone: %v", layouts)
	}
	other := layouts[1]
	kernel := p.in(other).Heuristic().Decode.Kernel
	plan := pinnedTo(t, tuner, "decode.kernel="+kernel)
	if plan.Config.Layout != other || plan.Config.Decode.Kernel != kernel || tuner.opt.Host == nil {
		t.Errorf("layout %s with %s, want %s", plan.Config.Layout, plan.Config.Decode.Kernel, other)
	}
	if err := p.validate(plan.Config); err != nil {
		t.Error(err)
	}
	if err := tuner.PinKnobs(t.Context(), anyModel, []string{"layout=" + string(layouts[0])}, "ada"); err == nil || !strings.Contains(err.Error(), "the weights are held once") {
		t.Errorf("another layout besides: %v", err)
	}
	if _, err := tuner.Tune(t.Context(), anyModel, Budget{Time: time.Second, Target: targetCPU, Layout: layouts[0]}); err == nil || !strings.Contains(err.Error(), "is pinned") {
		t.Errorf("a tune in another layout: %v", err)
	}
}

// Every possible pin of one knob leaves an answer that is possible, and has it.
func TestEveryPinnedKnobLeavesAnAnswer(t *testing.T) {
	free := problemOn(*fourCores()).in("")
	for _, r := range Regimes {
		space, err := free.Space(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, knob := range space.Knobs() {
			for _, value := range knob.Values {
				text := string(r) + "." + knob.Name + "=" + value
				k, err := free.parseKnob(text)
				if err != nil {
					t.Error(err)
					continue
				}
				p := free
				p.knobs = append(p.knobs, k)
				if p.possible() != nil {
					if knob.Kind == bandit.Ordinal && knob.Name == knobThreads {
						t.Errorf("%s is not possible", text)
					}
					continue
				}
				p.Layout, _ = p.pinnedLayout()
				for name, c := range map[string]Config{"default": p.Default(), "heuristic": p.Heuristic()} {
					if err := p.validate(c); err != nil || !p.obeys(r, c.Arm(r)) {
						t.Errorf("%s: the %s %v: %v", text, name, c.Arm(r), err)
					}
				}
			}
		}
	}
}

// Where the limits have become so narrow that a pinned knob cannot be had, the answer says so and goes without.
func TestAPinnedKnobThatIsNotPossibleAnyMore(t *testing.T) {
	s := &simulated{host: measuretest.New(1), cost: planted}
	store := t.TempDir()
	tuner := s.open(t, store, 1)
	pinnedTo(t, tuner, "decode.threads=4", "prefill.batch=64")
	tuner.opt.Host.CPU.UsableCores, tuner.opt.Host.CPU.UsablePhysical = 2, 2
	tuner.Reprobe()
	plan := planOf(t, tuner)
	if plan.Config.Decode.Threads > 2 || !strings.Contains(plan.Reason, "decode.threads=4") || knobText(plan.PinnedKnobs) != "prefill.batch=64" || plan.Config.Prefill.Batch != 64 {
		t.Errorf("%+v because %q", plan.Config.Decode, plan.Reason)
	}
	if err := tuner.UnpinKnobs(t.Context(), anyModel, []string{"decode.tile"}); err == nil || !strings.Contains(err.Error(), "these are: decode.threads=4 prefill.batch=64") {
		t.Errorf("unpinning another: %v", err)
	}
}

// A live service is offered nothing else than what is pinned.
func TestASessionKeepsToPinnedKnobs(t *testing.T) {
	s := &simulated{host: measuretest.New(1, measuretest.Jitter(0.005)), cost: planted}
	tuner := s.open(t, t.TempDir(), 1)
	if _, err := tuner.Tune(t.Context(), anyModel, Budget{Time: 20 * time.Second, Target: targetCPU, Objective: ObjectiveDecode, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	threads := planOf(t, tuner).Config.Decode.Threads
	pinnedTo(t, tuner, "decode.chunk_rows=256")
	on, err := tuner.serve(t.Context(), anyModel)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range on.regimes[target.Decode].arms {
		if a.Blocking.ChunkRows != 256 {
			t.Errorf("%v is among the choices", a)
		}
	}
	if on.plan.Config.Decode.Threads != threads || !slices.Contains(kernels.Layouts(), on.plan.Config.Layout) {
		t.Errorf("%+v: want the learned setting with the pinned knob", on.plan.Config.Decode)
	}
}

// Answering under pinned knobs for the first time takes no longer than an answer may: 100 ms, of which a third is left here.
func BenchmarkPlanUnderPinnedKnobs(b *testing.B) {
	p := problemOn(*fourCores())
	k, err := p.parseKnob("decode.threads=3")
	if err != nil {
		b.Fatal(err)
	}
	p.knobs = append(p.knobs, k)
	for b.Loop() {
		p.plan(nil)
	}
}
