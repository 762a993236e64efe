package measure

import (
	"math"
	"slices"
)

// Estimate returns the centre of symmetric data and an interval that holds the true centre with the given confidence:
// the Hodges-Lehmann estimator, the median of the averages of all pairs (Hodges & Lehmann, 1963), with the interval of
// Wilcoxon's signed-rank test (Wilcoxon, 1945; Tukey's confidence limits, Hollander & Wolfe, 1999, section 3.3). The
// interval assumes symmetry and independence, nothing else, and is exact up to 100 values. With too few values for
// the confidence (under 6 for 0.95) it is unbounded, (-Inf, +Inf); with none the centre is 0.
func Estimate(logRatios []float64, confidence float64) (centre, low, high float64) {
	averages := walshAverages(logRatios)
	centre = middle(averages)
	k := signedRankCut(len(logRatios), 1-confidence)
	if k == 0 {
		return centre, math.Inf(-1), math.Inf(1)
	}
	return centre, averages[k-1], averages[len(averages)-k]
}

// walshAverages returns (x[i]+x[j])/2 for all i <= j, sorted.
func walshAverages(x []float64) []float64 {
	averages := make([]float64, 0, len(x)*(len(x)+1)/2)
	for i := range x {
		for j := range i + 1 {
			averages = append(averages, (x[i]+x[j])/2)
		}
	}
	slices.Sort(averages)
	return averages
}

// middle is the median of sorted values; 0 for none.
func middle(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// exactRanks is the number of values up to which the distribution of the signed-rank statistic is computed exactly.
const exactRanks = 100

// signedRankCut returns the largest k for which the k-th smallest and k-th largest Walsh average of n values enclose
// the centre with probability >= 1-alpha: P(W < k) <= alpha/2 for Wilcoxon's W. 0 means that n is too small.
func signedRankCut(n int, alpha float64) int {
	if n > exactRanks {
		mean := float64(n) * float64(n+1) / 4
		sd := math.Sqrt(mean * float64(2*n+1) / 6)
		return max(0, int(mean-normalQuantile(1-alpha/2)*sd))
	}
	// p[w] = P(W = w): rank r adds r to W or, as likely, nothing.
	p := make([]float64, n*(n+1)/4+1) // the lower half is all that is asked for
	p[0] = 1
	for rank := 1; rank <= n; rank++ {
		for w := len(p) - 1; w >= 0; w-- {
			p[w] /= 2
			if w >= rank {
				p[w] += p[w-rank] / 2
			}
		}
	}
	k, tail := 0, 0.0
	for k < len(p) && tail+p[k] <= alpha/2 {
		tail += p[k]
		k++
	}
	return k
}

// normalQuantile is the inverse of the standard normal distribution function.
func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// normalTail is P(Z > z) for a standard normal Z.
func normalTail(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }
