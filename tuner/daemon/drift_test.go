package daemon

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
)

// certifiedAt is a certificate that knows the ratio to 1 %.
func certifiedAt(ratio float64) tuner.Ratio {
	return tuner.Ratio{Estimate: ratio, Low: ratio * 0.99, High: ratio * 1.01, Confidence: 0.99}
}

// normalCheck is a check whose error has that standard deviation, and whose interval says so.
func normalCheck(r *rand.Rand, ratio, sigma float64) tuner.Ratio {
	const z99 = 2.5758
	log := math.Log(ratio) + sigma*r.NormFloat64()
	return tuner.Ratio{Estimate: math.Exp(log), Low: math.Exp(log - z99*sigma), High: math.Exp(log + z99*sigma), Confidence: 0.99}
}

// The stated rate is one false alarm in 141,000 checks where the certificate is exact. In 2,000,000 checks 14.2 are expected,
// and 30 or more come with a probability of 2e-4; fewer than 3 with one of 1e-4, which would mean that the rate is not what
// is stated.
func TestFalseAlarmsOfExactNormalChecksAreAsRareAsStated(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	d := Detector{Reference: math.Log(1.5)}
	alarms, checks, least, most := 0, 2_000_000, 3, 30
	if testing.Short() { // the race detector is slow; 0.7 are expected
		checks, least, most = 100_000, 0, 6
	}
	for range checks {
		if d.Add(normalCheck(random, 1.5, 0.03)) {
			alarms++
			d = Detector{Reference: d.Reference}
		}
	}
	t.Logf("%d false alarms in %d checks", alarms, checks)
	if alarms < least || alarms >= most {
		t.Errorf("%d false alarms in %d checks, want %d to %d", alarms, checks, least, most)
	}
}

// On each invented host, checks as the tuner makes them, of a config that is as it was certified: 10,000 on the ordinary one.
// At the stated rate 0.07 alarms are expected; 2 or more come with a probability of 0.0024.
func TestFalseAlarmsInTenThousandQuietChecks(t *testing.T) {
	for _, model := range measuretest.Models() {
		t.Run(model.Name, func(t *testing.T) {
			checks := *quiet
			if model.Name == "shared host" {
				checks = 10 * *quiet
			}
			if testing.Short() { // the race detector is slow, and the seeds are the same
				checks = 500
			}
			if alarms, said := alarmsOn(t, model, checks, 1.25); alarms > 1 {
				t.Errorf("%d false alarms in %d checks, %d of which had an interval", alarms, checks, said)
			} else {
				t.Logf("%d false alarms in %d checks, %d of which had an interval", alarms, checks, said)
			}
		})
	}
}

// check is what Verify asks of a timer for one regime.
var check = measure.CompareOptions{Blocks: 40, Looks: 4, Confidence: 0.99, MinGain: -0.01}

// compare is one check on an invented host of a config that is so many times as fast as the default.
func compare(t *testing.T, host *measuretest.Simulator, timer *measure.Timer, ratio float64) tuner.Ratio {
	t.Helper()
	const took = 10 * time.Millisecond
	base, learned := host.Arm("default", took), host.Arm("learned", time.Duration(float64(took)/ratio))
	c, err := timer.Compare(t.Context(), base, learned, check)
	if err != nil {
		t.Fatal(err)
	}
	return tuner.Ratio{Estimate: c.Ratio, Low: c.Low, High: c.High, Confidence: c.Confidence}
}

func alarmsOn(t *testing.T, model measuretest.Model, checks int, ratio float64) (alarms, said int) {
	t.Helper()
	host := measuretest.New(7, model.Noise...)
	timer := host.Timer(7)
	fresh := func() Detector { return NewDetector(compare(t, host, timer, ratio)) }
	d := fresh()
	for range checks {
		before := d.Checks
		if d.Add(compare(t, host, timer, ratio)) {
			alarms++
			said++
			d = fresh()
			continue
		}
		said += d.Checks - before
	}
	return alarms, said
}

// A config that has become 20 % slower is noticed by the third check where a check errs by 4 % or less.
func TestSlowdownOfAFifthIsNoticedByTheThirdCheck(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for _, sigma := range []float64{0.002, 0.01, 0.02} {
		late := 0
		for range 1000 {
			d := NewDetector(certifiedAt(1.25))
			for range 50 {
				d.Add(normalCheck(random, 1.25, sigma))
			}
			n := 1
			for !d.Add(normalCheck(random, 1.25*0.8, sigma)) {
				n++
			}
			if n > 3 {
				late++
			}
			if got := d.Ratio(); got < 0.9 || got > 1.26 {
				t.Errorf("it is said to run at %.3f times the default, want about 1", got)
			}
		}
		if late > 10 {
			t.Errorf("checks that err by %.1f %%: %d of 1000 slowdowns were noticed after the third check", 100*sigma, late)
		}
	}
}

func TestSlowdownOfAFifthOnInventedHosts(t *testing.T) {
	for _, model := range measuretest.Models() {
		host := measuretest.New(3, model.Noise...)
		timer := host.Timer(3)
		d := NewDetector(compare(t, host, timer, 1.25))
		n := 1
		for !d.Add(compare(t, host, timer, 1.25*0.8)) && n < 100 {
			n++
		}
		t.Logf("%s: noticed by check %d", model.Name, n)
		if n > 4 {
			t.Errorf("%s: noticed by check %d, want 4 at most", model.Name, n)
		}
	}
}

func TestOneWildCheckIsNoAlarm(t *testing.T) {
	d := NewDetector(certifiedAt(1.5))
	if d.Add(certifiedAt(0.1)) || d.Add(tuner.Ratio{Estimate: 0.1, High: math.MaxFloat64, Confidence: 0.99}) {
		t.Error("alarm after one check with an interval")
	}
	if d.Checks != 1 {
		t.Errorf("%d checks count, want the one with an interval", d.Checks)
	}
}

func TestDetectorGoesOnAfterARestart(t *testing.T) {
	d := NewDetector(certifiedAt(1.5))
	d.Add(certifiedAt(1.2))
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var again Detector
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, again); diff != "" {
		t.Errorf("after a restart (-before +after):\n%s", diff)
	}
}
