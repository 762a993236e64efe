package measuretest_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
)

const ms = time.Millisecond

// run takes samples of 1 ms of true work and returns how long each took.
func run(t *testing.T, host *measuretest.Simulator, samples int) []time.Duration {
	t.Helper()
	arm := host.Arm("arm", ms)
	took := make([]time.Duration, samples)
	for i := range took {
		var err error
		if took[i], err = arm.Run(context.Background(), 1); err != nil {
			t.Fatal(err)
		}
	}
	return took
}

func sum(d []time.Duration) (total time.Duration) {
	for _, v := range d {
		total += v
	}
	return total
}

func TestSameSeedSameTimes(t *testing.T) {
	for _, m := range measuretest.Models() {
		a, b := run(t, measuretest.New(3, m.Noise...), 300), run(t, measuretest.New(3, m.Noise...), 300)
		for i := range a {
			if a[i] != b[i] {
				t.Fatalf("%s: sample %d took %v, then %v with the same seed", m.Name, i, a[i], b[i])
			}
		}
	}
}

func TestClockIsTheSumOfAllSamples(t *testing.T) {
	host := measuretest.New(1, measuretest.SharedHost()...)
	total := sum(run(t, host, 100)) + sum(run(t, host, 50))
	host.Sleep(7 * ms)
	if got := host.Now(); got != total+7*ms {
		t.Errorf("clock is at %v after %v of samples and 7ms of sleep", got, total)
	}
}

// TestMeans checks what each kind of noise adds on average. The tolerances are above 6 standard errors; the seed is fixed.
func TestMeans(t *testing.T) {
	const samples = 20000
	for _, c := range []struct {
		name     string
		noise    measuretest.Noise
		mean     float64 // of took/true
		tolerate float64
	}{
		{"jitter 3 %", measuretest.Jitter(0.03), 1.00045, 0.0015},
		{"spikes 1/16, size 0.5", measuretest.Spikes(16, 0.5), 1.0087, 0.006}, // 1 + (E cosh(x) - 1)/16, x uniform in [0.25, 0.75)
		{"drift 10 %", measuretest.Drift(0.10, time.Second), 1, 0.006},        // time-weighted: slow phases hold fewer samples
		{"bursts 1/6 at 1.5", measuretest.Bursts(100*ms, 20*ms, 1.5), 1.0588, 0.02},
		{"bimodal 0.3 at 1.15", measuretest.Bimodal(0.3, 1.15), 1.045, 0.003},
		{"throttled to 70 %", measuretest.Throttle(70*ms, 100*ms), 1 / 0.7, 0.002}, // the last period is cut short
		{"stolen 1 in 11", measuretest.Steal(100*ms, 10*ms), 1.1, 0.07},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := sum(run(t, measuretest.New(1, c.noise), samples)).Seconds() / (samples * ms).Seconds()
			if got < c.mean-c.tolerate || got > c.mean+c.tolerate {
				t.Errorf("mean sample is %.4f of the truth, want %.4f ± %.4f", got, c.mean, c.tolerate)
			}
		})
	}
}

func TestWarmUpDecays(t *testing.T) {
	took := run(t, measuretest.New(1, measuretest.WarmUp(1, 10)), 100)
	if took[0] != 2*ms || took[99] > ms+ms/1000 {
		t.Errorf("first sample %v, last %v; want 2ms and 1ms", took[0], took[99])
	}
}

func TestCountersShowThrottling(t *testing.T) {
	host := measuretest.New(1, measuretest.Throttle(70*ms, 100*ms))
	took := run(t, host, 140) // two quotas
	got, err := host.Watch().Read()
	if err != nil {
		t.Fatal(err)
	}
	if got.Throttled != 1 || got.ThrottledTime != 30*ms || took[70] != 31*ms {
		t.Errorf("throttled %d times for %v, sample 70 took %v; want once for 30ms in a sample of 31ms", got.Throttled, got.ThrottledTime, took[70])
	}
}

func TestCountersShowStealInTicks(t *testing.T) {
	host := measuretest.New(1, func(r *rand.Rand) measuretest.Effect {
		return func(s measuretest.Sample) time.Duration {
			s.Counters.Steal += 4 * ms
			return s.Took + 4*ms
		}
	})
	watch := host.Watch()
	for i, want := range []time.Duration{0, 0, 10 * ms, 10 * ms, 20 * ms} {
		run(t, host, 1)
		if got, _ := watch.Read(); got.Steal != want {
			t.Errorf("after %d ms of steal the counter shows %v, want %v", 4*(i+1), got.Steal, want)
		}
	}
}

func TestCancelledArmDoesNotRun(t *testing.T) {
	host := measuretest.New(1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := host.Arm("arm", ms).Run(ctx, 1); err != context.Canceled || host.Now() != 0 {
		t.Errorf("got %v at %v, want context.Canceled at 0", err, host.Now())
	}
}
