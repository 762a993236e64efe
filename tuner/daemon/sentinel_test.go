package daemon

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// tuned is a daemon that does not run, over a store in which a decode setting was proven 5 % faster than the default.
func tuned(t *testing.T, change func(*Options)) (*Daemon, *sentinel) {
	t.Helper()
	opt := quick(t.TempDir())
	opt.Tuner = opened(t, opt.Store)
	if change != nil {
		change(&opt)
	}
	if _, err := opt.Tuner.Tune(t.Context(), anyModel, tuner.Budget{Time: 20 * time.Second, Target: "cpu", Objective: tuner.ObjectiveDecode, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	d, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	m := d.models[0]
	if j, _ := d.want(t.Context(), m); j != nil || m.saved.Detectors[target.Decode] == nil {
		t.Fatalf("where something was learned the daemon wants %+v and watches %+v", j, m.saved)
	}
	return d, m
}

// verification is a check that found this ratio in decode.
func verification(ratio float64, verdict tuner.Outcome, reason string) outcome {
	data, _ := json.Marshal(tuner.Verification{Verdict: verdict, Regimes: []tuner.RegimeCheck{{
		Regime: target.Decode, Verdict: verdict, Reason: reason, Ratio: tuner.Ratio{Estimate: ratio, Low: ratio * 0.98, High: ratio * 1.02, Confidence: 0.99},
	}}})
	return outcome{out: data, pace: withoutRests}
}

// checks feeds checks of one ratio until the sentinel acts, and returns how many that took.
func checks(t *testing.T, d *Daemon, m *sentinel, ratio float64, most int) int {
	t.Helper()
	for n := 1; n <= most; n++ {
		if err := d.checked(t.Context(), m, verification(ratio, tuner.Confirmed, "")); err != nil {
			t.Fatal(err)
		}
		if m.saved.Retune != "" {
			return n
		}
	}
	return most + 1
}

// The learned setting becomes 20 % slower: slower than the default. It is rolled back by the third check, with one line.
func TestSlowerThanTheDefaultIsRolledBack(t *testing.T) {
	d, m := tuned(t, nil)
	before, err := d.opt.Tuner.Plan(t.Context(), anyModel)
	if err != nil {
		t.Fatal(err)
	}
	if n := checks(t, d, m, 1.05, 1000); n <= 1000 {
		t.Fatalf("a check that says what the certificate says led to something after %d: %s", n, m.saved.Retune)
	}
	if n := checks(t, d, m, 1.05*0.8, 100); n > 3 {
		t.Errorf("noticed by check %d, want 3 at most", n)
	}
	after, err := d.opt.Tuner.Plan(t.Context(), anyModel)
	if err != nil || after.Config.Hash() == before.Config.Hash() || !strings.Contains(after.Reason, "rolled back to by the sentinel") {
		t.Errorf("afterwards %s answers (%v): %s", after.Config.Hash(), err, after.Reason)
	}
	if events := d.State().Events; len(events) != 1 || !strings.Contains(events[0].What, "rolled back to "+after.Config.Hash()) || !strings.Contains(events[0].Why, "0.840 times the default") {
		t.Errorf("%+v, want one line that says what and why", events)
	}
	if j, _ := d.want(t.Context(), m); j == nil || j.check {
		t.Errorf("afterwards the daemon wants %+v, want a tune", j)
	}
}

// What has become slower, but still beats the default, goes on serving and is tuned anew.
func TestSlowerButBetterThanTheDefaultIsTunedAnew(t *testing.T) {
	d, m := tuned(t, nil)
	m.saved.Detectors[target.Decode] = &Detector{Reference: 0.3, Doubt: 0.01}
	before, _ := d.opt.Tuner.Plan(t.Context(), anyModel)
	if n := checks(t, d, m, 1.08, 100); n > 3 {
		t.Errorf("noticed by check %d, want 3 at most", n)
	}
	if after, _ := d.opt.Tuner.Plan(t.Context(), anyModel); after.Config.Hash() != before.Config.Hash() {
		t.Errorf("%s answers, want %s as before", after.Config.Hash(), before.Config.Hash())
	}
	if j, _ := d.want(t.Context(), m); j == nil || j.check {
		t.Errorf("the daemon wants %+v, want a tune", j)
	}
}

func TestWrongResultsAreTakenBackAtOnce(t *testing.T) {
	d, m := tuned(t, nil)
	if err := d.checked(t.Context(), m, verification(0, tuner.Failed, "result differs from the reference")); err != nil {
		t.Fatal(err)
	}
	if plan, _ := d.opt.Tuner.Plan(t.Context(), anyModel); !strings.Contains(plan.Reason, "differs from the reference") {
		t.Errorf("after a wrong result: %s", plan.Reason)
	}
}

func TestAdviseChangesNothing(t *testing.T) {
	d, m := tuned(t, func(o *Options) { o.Mode = tuner.ModeAdvise })
	before, _ := d.opt.Tuner.Plan(t.Context(), anyModel)
	checks(t, d, m, 0.8, 100)
	if after, _ := d.opt.Tuner.Plan(t.Context(), anyModel); after.Config.Hash() != before.Config.Hash() {
		t.Error("it was rolled back")
	}
	if _, ok := said(d.State(), "it should be rolled back"); !ok {
		t.Errorf("%+v, want the advice to roll back", d.State().Events)
	}
	if j, _ := d.want(t.Context(), m); j != nil {
		t.Errorf("the daemon wants %+v", j)
	}
}

func TestChangedConditionsScheduleACheck(t *testing.T) {
	governor := "performance"
	d, m := tuned(t, func(o *Options) {
		o.Conditions = func(context.Context) (map[string]string, error) {
			return map[string]string{"governor": governor, "quota": "2"}, nil
		}
	})
	d.notice(t.Context())
	if j, _ := d.want(t.Context(), m); j != nil {
		t.Fatalf("the daemon wants %+v at once", j)
	}
	again, err := New(d.opt) // it changes while no daemon runs
	if err != nil {
		t.Fatal(err)
	}
	governor = "powersave"
	for name, d := range map[string]*Daemon{"the same daemon": d, "the next daemon": again} {
		m := d.models[0]
		if err := m.load(); err != nil {
			t.Fatal(name, err)
		}
		m.saved.Conditions = map[string]string{"governor": "performance", "quota": "2"}
		d.notice(t.Context())
		if e, ok := said(d.State(), "checked again"); !ok || e.Why != "governor was performance and is powersave" {
			t.Errorf("%s: %+v", name, d.State().Events)
		}
		if j, _ := d.want(t.Context(), m); j == nil || !j.check {
			t.Errorf("%s wants %+v, want a check", name, j)
		}
	}
}

func TestChecksGoOnAfterARestart(t *testing.T) {
	d, m := tuned(t, nil)
	if err := d.checked(t.Context(), m, verification(0.84, tuner.Confirmed, "")); err != nil {
		t.Fatal(err)
	}
	d.remember(m)
	again, err := New(d.opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.models[0].load(); err != nil {
		t.Fatal(err)
	}
	if n := checks(t, again, again.models[0], 0.84, 100); n > 2 {
		t.Errorf("noticed by check %d after the restart, want 2: one was before it", n)
	}
}

// timed is a check that took so long in decode, and found the ratio of the certificate.
func timed(ns float64, at pace) outcome {
	data, _ := json.Marshal(tuner.Verification{Verdict: tuner.Confirmed, Regimes: []tuner.RegimeCheck{{
		Regime: target.Decode, Verdict: tuner.Confirmed, LearnedNs: ns, Ratio: tuner.Ratio{Estimate: 1.05, Low: 1.03, High: 1.07, Confidence: 0.99},
	}}})
	return outcome{out: data, pace: at}
}

// Both settings become slower together. The config stays and is tuned anew, with one line; and what it takes under another
// condition of the host, or at another pace, is no news.
func TestSlowerThanUsualIsTunedAnew(t *testing.T) {
	d, m := tuned(t, nil)
	before, _ := d.opt.Tuner.Plan(t.Context(), anyModel)
	feed := func(ns float64, at pace, times int) {
		t.Helper()
		for range times {
			if err := d.checked(t.Context(), m, timed(ns, at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	feed(1e7, withoutRests, 20)
	m.saved.Conditions = map[string]string{"governor": "powersave"}
	feed(1.25e7, withoutRests, 20)
	m.saved.Conditions = nil
	feed(1.5e7, inBursts, 20)
	feed(1.3e7, mixed, 20)
	feed(1e7, withoutRests, 20)
	if m.saved.Retune != "" || len(d.State().Events) > 0 {
		t.Fatalf("to be tuned because %q: %+v", m.saved.Retune, d.State().Events)
	}
	feed(1.25e7, withoutRests, 3)
	if !strings.Contains(m.saved.Retune, "decode has taken 1.25 times as long as usual over the last 3 checks") {
		t.Errorf("to be tuned because %q", m.saved.Retune)
	}
	if events := d.State().Events; len(events) != 1 || events[0].What != "to be tuned anew" {
		t.Errorf("%+v, want one line", events)
	}
	after, _ := d.opt.Tuner.Plan(t.Context(), anyModel)
	if j, _ := d.want(t.Context(), m); j == nil || j.check || after.Config.Hash() != before.Config.Hash() {
		t.Errorf("the daemon wants %+v, and %s answers, want a tune and %s as before", j, after.Config.Hash(), before.Config.Hash())
	}
}

// A file that no daemon wrote is not believed, and no reason to die.
func TestSentinelFileThatCannotBe(t *testing.T) {
	for _, text := range []string{
		`{"detectors":{"decode":null}}`, `{"detectors":{"decode":{"sum":1e300}}}`, `{"detectors":{"decode":{"doubt":-1}}}`, `{"detectors":{"decode":{"reference":1e9}}}`,
		`{"rates":{"x":{"decode":null}}}`, `{"rates":{"x":{"decode":{"checks":-5}}}}`, `{"rates":{"x":{"decode":{"sum":99}}}}`, `{"checks":-1}`, `[]`, `{`, "\x00",
	} {
		opt := quick(t.TempDir())
		opt.Tuner = opened(t, opt.Store)
		d, err := New(opt)
		if err != nil {
			t.Fatal(err)
		}
		m := d.models[0]
		if err := os.WriteFile(m.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := m.load(); err == nil {
			t.Errorf("%s is believed", text)
		}
		d.show(t.Context(), m)
	}
}

// The same config, certified again at another ratio, is watched by that ratio.
func TestCertifiedAgainIsWatchedAnew(t *testing.T) {
	d, m := tuned(t, nil)
	checks(t, d, m, 1.04, 5)
	m.saved.Detectors[target.Decode].Reference = 0.7 // as of another certificate
	if _, err := d.opt.Tuner.Tune(t.Context(), anyModel, tuner.Budget{Time: 20 * time.Second, Target: "cpu", Objective: tuner.ObjectiveDecode, Seed: 2}); err != nil {
		t.Fatal(err)
	}
	d.want(t.Context(), m)
	if got := m.saved.Detectors[target.Decode]; got == nil || got.Reference > 0.1 {
		t.Errorf("after it was certified again it watches %+v", got)
	}
}

// A child that says it decided, where nothing of it answers, is not started again at once.
func TestDecidedButNoAnswerIsNotTunedForEver(t *testing.T) {
	opt := quick(t.TempDir())
	opt.Tuner = opened(t, opt.Store)
	d, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	m := d.models[0]
	if err := d.tuned(t.Context(), job{model: m}, []byte(`{"verdict":"KEEP_DEFAULT"}`)); err != nil {
		t.Fatal(err)
	}
	if j, when := d.want(t.Context(), m); j != nil || time.Until(when) < longestRetry/2 {
		t.Errorf("the daemon wants %+v, next at %v", j, when)
	}
	if e, ok := said(d.State(), "is not the answer"); !ok || e.Why == "" {
		t.Errorf("%+v", d.State().Events)
	}
}

// Where a knob was pinned while the step ran, what was decided is not the answer either, but the next step's will be.
func TestKnobPinnedDuringAStepIsHeededByTheNext(t *testing.T) {
	d, m := tuned(t, nil)
	m.saved.Retune = "a test wants it"
	j, _ := d.want(t.Context(), m)
	if d.doing = j; j == nil || d.overtaken() {
		t.Fatalf("the daemon wants %+v", j)
	}
	if err := d.opt.Tuner.PinKnobs(t.Context(), anyModel, []string{"decode.threads=1"}, "ada"); err != nil {
		t.Fatal(err)
	}
	if !d.overtaken() {
		t.Error("a child that rests is not ended by it")
	}
	if err := d.tuned(t.Context(), *j, []byte(`{"verdict":"KEEP_DEFAULT"}`)); err != nil {
		t.Fatal(err)
	}
	if next, when := d.want(t.Context(), m); next == nil {
		t.Errorf("the next step comes at %v, want at once: %+v", when, d.State().Events)
	}
}

func TestAModelNamedTwiceIsRefused(t *testing.T) {
	opt := quick(t.TempDir())
	opt.Tuner, opt.Models = opened(t, opt.Store), []string{anyModel, anyModel}
	if _, err := New(opt); err == nil || !strings.Contains(err.Error(), "named twice") {
		t.Errorf("%v, want that it is named twice", err)
	}
}
