package report

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot"

	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
)

// By hand: of the runs 1 to 11 the mean is 6, and a tenth of the way from the least to the largest are 2 and 10, within the
// step of half a run by which definitions of a quantile differ.
func TestCurve(t *testing.T) {
	var runs []replay.Result
	for i := range 11 {
		runs = append(runs, replay.Result{ByTime: []float32{float32(11 - i), 7}})
	}
	c := newCurve(runs, 2, func(r replay.Result, i int) float64 { return float64(r.ByTime[i]) })
	if diff := cmp.Diff([]float64{6, 7}, c.mean); diff != "" {
		t.Errorf("mean (-want +got):\n%s", diff)
	}
	if math.Abs(c.low[0]-2) > 1 || math.Abs(c.high[0]-10) > 1 || c.low[1] != 7 || c.high[1] != 7 {
		t.Errorf("bands from %v to %v; want 2 to 10, then 7", c.low, c.high)
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		name      string
		ticker    plot.Ticker
		low, high float64
		want      []string
	}{
		{"score", steps{factor: 1}, -1, 1, []string{"-1", "-0.5", "0", "0.5", "1"}},
		{"share", steps{factor: 100, unit: " %"}, 0, 1, []string{"0 %", "20 %", "40 %", "60 %", "80 %", "100 %"}},
		{"seconds", steps{factor: 1}, 13, 20660, []string{"5000", "10000", "15000", "20000"}},
		{"few seconds", steps{factor: 1}, 0.5, 2.7, []string{"0.5", "1", "1.5", "2", "2.5"}},
		{"percent", decades{[]float64{1}, " %"}, 0.1, 120, []string{"0.1 %", "1 %", "10 %", "100 %"}},
		{"evaluations", decades{factors: []float64{1, 2, 5}}, 1, 40, []string{"1", "2", "5", "10", "20"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var labels []string
			for _, tick := range c.ticker.Ticks(c.low, c.high) {
				labels = append(labels, tick.Label)
			}
			if diff := cmp.Diff(c.want, labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}
