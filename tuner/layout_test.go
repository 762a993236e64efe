package tuner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// rival is a layout other than the default's that the simulated host may choose. A build without assembly has none,
// and says so.
func rival(t *testing.T) (kernels.Layout, bool) {
	t.Helper()
	layouts := Problem{Host: *fourCores()}.layouts()
	if len(layouts) > 1 {
		return layouts[1], true
	}
	for _, k := range kernels.Usable(fourCores().CPU.Features) {
		if k.Needs != 0 && k.Layout != DefaultLayout {
			t.Fatalf("layouts %v: %s is missing", layouts, k.Layout)
		}
	}
	return "", false
}

// tick is the unit of these costs: a tenth of an arm of the default's layout. It is long, so that a run asks few questions.
const tick = 3 * time.Millisecond

// surface is a cost that depends on the layout and the regime alone: 10 ticks in the default's layout, but 15 for
// arms like the default, of its kernel and not chunked.
func surface(other map[target.Regime]time.Duration) func(target.Regime, target.Arm) time.Duration {
	standard := Problem{Host: *fourCores()}.Default()
	return func(r target.Regime, a target.Arm) time.Duration {
		switch {
		case a.Layout != DefaultLayout:
			return other[r]
		case a.Kernel == standard.Decode.Kernel && a.Blocking.ChunkRows == 0:
			return 15 * tick
		}
		return 10 * tick
	}
}

func everywhere(cost time.Duration) map[target.Regime]time.Duration {
	return map[target.Regime]time.Duration{target.Decode: cost, target.SmallBatch: cost, target.Prefill: cost}
}

func TestLayoutIsChosenOnceForTheRequest(t *testing.T) {
	other, ok := rival(t)
	if !ok {
		other = DefaultLayout
	}
	tests := map[string]struct {
		cost   map[target.Regime]time.Duration
		want   kernels.Layout
		reason string // of the one that was not chosen
	}{
		"faster in every regime": {everywhere(8 * tick), other, "slower than " + string(other)},
		"slower in every regime": {everywhere(12 * tick), DefaultLayout, "no faster than " + string(DefaultLayout)},
		"within one percent":     {everywhere(995 * tick / 100), DefaultLayout, "no faster than"},
		"faster to decode, slower than the default to prefill": {
			map[target.Regime]time.Duration{target.Decode: 5 * tick, target.SmallBatch: 5 * tick, target.Prefill: 20 * tick},
			DefaultLayout, "not proven better than the default in prefill",
		},
		// a request is 128 tokens of decode and 512 of prefill: 640 * 10 ticks against 128 * 5 + 512 * 12
		"faster to decode, slower for the request": {
			map[target.Regime]time.Duration{target.Decode: 5 * tick, target.SmallBatch: 5 * tick, target.Prefill: 12 * tick},
			DefaultLayout, "no faster than",
		},
		"faster for the request, slower for small batches": {
			map[target.Regime]time.Duration{target.Decode: 9 * tick, target.SmallBatch: 13 * tick, target.Prefill: 9 * tick},
			DefaultLayout, "gains less in the request than it loses in small_batch",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cert := tuned(t, quiet(surface(tt.cost)), "", Budget{Time: 90 * time.Second})
			checkCoherent(t, cert)
			if cert.Verdict != measure.Adopt || cert.Best.Config.Layout != tt.want {
				t.Errorf("%s with layout %s, want ADOPT with %s: %+v", cert.Verdict, cert.Best.Config.Layout, tt.want, cert.Layouts)
			}
			for _, l := range cert.Layouts {
				reason := tt.reason
				if l.Layout != DefaultLayout && tt.want != DefaultLayout {
					reason = "no faster than " + string(tt.want) // another rival, which costs the same
				}
				if len(cert.Layouts) > 1 && !l.Chosen && !strings.HasPrefix(l.Reason, reason) {
					t.Errorf("%s passed because %q, want %q", l.Layout, l.Reason, reason)
				}
			}
		})
	}
}

// checkCoherent checks that everything in an answer is of one layout, and that the chosen one is marked.
func checkCoherent(t *testing.T, cert *Certificate) {
	t.Helper()
	c := cert.Best.Config
	if err := c.Validate(*fourCores()); err != nil {
		t.Error(err)
	}
	for _, l := range cert.Layouts {
		if l.Chosen != (l.Layout == c.Layout) || l.Bytes <= 0 || l.Reason == "" && !l.Chosen {
			t.Errorf("%+v with config layout %s", l, c.Layout)
		}
	}
	for _, r := range Regimes {
		if v, ok := cert.proof(r); ok && v.winner() != c.Arm(r) {
			t.Errorf("%s: the proof's winner is %s, the config has %s", r, v.winner(), c.Arm(r))
		}
	}
}

func TestLayoutProvenForARegimeBindsTheOthers(t *testing.T) {
	other, ok := rival(t)
	if !ok {
		other = DefaultLayout
	}
	dir := t.TempDir()
	decode := tuned(t, quiet(surface(everywhere(8*tick))), dir, Budget{Objective: ObjectiveDecode})
	if got := decode.Best.Config.Layout; got != other {
		t.Fatalf("decode chose layout %s, want %s", got, other)
	}
	slow := map[target.Regime]time.Duration{target.Decode: 8 * tick, target.SmallBatch: 10 * tick, target.Prefill: 14 * tick}
	prefill := tuned(t, quiet(surface(slow)), dir, Budget{Objective: ObjectivePrefill})
	checkCoherent(t, prefill)
	if got := prefill.Best.Config.Layout; got != other {
		t.Errorf("a run for prefill changed the layout to %s", got)
	}
	if prefill.Best.Config.Decode != decode.Best.Config.Decode {
		t.Errorf("a run for prefill changed decode to %+v", prefill.Best.Config.Decode)
	}
	mixed := tuned(t, quiet(surface(slow)), dir, Budget{Time: 180 * time.Second})
	checkCoherent(t, mixed)
	if got := mixed.Best.Config.Layout; got != DefaultLayout {
		t.Errorf("a run that measures every regime kept layout %s, which is slower for the request: %+v", got, mixed.Layouts)
	}
}

func TestWrongLayoutIsNeverChosen(t *testing.T) {
	if _, ok := rival(t); !ok {
		return // rival has checked that there is nothing to choose
	}
	s := quiet(surface(everywhere(tick)))
	s.err = func(_ target.Regime, a target.Arm) error {
		if a.Layout != DefaultLayout {
			return fmt.Errorf("planted: %w", target.ErrMismatch)
		}
		return nil
	}
	cert := tuned(t, s, "", Budget{Objective: ObjectiveDecode})
	checkCoherent(t, cert)
	if cert.Best.Config.Layout != DefaultLayout || len(cert.Wrong) == 0 {
		t.Errorf("layout %s with %d arms known to be wrong", cert.Best.Config.Layout, len(cert.Wrong))
	}
	for _, a := range cert.Wrong {
		if a.Layout == DefaultLayout {
			t.Errorf("%s is called wrong", a)
		}
	}
}

func TestLayoutThatWasAskedForIsTheOnlyOne(t *testing.T) {
	cert := tuned(t, quiet(surface(everywhere(5*tick))), "", Budget{Objective: ObjectiveDecode, Layout: DefaultLayout})
	checkCoherent(t, cert)
	for _, up := range cert.Regimes[0].RunnersUp {
		if up.Arm.Layout != DefaultLayout {
			t.Errorf("%s was tried", up.Arm)
		}
	}
}

// TestLayoutsWorthTrying: a layout without a SIMD kernel for the host is not packed at all.
func TestLayoutsWorthTrying(t *testing.T) {
	m, _ := model.Preset(anyModel)
	for _, have := range []probe.Feature{0, probe.AVX2, probe.AVX2 | probe.AVX512 | probe.AVX512VNNI, probe.NEON} {
		h := *fourCores()
		h.CPU.Features = have
		p := Problem{Host: h, Model: m}
		for _, layout := range kernels.Layouts() {
			simd := slices.ContainsFunc(kernels.Usable(have), func(k kernels.Kernel) bool { return k.Layout == layout && k.Needs != 0 })
			if got := slices.Contains(p.layouts(), layout); got != (simd || layout == DefaultLayout) {
				t.Errorf("%s: layout %s tried: %v, has a SIMD kernel: %v", have, layout, got, simd)
			}
		}
		if err := p.Default().Validate(h); err != nil {
			t.Errorf("%s: default: %v", have, err)
		}
		if err := p.Heuristic().Validate(h); err != nil {
			t.Errorf("%s: heuristic: %v", have, err)
		}
	}
}

// duelled is a search that ended with these duels, each of a default that takes a tick.
func duelled(r *tune, regime target.Regime, duels ...contender) *search {
	for i := range duels {
		duels[i].comparison.Base.Median = float64(tick)
	}
	return &search{tune: r, regime: regime, duels: duels, verdict: RegimeVerdict{DefaultNs: float64(tick)}}
}

func won(by float64, a target.Arm) contender {
	return contender{arm: a, comparison: measure.Comparison{Ratio: by, Low: by * 0.99, High: by * 1.01}, verdict: measure.Adopt}
}

// undecided is a duel that could not be decided.
func undecided(ratio float64, a target.Arm) contender {
	return contender{arm: a, comparison: measure.Comparison{Ratio: ratio, Low: 0.5, High: 4}, verdict: measure.Inconclusive}
}

func TestLayoutBefore(t *testing.T) {
	m, _ := model.Preset(anyModel)
	var foreign []kernels.Layout // not the default's
	for _, layout := range kernels.Layouts() {
		if layout != DefaultLayout {
			foreign = append(foreign, layout)
		}
	}
	before, other := foreign[0], foreign[1]
	all := Problem{Host: *fourCores(), Model: m, Objective: ObjectiveMixed}
	in := func(layout kernels.Layout) target.Arm { return target.Arm{Layout: layout, Kernel: string(layout)} }
	both := func(r *tune, decode, prefill []contender) []*search {
		return []*search{duelled(r, target.Decode, decode...), duelled(r, target.Prefill, prefill...)}
	}

	t.Run("stays where another one was asked for and is not proven throughout", func(t *testing.T) {
		r := &tune{problem: all.in(other)}
		searches := both(r, []contender{won(2, in(other))}, []contender{undecided(1, in(other))})
		got, verdicts := r.choose(t.Context(), searches, before)
		if got != before {
			t.Errorf("chose %s, want %s: %+v", got, before, verdicts)
		}
	})
	t.Run("gives way to one that was asked for and is proven throughout", func(t *testing.T) {
		r := &tune{problem: all.in(other)}
		searches := both(r, []contender{won(2, in(other))}, []contender{won(2, in(other))})
		got, verdicts := r.choose(t.Context(), searches, before)
		if got != other {
			t.Errorf("chose %s, want %s: %+v", got, other, verdicts)
		}
	})
	t.Run("stays proven where this run could not decide, and is not replaced by a slower one", func(t *testing.T) {
		r := &tune{problem: all}
		searches := both(r,
			[]contender{undecided(2, in(DefaultLayout)), won(1.2, in(other))},
			[]contender{won(2, in(DefaultLayout)), won(1.2, in(other))})
		learned := in(DefaultLayout)
		searches[0].learned = &learned
		got, verdicts := r.choose(t.Context(), searches, DefaultLayout)
		if got != DefaultLayout {
			t.Errorf("chose %s, want %s: %+v", got, DefaultLayout, verdicts)
		}
	})
}

// TestProofInAnotherLayoutDoesNotShortenARun: what was proven in one layout says nothing about a run that only tries
// another one, which needs all of its time.
func TestProofInAnotherLayoutDoesNotShortenARun(t *testing.T) {
	dir := t.TempDir()
	tuned(t, quiet(surface(everywhere(12*tick))), dir, Budget{Objective: ObjectiveDecode, Layout: DefaultLayout})
	tuner := quiet(flat).open(t, dir, 1)
	snapshot, err := tuner.snapshot()
	if err != nil || snapshot == nil {
		t.Fatalf("%v, %v: want a proof", snapshot, err)
	}
	for _, layout := range kernels.Layouts() {
		r, err := tuner.newTune(t.Context(), anyModel, Budget{Time: time.Minute, Objective: ObjectiveDecode, Layout: layout})
		if err != nil {
			t.Fatal(err)
		}
		r.resume(snapshot)
		if short := r.deadline.Before(r.started.Add(time.Minute)); short != (layout == DefaultLayout) {
			t.Errorf("a run in layout %s: shortened %v", layout, short)
		}
	}
}

// TestVerifyHoldsTheLayoutOfTheAnswer: an operator may pin a layout that no run would try of its own accord.
func TestVerifyHoldsTheLayoutOfTheAnswer(t *testing.T) {
	dir := t.TempDir()
	for _, layout := range kernels.Layouts() {
		s := quiet(flat)
		tuner := s.open(t, dir, 1)
		p, err := tuner.problem(t.Context(), anyModel)
		if err != nil {
			t.Fatal(err)
		}
		if err := tuner.Pin(t.Context(), anyModel, p.in(layout).Heuristic(), "test"); err != nil {
			t.Fatal(err)
		}
		rig, held := tuner.opt.Rig, []kernels.Layout(nil)
		tuner.opt.Rig = func(ctx context.Context, p Problem, seed uint64) (Rig, error) {
			held = p.held()
			return rig(ctx, p, seed)
		}
		if _, err := tuner.Verify(t.Context(), anyModel, time.Minute); err != nil || !slices.Contains(held, layout) {
			t.Errorf("%s: %v, held %v", layout, err, held)
		}
	}
}

// recommends is a strategy that has made up its mind.
type recommends []bandit.Point

func (recommends) Ask(int) []bandit.Trial           { return nil }
func (recommends) Tell(...bandit.Trial)             {}
func (r recommends) Recommend(k int) []bandit.Point { return r[:min(k, len(r))] }

// On a busy host the default may come out first in the search. With time for one duel, it goes to the best of the others in
// the default's layout: that regime would else be compared in no layout that every host can use.
func TestTheDefaultIsNoRivalOfItself(t *testing.T) {
	other, ok := rival(t)
	if !ok {
		other = DefaultLayout
	}
	m, _ := model.Preset(anyModel)
	p := Problem{Host: *fourCores(), Model: m, Objective: ObjectiveDecode, Target: "cpu"}
	space, err := p.Space(target.Decode)
	if err != nil {
		t.Fatal(err)
	}
	standard := p.Default().Arm(target.Decode)
	better := p.in(DefaultLayout).Heuristic().Arm(target.Decode)
	better.Threads = 1
	var order recommends
	for _, a := range []target.Arm{standard, p.in(other).Heuristic().Arm(target.Decode), better} {
		point, ok := p.pointOf(space, a)
		if !ok {
			t.Fatalf("%s is not in the space", a)
		}
		order = append(order, point)
	}
	now := time.Now()
	s := &search{
		tune: &tune{problem: p, now: func() time.Time { return now }}, regime: target.Decode, space: space, strategy: order,
		standardArm: standard, baseArm: p.Heuristic().Arm(target.Decode), round: time.Second, end: now,
	}
	if rivals := s.rivals(); len(rivals) != 1 || rivals[0] != better {
		t.Errorf("rivals %v, want %s alone", rivals, better)
	}
}
