package bandit

import (
	"math"
	"slices"
)

// The prior of the noise of one sample, as standard deviation of log cost, and how many samples that belief is worth.
// 0.03 is the middle of the 1 to 5 % that paired blocks show on an unpinned host.
const (
	priorNoise  = 0.03
	priorWeight = 4
)

// clip is how many standard deviations of noise a sample may lie from its arm's median before it is moved there
// (Winsorised): Huber (1964) with a bound that keeps 98 % of honest samples.
const clip = 2.5

// badSample widens the belief about an arm with one or two samples, too few to show that one is bad: a sample in
// sixteen that is off by a factor e^±0.3 adds 0.3/√16 to the standard deviation.
const badSample = 0.075

// noiseScale returns the standard deviation of one sample's log cost, taken as common to all arms: the median absolute
// deviation from the medians of those that never failed, so that a bad sample in sixteen does not move it, mixed with
// the prior.
func noiseScale(arms []arm) float64 {
	var deviations []float64
	degrees := 0
	for i := range arms {
		a := &arms[i]
		if n := len(a.logs); n > 1 && a.failed == OK {
			degrees += n - 1
			deviations = append(deviations, deviationsOf(a.logs)...)
		}
	}
	if degrees == 0 {
		return priorNoise
	}
	slices.Sort(deviations)
	sd := 1.4826 * median(deviations) // of a normal distribution: 1/Φ⁻¹(3/4)
	return math.Sqrt((priorWeight*priorNoise*priorNoise + float64(degrees)*sd*sd) / float64(priorWeight+degrees))
}

// deviationsOf returns how far samples lie from their median; of an odd number all but the median itself, of an even
// number widened for the degree of freedom that the median took.
func deviationsOf(logs []float64) []float64 {
	n, m := len(logs), median(logs)
	widen := 1.0
	if n%2 == 0 {
		widen = math.Sqrt(float64(n) / float64(n-1))
	}
	var d []float64
	for i, x := range logs {
		if n%2 == 0 || i != n/2 {
			d = append(d, math.Abs(x-m)*widen)
		}
	}
	return d
}

// centre returns the Winsorised mean of ascending samples and its variance. The variance of one sample is the mean of
// its normal-inverse-gamma posterior, whose prior lies around scale and is worth priorWeight samples (Murphy 2007).
func centre(logs []float64, scale float64) (mean, variance float64) {
	m := median(logs)
	kept := func(x float64) float64 { return min(max(x, m-clip*scale), m+clip*scale) }
	for _, x := range logs {
		mean += kept(x)
	}
	mean /= float64(len(logs))
	sum := priorWeight * scale * scale
	for _, x := range logs {
		sum += (kept(x) - mean) * (kept(x) - mean)
	}
	variance = sum / float64(priorWeight+len(logs)-1)
	if len(logs) < 3 {
		variance += badSample * badSample
	}
	return mean, variance / float64(len(logs))
}

// median returns the middle of ascending values.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
