package daemon

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

// The figures of a Detector. With independent, normal errors as large as the checks' intervals say, the mean time between
// false alarms is (exp(2kb) - 2kb - 1) / 2k² = 141,000 checks, b = h + 1.166 (Siegmund, Sequential Analysis, 1985, 10.16).
const (
	driftSlack = 0.5 // k, in standard errors of a check
	driftLimit = 10  // h
	// driftMost is the most that one check can count, so that a single wild one is no alarm. A change of 20 % in checks with an
	// error of 4 % or less counts that much each time, and is noticed by the third: 3 (4 - 0.5) > 10.
	driftMost = 4
)

// Detector notices that a config has become slower than it was when it was certified. It is Page's one-sided CUSUM (1954):
// the sum of what each check falls short of the certificate by, in standard errors, that starts again at 0. It marshals, so
// that it goes on after a restart.
type Detector struct {
	Reference float64 `json:"reference"` // logarithm of the certified ratio to the default
	Doubt     float64 `json:"doubt"`     // half the width of its interval: below it nothing is a change
	Sum       float64 `json:"sum"`
	Checks    int     `json:"checks"`
	Rising    int     `json:"rising"`     // checks since Sum was 0
	RisingSum float64 `json:"rising_sum"` // of the logarithms of their ratios
}

// NewDetector watches for a ratio that falls below what was certified.
func NewDetector(certified tuner.Ratio) Detector {
	d := Detector{Reference: math.Log(certified.Estimate)}
	if half, ok := halfWidth(certified); ok {
		d.Doubt = half
	}
	return d
}

// Add takes a check into account and reports whether the rate has changed. One without an interval says nothing.
func (d *Detector) Add(check tuner.Ratio) (alarm bool) {
	half, ok := halfWidth(check)
	if !ok || check.Confidence <= 0 || check.Confidence >= 1 {
		return false
	}
	d.Checks++
	sigma := max(half/distuv.UnitNormal.Quantile((1+check.Confidence)/2), 1e-4) // no two runs agree to 0.01 %
	short := (d.Reference - d.Doubt - math.Log(check.Estimate)) / sigma
	d.Sum = max(0, d.Sum+min(short, driftMost)-driftSlack)
	if d.Sum == 0 {
		d.Rising, d.RisingSum = 0, 0
		return false
	}
	d.Rising++
	d.RisingSum += math.Log(check.Estimate)
	return d.Sum > driftLimit
}

// Ratio is the ratio to the default since it began to fall; 1 where it has not.
func (d *Detector) Ratio() float64 {
	if d.Rising == 0 {
		return 1
	}
	return math.Exp(d.RisingSum / float64(d.Rising))
}

// sane reports whether a file could hold d.
func (d *Detector) sane() bool {
	return d != nil && d.Checks >= 0 && d.Rising >= 0 && d.Doubt >= 0 && d.Sum >= 0 && d.Sum <= driftLimit &&
		math.Abs(d.Reference) < 100 && math.Abs(d.RisingSum) < 1e6
}

// halfWidth is half the width of an interval on the scale of logarithms; false where it is unbounded.
func halfWidth(r tuner.Ratio) (float64, bool) {
	if r.Low <= 0 || r.High < r.Low || r.Estimate <= 0 || r.High > 1e6 {
		return 0, false
	}
	return math.Log(r.High/r.Low) / 2, true
}

// certifiedRatio is the ratio that was certified.
func certifiedRatio(d Detector) float64 { return math.Exp(d.Reference) }
