package daemon

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// The figures of a Rate beside those of a Detector, whose slack, limit and rate of false alarms it shares.
const (
	rateLeast  = 8    // checks before it judges one
	rateMemory = 100  // checks: what is usual follows what is seen within so many
	rateSpread = 0.01 // least standard deviation between checks: our choice
	// rateDoubt is how much slower than usual is still no news: less is not worth a tune.
	rateDoubt = 0.05
	rateClip  = 3 // standard deviations beyond which a check does not move what is usual any further
)

// Rate notices that a config takes longer than it used to, though it may be as far ahead of the default as ever: both suffer
// from a new microcode or a new neighbour. What is usual between checks, and how far they scatter, it learns from the checks
// themselves: it is a self-starting CUSUM (Hawkins, J. Quality Technology 19, 1987) of the logarithm of the time. Each check is
// compared with all before it by Student's t, so that the rate of false alarms holds from the first judgement on, whatever the
// scatter. It knows one condition of the host and one pace of the check; others have a Rate of their own.
type Rate struct {
	Checks    int     `json:"checks"`
	Mean      float64 `json:"mean"`   // of the logarithms of the times
	Square    float64 `json:"square"` // sum of squared distances from it
	Sum       float64 `json:"sum"`
	Rising    int     `json:"rising"` // checks since Sum was 0
	RisingSum float64 `json:"rising_sum"`
}

// Add takes a check into account, which took so long, and reports whether the rate has changed.
func (r *Rate) Add(ns float64) (alarm bool) {
	x := math.Log(ns)
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return false
	}
	if r.Checks < rateLeast {
		r.follow(x)
		return false
	}
	n, spread := float64(r.Checks), r.spread()
	t := (x - r.Mean - rateDoubt) / spread * math.Sqrt(n/(n+1))
	p := distuv.StudentsT{Sigma: 1, Nu: n - 1}.CDF(t)
	r.Sum = max(0, r.Sum+min(distuv.UnitNormal.Quantile(p), driftMost)-driftSlack)
	if r.Rising++; r.Sum == 0 {
		r.Rising, r.RisingSum = 0, 0
	} else {
		r.RisingSum += x - r.Mean
	}
	r.follow(r.Mean + max(-rateClip*spread, min(rateClip*spread, x-r.Mean)))
	return r.Sum > driftLimit
}

// spread is the standard deviation between checks.
func (r *Rate) spread() float64 {
	return max(rateSpread, math.Sqrt(r.Square/float64(r.Checks-1)))
}

// follow moves what is usual.
func (r *Rate) follow(x float64) {
	if r.Checks < rateMemory {
		r.Checks++
	} else {
		r.Square *= 1 - 1.0/rateMemory
	}
	step := x - r.Mean
	r.Mean += step / float64(r.Checks)
	r.Square += step * (x - r.Mean)
}

// Slower is how many times as long as usual the checks have taken since they began to take longer; 1 where they have not.
func (r *Rate) Slower() float64 {
	if r.Rising == 0 {
		return 1
	}
	return math.Exp(r.RisingSum / float64(r.Rising))
}

// sane reports whether a file could hold r.
func (r *Rate) sane() bool {
	return r != nil && r.Checks >= 0 && r.Checks <= rateMemory && r.Rising >= 0 && r.Square >= 0 && r.Sum >= 0 && r.Sum <= driftLimit &&
		math.Abs(r.Mean) < 100 && math.Abs(r.RisingSum) < 1e6 && r.Square < 1e6
}
