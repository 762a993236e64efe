package daemon

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
)

// The stated rate of false alarms, one in 141,000 checks, is an upper bound here: rateDoubt is in its favour. In 1,000,000
// checks of hosts whose checks scatter by 1 % to 10 % 7.1 are expected at most, and 19 or more come with a probability of 2e-4.
// A Rate that begins anew every 200 checks shows that the first judgements are as safe as the later ones.
func TestFalseAlarmsOfRatesAreAsRareAsStated(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	checks, most := 1_000_000, 19
	if testing.Short() { // the race detector is slow; 0.7 are expected at most
		checks, most = 100_000, 7
	}
	alarms, n := 0, 0
	for n < checks {
		var r Rate
		sigma := 0.01 + 0.09*random.Float64()
		for range 200 {
			n++
			if r.Add(math.Exp(15 + sigma*random.NormFloat64())) {
				alarms++
				r = Rate{}
			}
		}
	}
	t.Logf("%d false alarms in %d checks", alarms, checks)
	if alarms >= most {
		t.Errorf("%d false alarms in %d checks, want less than %d", alarms, checks, most)
	}
}

// median is what a check on an invented host finds for the learned setting.
func median(t *testing.T, host *measuretest.Simulator, took time.Duration) float64 {
	t.Helper()
	timer := host.Timer(5)
	c, err := timer.Compare(t.Context(), host.Arm("default", took*5/4), host.Arm("learned", took), check)
	if err != nil {
		t.Fatal(err)
	}
	return c.Cand.Median
}

// On each invented host, checks that find nothing new, 10,000 with make paranoid. At the stated rate 0.07 alarms are expected then; 2
// or more come with a probability of 0.0024.
func TestFalseAlarmsOfRatesOnInventedHosts(t *testing.T) {
	for _, model := range measuretest.Models() {
		t.Run(model.Name, func(t *testing.T) {
			checks := *quiet
			if testing.Short() { // the race detector is slow, and the seeds are the same
				checks = 500
			}
			host := measuretest.New(11, model.Noise...)
			alarms, r := 0, Rate{}
			for range checks {
				if r.Add(median(t, host, 8*time.Millisecond)) {
					alarms++
					r = Rate{}
				}
			}
			t.Logf("%d false alarms in %d checks, which scatter by %.1f %%", alarms, checks, 100*r.spread())
			if alarms > 1 {
				t.Errorf("%d false alarms in %d checks", alarms, checks)
			}
		})
	}
}

// Both settings become 20 % slower together, which their ratio cannot tell: noticed by the fourth check on every invented host.
func TestSlowdownOfBothIsNoticed(t *testing.T) {
	for _, model := range measuretest.Models() {
		host := measuretest.New(13, model.Noise...)
		var r Rate
		for range 40 {
			r.Add(median(t, host, 8*time.Millisecond))
		}
		n := 1
		for !r.Add(median(t, host, 10*time.Millisecond)) && n < 100 {
			n++
		}
		t.Logf("%s: noticed by check %d, %.2f times as long", model.Name, n, r.Slower())
		if n > 4 || r.Slower() < 1.15 || r.Slower() > 1.35 {
			t.Errorf("%s: noticed by check %d as %.2f times as long, want 4 at most and 1.25", model.Name, n, r.Slower())
		}
	}
}

// A single check that takes ten times as long is no alarm, and neither does it blind the next.
func TestOneWildTimeIsNoAlarm(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	var r Rate
	for range 40 {
		r.Add(1e6 * math.Exp(0.01*random.NormFloat64()))
	}
	if r.Add(1e7) || r.Add(math.NaN()) || r.Add(math.Inf(1)) || r.Add(-1) || r.Add(0) {
		t.Fatal("alarm after one check")
	}
	n := 1
	for !r.Add(1.25e6) && n < 100 {
		n++
	}
	if n > 3 {
		t.Errorf("after it, a slowdown of 20 %% is noticed by check %d, want 3 at most", n)
	}
}
