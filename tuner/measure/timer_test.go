package measure_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const (
	us = time.Microsecond
	ms = time.Millisecond
)

var ctx = context.Background()

// improving makes the host twice as fast each time that the clock doubles, from 20 ms on.
func improving(*rand.Rand) measuretest.Effect {
	return func(s measuretest.Sample) time.Duration {
		return time.Duration(float64(s.Took) / (1 + float64(s.Start)/float64(20*ms)))
	}
}

func TestWarm(t *testing.T) {
	for _, c := range []struct {
		name       string
		cost       time.Duration
		noise      []measuretest.Noise
		timer      measure.Timer
		iterations int
		rounds     int
		steady     bool
	}{
		{"1 us", us, nil, measure.Timer{}, 1024, 2, true},
		{"exactly 1 ms", ms, nil, measure.Timer{}, 1, 2, true},
		{"20 ms: one sample is a round", 20 * ms, nil, measure.Timer{}, 1, 1, true},
		{"longer samples asked for", us, nil, measure.Timer{MinSample: 3 * ms}, 4096, 2, true},
		{"slower than the cap", time.Second, nil, measure.Timer{}, 1, 0, false},
		{"a raised cap", time.Second, nil, measure.Timer{WarmTime: 10 * time.Second}, 1, 1, true},
		{"warms quickly", 100 * us, []measuretest.Noise{measuretest.WarmUp(1, 20)}, measure.Timer{}, 16, 2, true},
		{"warms slowly", 100 * us, []measuretest.Noise{measuretest.WarmUp(1, 500)}, measure.Timer{}, 16, 5, true},
		{"never stops improving", 100 * us, []measuretest.Noise{improving}, measure.Timer{}, 256, 5, false},
		{"rounds capped", 100 * us, []measuretest.Noise{measuretest.WarmUp(1, 500)}, measure.Timer{WarmRounds: 2}, 8, 2, false},
		{"a first iteration far too slow", us, []measuretest.Noise{measuretest.WarmUp(5000, 1)}, measure.Timer{}, 1024, 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := measuretest.New(1, c.noise...)
			got, err := c.timer.Warm(ctx, host.Arm("arm", c.cost))
			if err != nil {
				t.Fatal(err)
			}
			if got.Elapsed != host.Now() {
				t.Errorf("elapsed %v by its own account, %v by the clock", got.Elapsed, host.Now())
			}
			want := measure.Ready{Iterations: c.iterations, Rounds: c.rounds, Steady: c.steady}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(measure.Ready{}, "Elapsed")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestSubjectsAreWarmedOnce(t *testing.T) {
	host := measuretest.New(1)
	timer := host.Timer(1)
	base := host.Arm("base", ms)
	block := func(cand measure.Subject) time.Duration {
		before := host.Now()
		if err := timer.Pair(base, cand).Block(ctx); err != nil {
			t.Fatal(err)
		}
		return host.Now() - before
	}
	cand := host.Arm("cand", ms)
	if got := block(cand); got <= 4*ms {
		t.Errorf("the first block took %v: nothing was warmed", got)
	}
	if got := block(cand); got != 4*ms {
		t.Errorf("a block of a new pair of known subjects took %v, want 4ms", got)
	}
	if got := block(host.Arm("", ms)); got <= 4*ms {
		t.Errorf("a block with a nameless subject took %v: it was not warmed", got)
	}
}

func TestMeasureStatesCostPerUnit(t *testing.T) {
	host := measuretest.New(1)
	arm := host.Arm("32 tokens", 64*us)
	arm.Units = 32
	got, err := host.Timer(1).Measure(ctx, arm, 6)
	if err != nil {
		t.Fatal(err)
	}
	want := measure.Summary{N: 6, Median: 2000, Low: 2000, High: 2000, Samples: slices.Repeat([]float64{2000}, 6)}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestMedianInterval checks ranks against the binomial table: at n = 6 the extremes, at n = 20 the 6th and 15th.
func TestMedianInterval(t *testing.T) {
	for _, c := range []struct {
		n         int
		low, high float64
	}{
		{0, 0, math.MaxFloat64}, {1, 0, math.MaxFloat64}, {5, 0, math.MaxFloat64}, {6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {20, 6, 15}, {40, 14, 27},
	} {
		next := 0
		counting := measure.Subject{Name: "counting", Run: func(context.Context, int) (time.Duration, error) {
			next++
			return time.Duration(next), nil
		}}
		timer := measure.Timer{MinSample: 1, WarmTime: 1}
		if _, err := timer.Warm(ctx, counting); err != nil {
			t.Fatal(err)
		}
		next = 0
		got, err := timer.Measure(ctx, counting, c.n)
		if err != nil {
			t.Fatal(err)
		}
		if got.Low != c.low || got.High != c.high {
			t.Errorf("n=%d: (%v, %v), want (%v, %v)", c.n, got.Low, got.High, c.low, c.high)
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		name  string
		noise []measuretest.Noise
		count int
		want  []error
	}{
		{"nothing wrong", []measuretest.Noise{measuretest.Jitter(0.01)}, 20, nil},
		{"five samples", nil, 5, []error{measure.ErrFewSamples}},
		{"15 % jitter", []measuretest.Noise{measuretest.Jitter(0.15)}, 40, []error{measure.ErrNoisy}},
		{"never stops improving", []measuretest.Noise{improving}, 20, []error{measure.ErrUnsteady}},
		{"often throttled", []measuretest.Noise{measuretest.Throttle(6*ms, 10*ms)}, 20, []error{measure.ErrCensored}},
		{"all throttled", []measuretest.Noise{measuretest.Throttle(us, ms)}, 20, []error{measure.ErrFewSamples, measure.ErrUnsteady, measure.ErrCensored}},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := measuretest.New(1, c.noise...)
			sum, err := host.Timer(1).Measure(ctx, host.Arm("arm", ms), c.count)
			if err != nil {
				t.Fatal(err)
			}
			checkWarnings(t, sum.Warnings, c.want)
			pair, err := host.Timer(2).Compare(ctx, host.Arm("base", ms), host.Arm("cand", ms), measure.CompareOptions{Blocks: c.count, Looks: 1})
			if err != nil {
				t.Fatal(err)
			}
			checkWarnings(t, pair.Warnings, c.want)
		})
	}
}

func checkWarnings(t *testing.T, got, want []error) {
	t.Helper()
	for _, w := range want {
		if !slices.ContainsFunc(got, func(err error) bool { return errors.Is(err, w) }) {
			t.Errorf("no warning that %q in %v", w, got)
		}
	}
	if len(got) > len(want) {
		t.Errorf("warnings %v, want %v", got, want)
	}
}

type brokenWatcher struct{}

var errBroken = errors.New("broken")

func (brokenWatcher) Read() (measure.Counters, error) { return measure.Counters{}, errBroken }

func TestWarnsWhenNotWatched(t *testing.T) {
	host := measuretest.New(1)
	got, err := (&measure.Timer{Watch: brokenWatcher{}}).Measure(ctx, host.Arm("arm", ms), 6)
	if err != nil || got.N != 6 {
		t.Fatalf("%d samples and error %v, want 6 and none", got.N, err)
	}
	checkWarnings(t, got.Warnings, []error{measure.ErrUnwatched})
	if !errors.Is(got.Warnings[0], errBroken) {
		t.Errorf("warning %v does not say why", got.Warnings[0])
	}
}

func TestCensoredSamplesAreRecordedNotAveraged(t *testing.T) {
	host := measuretest.New(1, measuretest.Throttle(30*ms, 60*ms))
	c, err := host.Timer(1).Compare(ctx, host.Arm("base", 2*ms), host.Arm("cand", ms), measure.CompareOptions{Blocks: 30, Looks: 1})
	if err != nil {
		t.Fatal(err)
	}
	if c.Ratio != 2 || c.Low != 2 || c.High != 2 {
		t.Errorf("ratio %v in (%v, %v), want 2: a censored sample took part", c.Ratio, c.Low, c.High)
	}
	if c.Censored == 0 || c.Base.Censored != 2*c.Censored || len(c.Base.CensoredSamples) != c.Base.Censored {
		t.Errorf("%d blocks censored, %d base samples, %d kept", c.Censored, c.Base.Censored, len(c.Base.CensoredSamples))
	}
	if c.Blocks != len(c.LogRatios) || c.Base.N != 2*c.Blocks || c.Cand.N != 2*c.Blocks {
		t.Errorf("%d blocks, %d log ratios, %d and %d samples", c.Blocks, len(c.LogRatios), c.Base.N, c.Cand.N)
	}
}

func TestAllCensoredIsInconclusive(t *testing.T) {
	host := measuretest.New(1, measuretest.Throttle(us, ms))
	c, err := host.Timer(1).Compare(ctx, host.Arm("base", 2*ms), host.Arm("cand", ms), measure.CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Blocks != 0 || c.Ratio != 1 || c.Low != 0 || c.High != math.MaxFloat64 {
		t.Errorf("%d blocks, ratio %v in (%v, %v); want nothing known", c.Blocks, c.Ratio, c.Low, c.High)
	}
	if got := measure.Decide(c, 0.01, 0); got != measure.Inconclusive {
		t.Errorf("verdict %v", got)
	}
	if c.Censored > 43 {
		t.Errorf("went on for %d censored blocks", c.Censored)
	}
	if _, err := host.Timer(1).NoiseFloor(ctx, host.Arm("base", ms), 0); !errors.Is(err, measure.ErrFewSamples) {
		t.Errorf("noise floor of a host that is always throttled: %v", err)
	}
}

// TestEndByCensoringSpendsWhatIsLeft: the host is quiet for a few blocks and throttled from then on. No look has
// been taken, so that all of the 5 % may be spent on the blocks there are.
func TestEndByCensoringSpendsWhatIsLeft(t *testing.T) {
	late := func(*rand.Rand) measuretest.Effect {
		return func(s measuretest.Sample) time.Duration {
			if s.Start >= 180*ms {
				s.Counters.Throttled++
			}
			return s.Took
		}
	}
	host := measuretest.New(1, measuretest.Jitter(0.02), late)
	c, err := host.Timer(1).Compare(ctx, host.Arm("base", ms), host.Arm("cand", ms), measure.CompareOptions{Looks: 2, MinGain: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	if c.Blocks < 6 || c.Blocks >= 10 || c.Censored < 40 {
		t.Fatalf("%d blocks, %d censored: want 6 to 9 and 40, before the first look, at 20", c.Blocks, c.Censored)
	}
	_, low, high := measure.Estimate(c.LogRatios, 0.95)
	if c.Low != math.Exp(low) || c.High != math.Exp(high) {
		t.Errorf("ratio in (%v, %v), want the 95 %% interval of %d blocks, (%v, %v)", c.Low, c.High, c.Blocks, math.Exp(low), math.Exp(high))
	}
}

func TestNoiseFloorFollowsTheNoise(t *testing.T) {
	floor := func(sigma float64) float64 {
		host := measuretest.New(1, measuretest.Jitter(sigma))
		got, err := host.Timer(1).NoiseFloor(ctx, host.Arm("arm", ms), 0)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := floor(0); got != 0 {
		t.Errorf("floor %v without noise", got)
	}
	if one, ten := floor(0.01), floor(0.10); one < 0.001 || ten < 5*one || ten > 20*one {
		t.Errorf("floor %.4f at 1 %% jitter, %.4f at 10 %%", one, ten)
	}
}

// cancelAfter cancels a context in its k-th run.
func cancelAfter(k int, s measure.Subject) (context.Context, measure.Subject) {
	ctx, cancel := context.WithCancel(context.Background())
	run := s.Run
	s.Run = func(ctx context.Context, n int) (time.Duration, error) {
		if k--; k < 0 {
			cancel()
		}
		return run(ctx, n)
	}
	return ctx, s
}

func TestCancellationKeepsWhatWasMeasured(t *testing.T) {
	for _, c := range []struct {
		name   string
		runs   int
		blocks int
	}{
		{"while warming", 3, 0},
		{"after 9 blocks", 61 + 2*9, 9}, // warming took 1 + 20 + 40 samples of 1 ms
		{"after 21 blocks", 61 + 2*21, 21},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := measuretest.New(1)
			ctx, base := cancelAfter(c.runs, host.Arm("base", ms))
			got, err := host.Timer(1).Compare(ctx, base, host.Arm("cand", ms), measure.CompareOptions{})
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("error %v, want that of the context", err)
			}
			if got.Blocks != c.blocks {
				t.Errorf("%d blocks kept, want %d", got.Blocks, c.blocks)
			}
			if known := got.Low > 0; known != (c.blocks > 0) {
				t.Errorf("%d blocks have the interval (%v, %v)", got.Blocks, got.Low, got.High)
			}
		})
	}
}

func TestErrorsOfTheSubject(t *testing.T) {
	boom := errors.New("boom")
	subject := func(took time.Duration, err error) measure.Subject {
		return measure.Subject{Name: "it", Run: func(context.Context, int) (time.Duration, error) { return took, err }}
	}
	for _, c := range []struct {
		name    string
		subject measure.Subject
		want    string
	}{
		{"fails", subject(0, boom), "measure: run it: boom"},
		{"takes less than no time", subject(-1, nil), "measure: run it: took -1ns, want a time that is not negative"},
		{"takes no time", subject(0, nil), "measure: warm it: 1099511627776 iterations took 0s: want work that takes time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var timer measure.Timer
			_, err := timer.Measure(ctx, c.subject, 3)
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	var timer measure.Timer
	if _, err := timer.Compare(ctx, measuretest.New(1).Arm("base", ms), subject(0, boom), measure.CompareOptions{}); !errors.Is(err, boom) {
		t.Errorf("Compare with a failing candidate: %v", err)
	}
}

func TestOrderIsSeeded(t *testing.T) {
	order := func(seed uint64) (runs []string) {
		host := measuretest.New(1)
		spy := func(name string) measure.Subject {
			s := host.Arm(name, ms)
			run := s.Run
			s.Run = func(ctx context.Context, n int) (time.Duration, error) {
				runs = append(runs, name)
				return run(ctx, n)
			}
			return s
		}
		timer := measure.Timer{Rand: rand.NewPCG(seed, 0)}
		pair := timer.Pair(spy("a"), spy("b"))
		for range 30 {
			if err := pair.Block(ctx); err != nil {
				t.Fatal(err)
			}
		}
		return runs[len(runs)-120:]
	}
	one := order(1)
	abba := 0
	for block := range slices.Chunk(one, 4) {
		if block[0] != block[3] || block[1] != block[2] || block[0] == block[1] {
			t.Fatalf("block %v is neither ABBA nor BAAB", block)
		}
		if block[0] == "a" {
			abba++
		}
	}
	if abba < 5 || abba > 25 { // 3e-5 per seed
		t.Errorf("%d of 30 blocks begin with the base", abba)
	}
	if !slices.Equal(one, order(1)) {
		t.Error("same seed, another order")
	}
	if slices.Equal(one, order(2)) {
		t.Error("another seed, same order")
	}
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name             string
		low, ratio, high float64
		minGain, floor   float64
		want             measure.Verdict
	}{
		{"clear gain", 1.03, 1.05, 1.07, 0.01, 0.02, measure.Adopt},
		{"real but not worth it", 1.002, 1.004, 1.006, 0.01, 0, measure.Keep},
		{"may be worth it", 1.005, 1.02, 1.04, 0.01, 0, measure.Inconclusive},
		{"no more than the host shows by itself", 1.02, 1.03, 1.04, 0.01, 0.035, measure.Inconclusive},
		{"slower", 0.7, 0.8, 0.9, 0.01, 0.05, measure.Keep},
		{"exactly the gain asked for", 1.01, 1.02, 1.03, 0.01, 0, measure.Inconclusive},
		{"nothing known", 0, 1, math.MaxFloat64, 0.01, 0, measure.Inconclusive},
		{"zero value", 0, 0, 0, 0.01, 0, measure.Inconclusive},
		{"not a number", math.NaN(), math.NaN(), math.NaN(), 0.01, 0, measure.Inconclusive},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := measure.Decide(measure.Comparison{Low: c.low, Ratio: c.ratio, High: c.high}, c.minGain, c.floor)
			if got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
