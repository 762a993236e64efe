package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestEstimateIsExact flips the signs of given distances in all 2^n ways, each as likely as the other if the centre is 0:
// the share of intervals that miss 0 may not exceed 1-confidence, whatever the distances.
func TestEstimateIsExact(t *testing.T) {
	for _, c := range []struct {
		name      string
		distances []float64
	}{
		{"even", []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
		{"two spikes", []float64{1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 700, 800}},
		{"one tiny, one huge", []float64{1e-6, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1e6}},
		{"six", []float64{1, 2, 4, 8, 16, 32}},
	} {
		for _, confidence := range []float64{0.8, 0.95, 0.99} {
			n, missed := len(c.distances), 0
			for signs := range 1 << n {
				x := make([]float64, n)
				for i, d := range c.distances {
					x[i] = d
					if signs>>i&1 == 1 {
						x[i] = -d
					}
				}
				if _, low, high := Estimate(x, confidence); low > 0 || high < 0 {
					missed++
				}
			}
			if share := float64(missed) / float64(int(1)<<n); share > 1-confidence+1e-12 {
				t.Errorf("%s at %v: %.4f of the intervals miss the truth", c.name, confidence, share)
			}
		}
	}
}

// near is equality up to rounding and the last step of a bisection.
func near(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-9 }

func TestEstimate(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		name              string
		x                 []float64
		confidence        float64
		centre, low, high float64
	}{
		{"none", nil, 0.95, 0, -inf, inf},
		{"one", []float64{3}, 0.95, 3, -inf, inf},
		{"five are too few", []float64{1, 2, 3, 4, 5}, 0.95, 3, -inf, inf},
		{"six are enough", []float64{6, 1, 5, 2, 4, 3}, 0.95, 3.5, 1, 6},
		{"six are too few for 99 %", []float64{6, 1, 5, 2, 4, 3}, 0.99, 3.5, -inf, inf},
		{"all the same", []float64{2, 2, 2, 2, 2, 2, 2, 2}, 0.95, 2, 2, 2},
		{"a spike hardly moves it", []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 1e3}, 0.90, 5.5, 3, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			centre, low, high := Estimate(c.x, c.confidence)
			if !near(centre, c.centre) || !near(low, c.low) || !near(high, c.high) {
				t.Errorf("got %v in (%v, %v), want %v in (%v, %v)", centre, low, high, c.centre, c.low, c.high)
			}
		})
	}
}

// TestEstimateMovesWithTheData: shifting and mirroring the data shifts and mirrors all three results.
func TestEstimateMovesWithTheData(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{6, 13, 40, 130} {
		x, moved, mirrored := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64()
			moved[i], mirrored[i] = x[i]+16, -x[i]
		}
		centre, low, high := Estimate(x, 0.95)
		c1, l1, h1 := Estimate(moved, 0.95)
		c2, l2, h2 := Estimate(mirrored, 0.95)
		if !near(c1, centre+16) || !near(l1, low+16) || !near(h1, high+16) {
			t.Errorf("n=%d: (%v, %v, %v) moved by 16 is (%v, %v, %v)", n, centre, low, high, c1, l1, h1)
		}
		if !near(c2, -centre) || !near(l2, -high) || !near(h2, -low) {
			t.Errorf("n=%d: (%v, %v, %v) mirrored is (%v, %v, %v)", n, centre, low, high, c2, l2, h2)
		}
		if !(low < centre && centre < high) {
			t.Errorf("n=%d: centre %v is not within (%v, %v)", n, centre, low, high)
		}
	}
}

// TestNormalApproximationTakesOver: where the exact distribution ends, the approximation agrees with it to a
// twentieth of the width.
func TestNormalApproximationTakesOver(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	x := make([]float64, exactRanks+1)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	_, lowExact, highExact := Estimate(x[:exactRanks], 0.95)
	_, low, high := Estimate(x, 0.95)
	if got, want := high-low, highExact-lowExact; math.Abs(got-want) > 0.05*want {
		t.Errorf("width %v with %d values, %v with one more", want, exactRanks, got)
	}
	total := 0
	for _, s := range scores(exactRanks) {
		total += s
	}
	exact := rejectedUpTo(scores(exactRanks), total, 0.025)
	squares := 0.0
	for _, s := range scores(exactRanks) {
		squares += float64(s * s)
	}
	if approximate := (float64(total) - 1.959964*math.Sqrt(squares)) / 2; math.Abs(float64(exact)-approximate) > 3 {
		t.Errorf("critical value %d exactly, %.1f by approximation", exact, approximate)
	}
}
