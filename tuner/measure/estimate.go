package measure

import (
	"math"
	"slices"
	"sort"
)

// Estimate returns the centre of symmetric data and an interval that holds the true centre with the given confidence.
//
// Both come from the signed-rank test with winsorised scores (Policello & Hettmansperger, 1976): a value counts by
// the rank of its distance from the supposed centre, as in Wilcoxon's test (1945), but beyond rank 0.4 n all count the
// same. The centre is where the test is in balance (Hodges & Lehmann, 1963), the interval all centres that it does not
// reject. It assumes symmetry and independence, nothing else, and is exact up to 100 values. With too few values for
// the confidence (under 6 for 0.95) it is unbounded, (-Inf, +Inf); with none the centre is 0.
func Estimate(logRatios []float64, confidence float64) (centre, low, high float64) {
	n := len(logRatios)
	if n == 0 {
		return 0, math.Inf(-1), math.Inf(1)
	}
	data := ranked{slices.Sorted(slices.Values(logRatios)), scores(n)}
	total := 0
	for _, score := range data.scores {
		total += score
	}
	// The statistic is a multiple of 1/2: below t + 1/4 means at most t.
	half := float64(total) / 2
	centre = (data.fallsBelow(half) + data.fallsBelow(half+0.25)) / 2
	rejected := rejectedUpTo(data.scores, total, (1-confidence)/2)
	if rejected < 0 {
		return centre, math.Inf(-1), math.Inf(1)
	}
	return centre, data.fallsBelow(float64(total - rejected)), data.fallsBelow(float64(rejected) + 0.25)
}

// winsorAt is the share of the ranks above which scores stay level. A block is spoilt by any of its four samples, so
// that with one bad sample in 16 a quarter of the blocks are bad. On such data 0.4 is as narrow as the best trimmed
// mean; on clean data it costs a tenth of the width (TestEstimatorsCompared).
const winsorAt = 0.4

// scores returns what each rank from 1 to n counts.
func scores(n int) []int {
	level := int(math.Ceil(winsorAt * float64(n)))
	s := make([]int, n)
	for i := range s {
		s[i] = min(i+1, level)
	}
	return s
}

// exactRanks is the number of values up to which the distribution of the statistic is computed exactly; beyond, a
// normal approximation does.
const exactRanks = 100

// rejectedUpTo returns the largest t with P(T <= t) <= tail, where T is the sum of a random half of the scores: each
// counts or, as likely, does not. It is negative if there is none: too few values.
func rejectedUpTo(scores []int, total int, tail float64) int {
	if len(scores) > exactRanks {
		squares := 0
		for _, score := range scores {
			squares += score * score
		}
		return int((float64(total) - normalQuantile(1-tail)*math.Sqrt(float64(squares))) / 2)
	}
	p := make([]float64, total/2+1) // p[t] = P(T = t); nobody asks for the upper half
	p[0] = 1
	for _, score := range scores {
		for t := len(p) - 1; t >= 0; t-- {
			p[t] /= 2
			if t >= score {
				p[t] += p[t-score] / 2
			}
		}
	}
	t, sum := 0, 0.0
	for t < len(p) && sum+p[t] <= tail {
		sum += p[t]
		t++
	}
	return t - 1
}

// ranked is data ready for signed-rank statistics.
type ranked struct {
	values []float64 // sorted
	scores []int
}

// statistic is the sum of the scores of the values above centre, where a value's score is that of the rank of its
// distance from centre; a value on centre counts half. It never rises with centre (Hettmansperger & McKean, Robust
// Nonparametric Statistical Methods, 2011, section 1.8).
func (r ranked) statistic(centre float64) float64 {
	above := sort.SearchFloat64s(r.values, centre) // the nearest value not below
	below := above - 1
	sum := 0.0
	for _, score := range r.scores { // from the nearest value outwards, on either side
		if below < 0 || above < len(r.values) && r.values[above]-centre <= centre-r.values[below] {
			if r.values[above] == centre {
				sum -= float64(score) / 2
			}
			sum += float64(score)
			above++
		} else {
			below--
		}
	}
	return sum
}

// fallsBelow returns the centre beyond which the statistic is below limit, by bisection to 3e-14 of the data's range.
func (r ranked) fallsBelow(limit float64) float64 {
	low, high := r.values[0], r.values[len(r.values)-1]
	for range 45 {
		mid := low + (high-low)/2
		if r.statistic(mid) < limit {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// normalQuantile is the inverse of the standard normal distribution function.
func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// normalTail is P(Z > z) for a standard normal Z.
func normalTail(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }

// middle is the median of sorted values; 0 for none.
func middle(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
