package engine_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine/enginetest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

func TestTheEndOfTheBudgetIsNoFailureOfASetting(t *testing.T) {
	full := search(t, virtual(1), engine.Options{}).Elapsed
	for _, share := range []float64{0.1, 0.35, 0.5, 0.65, 0.8, 0.95} {
		c := search(t, virtual(1), engine.Options{Budget: time.Duration(share * full * float64(time.Second))})
		for _, m := range c.Runs {
			if m.Status == engine.Hang {
				t.Errorf("with %.0f %% of the time it needs: %s did not hang: the budget ended", 100*share, m.Setting)
			}
		}
		if c.Failed > 0 {
			t.Errorf("with %.0f %% of the time it needs: %d failures", 100*share, c.Failed)
		}
	}
}

func TestABudgetForLessThanTheDefault(t *testing.T) {
	v := virtual(1)
	_, err := engine.Search(context.Background(), v, engine.Options{Budget: 4 * time.Second, Now: v.Now})
	if !errors.Is(err, engine.ErrBudget) || !strings.Contains(err.Error(), "allow more") {
		t.Errorf("error %v, want %v and what to do", err, engine.ErrBudget)
	}
}

// thief are readings of a host that gives the CPU to others during the first processes, more in each, of ten seconds each.
type thief struct{ reads, processes int }

func (h *thief) Read() (measure.Counters, error) {
	ended := (h.reads + 1) / 2
	c := measure.Counters{At: time.Duration(ended)*10*time.Second + time.Duration(h.reads)*time.Millisecond}
	for i := range min(ended, h.processes) {
		c.Steal += time.Duration(i*i*i) * time.Second
	}
	h.reads++
	return c, nil
}

func TestACandidateThatHangsTakesLittleOfTheBudgetThoughTheDefaultWasDisturbed(t *testing.T) {
	v := virtual(2)
	v.Fails = func(s engine.Setting) engine.Status {
		if len(s) > 0 {
			return engine.Hang
		}
		return engine.OK
	}
	c := search(t, v, engine.Options{Watch: &thief{processes: 3}, Runs: 8})
	if c.Runs[1].Status != engine.Censored || c.Runs[2].Status != engine.Censored {
		t.Fatalf("the default ran %s and %s: want both disturbed", c.Runs[1].Status, c.Runs[2].Status)
	}
	for _, m := range c.Runs {
		if m.Elapsed > time.Hour {
			t.Errorf("%s took %v of the budget", m.Setting, m.Elapsed)
		}
	}
	if c.Failed == 0 {
		t.Error("nothing hung: this proves nothing")
	}
}

func TestFiguresThatCannotBeAreGarbage(t *testing.T) {
	for name, c := range map[string]struct {
		alter func(*engine.Outcome)
		note  string
	}{
		"longer than the process": {func(o *engine.Outcome) { o.Elapsed /= 2 }, "the whole process took"},
		"another model":           {func(o *engine.Outcome) { o.Facts["model_n_params"] = "7" }, "another program or model"},
		"not a number":            {func(o *engine.Outcome) { o.Samples[engine.Decode][0] = math.NaN() }, "want a positive number"},
		"negative":                {func(o *engine.Outcome) { o.Samples[engine.Decode][0] = -1 }, "want a positive number"},
		"endless":                 {func(o *engine.Outcome) { o.Samples[engine.Decode][0] = math.Inf(1) }, "want a positive number"},
		"absurd":                  {func(o *engine.Outcome) { o.Samples[engine.Decode][0] = 1e300 }, "add up to"},
		"none":                    {func(o *engine.Outcome) { o.Samples = nil }, "no figure"},
	} {
		t.Run(name, func(t *testing.T) {
			v := virtual(2)
			v.Alter = func(s engine.Setting, o *engine.Outcome) {
				if s["threads"] == "4" && o.Status == engine.OK {
					c.alter(o)
				}
			}
			cert := search(t, v, engine.Options{})
			found := false
			for _, m := range cert.Runs {
				if m.Setting["threads"] != "4" {
					continue
				}
				found = true
				if m.Status != engine.Garbage || !strings.Contains(m.Note, c.note) || len(m.Samples) > 0 {
					t.Errorf("%s: %s, %q: want %s and a note with %q", m.Setting, m.Status, m.Note, engine.Garbage, c.note)
				}
			}
			if !found {
				t.Error("nobody tried 4 threads: this proves nothing")
			}
		})
	}
}

func TestAnotherBuildInTheMiddleIsGarbage(t *testing.T) {
	v := virtual(2)
	v.Alter = func(s engine.Setting, o *engine.Outcome) {
		if v.Starts() > 10 {
			o.Facts["build_commit"] = "rebuilt"
		}
	}
	c := search(t, v, engine.Options{})
	if c.Verdict == measure.Adopt || engine.Build(c.Facts) != "57a4d1/9999" {
		t.Errorf("%s for build %s: half of it was measured with another", c.Verdict, engine.Build(c.Facts))
	}
}

func TestAProcessOnAHotCPUIsCensoredAndRunsAgainAfterARest(t *testing.T) {
	v := virtual(4)
	reads, rests := 0, 0
	heat := func() engine.Thermal {
		reads++
		hot := engine.Thermal{Celsius: 61}
		if reads >= 1+2*6 { // once at the beginning, then before and after each process: after the sixth
			hot = engine.Thermal{Celsius: 99, Throttles: 40}
		}
		return hot
	}
	c := search(t, v, engine.Options{Heat: heat, Rest: func(context.Context, time.Duration) { rests++ }})
	if m := c.Runs[5]; c.Censored != 1 || m.Status != engine.Censored || m.Celsius != 99 || !strings.Contains(m.Note, "hot") {
		t.Fatalf("%d censored, the sixth process %s at %g degrees (%s)", c.Censored, m.Status, m.Celsius, m.Note)
	}
	if a, b := c.Runs[5].Setting.String(), c.Runs[6].Setting.String(); a != b || c.Runs[6].Status != engine.OK || rests != 1 {
		t.Errorf("after %s came %s (%s) and %d rests", a, b, c.Runs[6].Status, rests)
	}
}

func TestAHostThatIsAlwaysHotIsMeasuredAsItIs(t *testing.T) {
	v := virtual(4)
	begun := v.Now()
	c := search(t, v, engine.Options{
		Heat: func() engine.Thermal { return engine.Thermal{Throttles: int64(3 * v.Now().Sub(begun).Seconds())} },
		Rest: func(context.Context, time.Duration) {},
	})
	if c.Censored > c.Starts/10 {
		t.Errorf("%d of %d processes were censored", c.Censored, c.Starts)
	}
}

// earlier are the processes of a certificate as a later session is told of them.
func earlier(c *engine.Certificate) func(map[string]string) []engine.Measured {
	return func(map[string]string) (list []engine.Measured) {
		for _, m := range c.Runs {
			m.Session = 1
			list = append(list, m)
		}
		return list
	}
}

func TestASessionGoesOnWhereAnotherWasStopped(t *testing.T) {
	for _, after := range []int{4, 9, 15, 18} {
		v := virtual(7)
		ctx, cancel := context.WithCancel(context.Background())
		first, err := engine.Search(ctx, v, engine.Options{Budget: 100 * time.Hour, Now: v.Now, Tell: func(engine.Measured) {
			if v.Starts() == after {
				cancel()
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		second := search(t, v, engine.Options{Recall: earlier(first)})
		if want := after - 1; second.Known != want {
			t.Errorf("stopped after %d: %d processes were taken over, want %d, all but the cold one", after, second.Known, want)
		}
		if second.Known+second.Searches > 25 {
			t.Errorf("stopped after %d: %d processes before the duel and %d taken over, want 25 at the most", after, second.Searches, second.Known)
		}
		ran := map[string]bool{}
		for _, m := range first.Runs {
			ran[m.Setting.String()] = m.Status == engine.OK
		}
		for _, m := range second.Runs {
			if m.Phase == "threads" && len(m.Setting) > 0 && ran[m.Setting.String()] {
				t.Errorf("stopped after %d: %s ran again", after, m.Setting)
			}
		}
	}
}

func TestARepeatedSessionStartsNextToNothingBeforeTheDuel(t *testing.T) {
	first := search(t, virtual(3), engine.Options{})
	v := virtual(3)
	second := search(t, v, engine.Options{Recall: earlier(first)})
	if second.Searches > 3 || second.Known != first.Searches-1 {
		t.Errorf("%d processes before the duel with %d of %d known", second.Searches, second.Known, first.Searches)
	}
	if cost, before := v.Surface.Request(second.Closest, prompt, generate), v.Surface.Request(first.Closest, prompt, generate); cost > 1.03*before {
		t.Errorf("the plan became worse: %v, %.3f of the first's cost", second.Closest, cost/before)
	}
}

func TestWhatAnEarlierSessionKnowsIsHeededWhereItHolds(t *testing.T) {
	known := []engine.Measured{
		{Session: 1, Setting: engine.Setting{"flash-attn": "1", "threads": "4"}, Regimes: []string{engine.Decode}, Status: engine.OK, Samples: map[string][]float64{engine.Decode: {1}}}, // no default beside it
		{Session: 1, Setting: engine.Setting{"threads": "99"}, Regimes: []string{engine.Decode}, Status: engine.OK, Samples: map[string][]float64{engine.Decode: {1}}},
		{Session: 1, Setting: engine.Setting{"threads": "2"}, Regimes: []string{engine.Decode, engine.Prefill}, Status: engine.Mismatch},
		{Session: 1, Setting: engine.Setting{"threads": "4"}, Regimes: []string{engine.Decode, engine.Prefill}, Status: engine.Crash},
	}
	c := search(t, virtual(2), engine.Options{Recall: func(facts map[string]string) []engine.Measured {
		if engine.Build(facts) != "57a4d1/9999" {
			t.Errorf("recall is asked for build %s", engine.Build(facts))
		}
		return known
	}})
	tried := map[string]bool{}
	for _, m := range c.Runs {
		tried[m.Setting.String()] = true
	}
	if tried["threads=2"] || !tried["threads=4"] || tried["threads=99"] {
		t.Errorf("tried %v: want 4 threads, which may have crashed by chance, and not 2, which were wrong", tried)
	}
	if c.Known != 0 || c.Verdict != measure.Adopt {
		t.Errorf("%d known, %s", c.Known, c.Verdict)
	}
}

func TestValuesUnderTheCeilingAreNotTried(t *testing.T) {
	v := virtual(2)
	own := 1e9 / v.Surface.Cost(nil, engine.Decode)
	c := search(t, v, engine.Options{Ceiling: func(regime, knob, value string) float64 {
		if regime == engine.Decode && knob == "threads" && (value == "1" || value == "2") {
			return own / 3
		}
		return 0
	}})
	for _, m := range c.Runs {
		if _, decode := m.Samples[engine.Decode]; decode && (m.Setting["threads"] == "1" || m.Setting["threads"] == "2") {
			t.Errorf("%s was measured for decode, which cannot be better than the default", m.Setting)
		}
	}
}

func TestACeilingThatTheEngineExceedsIsNone(t *testing.T) {
	plain := search(t, virtual(2), engine.Options{})
	c := search(t, virtual(2), engine.Options{Ceiling: func(string, string, string) float64 { return 1e-9 }})
	if c.Searches != plain.Searches || !c.Closest.Equal(plain.Closest) {
		t.Errorf("%d processes to %v with a ceiling below everything, %d to %v without", c.Searches, c.Closest, plain.Searches, plain.Closest)
	}
}

func TestWhereNothingGainsTheDefaultIsKeptAfterAsManyProcessesAsMayRun(t *testing.T) {
	for runs, want := range map[int]measure.Verdict{0: measure.Keep, 3: measure.Inconclusive} {
		s := enginetest.Surface{Cores: 4, Saturation: 100, Contention: 0, Twins: 1, BestBatch: 512, Flash: -0.2, Poll: 0}
		v := &enginetest.Virtual{Surface: s, Prompt: prompt, Generate: generate, Repetitions: 5, Loading: time.Second}
		if c := search(t, v, engine.Options{Runs: runs}); c.Verdict != want || c.Pairs > 0 {
			t.Errorf("at most %d processes: %s after %d pairs (%s), want %s without a duel", runs, c.Verdict, c.Pairs, c.Stopped, want)
		}
	}
}

// TestAPlanThatIsNoBetterThanTheDefaultIsNotDuelled: a flag that gains in decode, where it is tried, and
// loses more in prefill.
func TestAPlanThatIsNoBetterThanTheDefaultIsNotDuelled(t *testing.T) {
	s := enginetest.Surface{Cores: 4, Saturation: 100, Contention: 0, Twins: 1, BestBatch: 512, Flash: -0.2, Poll: 0}
	v := &enginetest.Virtual{Surface: s, Prompt: prompt, Generate: 8 * prompt, Repetitions: 5, Loading: time.Second}
	v.Alter = func(s engine.Setting, o *engine.Outcome) {
		for regime, factor := range map[string]float64{engine.Decode: 0.9, engine.Prefill: 40} {
			for i := range o.Samples[regime] {
				if s["poll"] == "0" {
					o.Samples[regime][i] *= factor
					o.Elapsed += time.Duration(o.Samples[regime][i] * float64(8*prompt))
				}
			}
		}
	}
	if c := search(t, v, engine.Options{}); c.Verdict != measure.Keep || c.Pairs > 0 {
		t.Errorf("%s after %d pairs with %v, want %s without a duel", c.Verdict, c.Pairs, c.Closest, measure.Keep)
	}
}

// TestWithoutNoiseNoPlanIsWorseThanTheDefault holds for any end of the search: what was measured in one regime only, or never in
// this combination, is not taken on trust over what ran.
func TestWithoutNoiseNoPlanIsWorseThanTheDefault(t *testing.T) {
	for seed := range uint64(20) {
		for runs := 3; runs < 30; runs += 2 {
			v := virtual(seed)
			v.Noise = enginetest.Noise{}
			v.Surface.Poll = -0.4 // as if waiting idly were much better for decode, so that it is taken there
			c := search(t, v, engine.Options{Runs: runs})
			cost, standard := v.Surface.Request(c.Closest, prompt, generate), v.Surface.Request(nil, prompt, generate)
			if cost > 1.0001*standard {
				t.Errorf("surface %d, %d runs: %v costs %.3f of the default", seed, runs, c.Closest, cost/standard)
			}
			for regime, setting := range c.Closest {
				if own := v.Surface.Cost(nil, regime); v.Surface.Cost(setting, regime) > 1.05*own {
					t.Errorf("surface %d, %d runs: %s with %s costs %.3f of the default", seed, runs, regime, setting, v.Surface.Cost(setting, regime)/own)
				}
			}
		}
	}
}

func TestFiguresThatTheClockDoesNotConfirmAreDoubted(t *testing.T) {
	honest := 0
	for seed := range uint64(20) {
		c := search(t, virtual(seed), engine.Options{})
		if honest += len(c.Doubts); len(c.Doubts) > 0 {
			t.Logf("surface %d: %s", seed, c.Doubts)
		}
	}
	if honest > 0 {
		t.Errorf("%d of 20 honest engines are doubted", honest)
	}
	v := virtual(2)
	v.Alter = func(s engine.Setting, o *engine.Outcome) {
		if s["flash-attn"] == "1" {
			for _, list := range o.Samples {
				for i := range list {
					list[i] /= 10
				}
			}
		}
	}
	if c := search(t, v, engine.Options{}); len(c.Doubts) != 1 || !strings.Contains(c.Doubts[0], "by the clock") {
		t.Errorf("doubts %q of an engine that says with a flag that it is ten times as fast", c.Doubts)
	}
}

func TestManyShortSessionsDoNotUseUpTheRunsWithTheirDefaults(t *testing.T) {
	var known []engine.Measured
	for session := range uint64(40) {
		v := virtual(7)
		c, _ := engine.Search(context.Background(), v, engine.Options{Budget: 100 * time.Hour, Now: v.Now, Runs: 2})
		for _, m := range c.Runs {
			m.Session = session + 1
			known = append(known, m)
		}
	}
	c := search(t, virtual(7), engine.Options{Recall: func(map[string]string) []engine.Measured { return known }})
	if c.Known != 40 || c.Searches < 10 {
		t.Errorf("%d taken over, and %d processes before the duel (%s): want 40, and a search", c.Known, c.Searches, c.Stopped)
	}
}

func TestWhatFailsInTheDuelIsNotAdopted(t *testing.T) {
	v := virtual(2)
	v.Noise = enginetest.Noise{}
	phase, defaults := "", 0
	v.Alter = func(s engine.Setting, o *engine.Outcome) {
		if phase == "duel" && len(s) > 0 && defaults <= 1 { // so that the first look does not decide
			for _, list := range o.Samples {
				for i := range list {
					list[i] *= 3
				}
			}
			o.Elapsed *= 3
		}
	}
	v.Fails = func(s engine.Setting) engine.Status {
		if len(s) > 0 && defaults >= 14 {
			return engine.Crash
		}
		return engine.OK
	}
	c := search(t, v, engine.Options{Tell: func(m engine.Measured) {
		if phase = m.Phase; phase == "duel" && len(m.Setting) == 0 {
			defaults++
		}
	}})
	if c.Pairs < 12 || c.Failed != 1 || c.Ratio.Low < 1.01 {
		t.Fatalf("%d pairs, %d failed, at least %.3f: this proves nothing", c.Pairs, c.Failed, c.Ratio.Low)
	}
	if c.Verdict == measure.Adopt {
		t.Errorf("%s after a crash in pair %d", c.Verdict, c.Pairs+1)
	}
}

func TestASearchSaysThatItWasInterruptedInTheDuel(t *testing.T) {
	v := virtual(2)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := engine.Search(ctx, v, engine.Options{Budget: 100 * time.Hour, Now: v.Now, Tell: func(m engine.Measured) {
		if m.Phase == "duel" {
			cancel()
		}
	}})
	if err != nil || c.Stopped != engine.Interrupted {
		t.Errorf("stopped because %q, %v; want %q", c.Stopped, err, engine.Interrupted)
	}
}

func TestABudgetThatIsTooShortSaysWhatWouldDo(t *testing.T) {
	v := virtual(1)
	full := search(t, virtual(1), engine.Options{}).Elapsed
	c := search(t, v, engine.Options{Budget: time.Duration(0.3 * full * float64(time.Second))})
	if !strings.Contains(c.Stopped, "a process takes") || !strings.Contains(c.Stopped, "want about") {
		t.Errorf("stopped because %q: want what budget would do", c.Stopped)
	}
}
