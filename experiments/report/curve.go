package report

import (
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
)

// curve sums up runs at each reading: their mean, and between what the middle 80 % of them are.
type curve struct{ mean, low, high []float64 }

// newCurve reads n values of each run.
func newCurve(runs []replay.Result, n int, read func(r replay.Result, i int) float64) curve {
	c := curve{make([]float64, n), make([]float64, n), make([]float64, n)}
	values := make([]float64, len(runs))
	for i := range n {
		for k, r := range runs {
			values[k] = read(r, i)
		}
		slices.Sort(values)
		c.mean[i] = stat.Mean(values, nil)
		c.low[i] = stat.Quantile(0.1, stat.LinInterp, values, nil)
		c.high[i] = stat.Quantile(0.9, stat.LinInterp, values, nil)
	}
	return c
}
