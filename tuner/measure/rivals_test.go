package measure_test

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// An estimator is what Estimate is compared with.
type estimator func(x []float64, confidence float64) (centre, low, high float64)

// trimmedMean cuts that share off either end and takes its interval from Student's t with a Winsorised variance (Tukey
// & McLaughlin, 1963; Yuen, 1974). A share of 0 is the ordinary mean.
func trimmedMean(share float64) estimator {
	return func(x []float64, confidence float64) (centre, low, high float64) {
		sorted := slices.Sorted(slices.Values(x))
		n := len(sorted)
		cut := int(share * float64(n))
		kept := float64(n - 2*cut)
		centre = stat.Mean(sorted[cut:n-cut], nil)
		for i := range cut {
			sorted[i], sorted[n-1-i] = sorted[cut], sorted[n-1-cut]
		}
		se := math.Sqrt(stat.Variance(sorted, nil)*float64(n-1)/(kept-1)) / math.Sqrt(kept)
		half := se * distuv.StudentsT{Sigma: 1, Nu: kept - 1}.Quantile((1+confidence)/2)
		return centre, centre - half, centre + half
	}
}

// wilcoxon is the Hodges-Lehmann estimator with Wilcoxon's interval, by the normal approximation: Estimate without
// winsorising.
func wilcoxon(x []float64, confidence float64) (centre, low, high float64) {
	var walsh []float64
	for i := range x {
		for j := range i + 1 {
			walsh = append(walsh, (x[i]+x[j])/2)
		}
	}
	slices.Sort(walsh)
	n := float64(len(x))
	z := distuv.UnitNormal.Quantile((1 + confidence) / 2)
	k := int(n*(n+1)/4 - z*math.Sqrt(n*(n+1)*(2*n+1)/24))
	return median(walsh), walsh[k], walsh[len(walsh)-1-k]
}

// median of x, which it sorts.
func median(x []float64) float64 {
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
