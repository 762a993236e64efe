package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestBoundariesPublished: the boundary of Lan & DeMets' O'Brien-Fleming-type spending, five equal looks, two-sided
// 0.05, as tabulated in the group-sequential literature.
func TestBoundariesPublished(t *testing.T) {
	z := normalQuantile(1 - 0.025/2) // 0.025 on either side
	obrienFleming := func(t float64) float64 { return 4 * normalTail(z/math.Sqrt(t)) }
	want := []float64{4.8769, 3.3569, 2.6803, 2.2898, 2.0310}
	got := boundaries([]float64{0.2, 0.4, 0.6, 0.8, 1}, obrienFleming)
	for i := range want {
		if math.Abs(got[i]-want[i]) > 2e-4 {
			t.Errorf("look %d: %.4f, want %.4f", i+1, got[i], want[i])
		}
	}
}

// TestOneLookIsTheOrdinaryTest: a plan of one look costs nothing.
func TestOneLookIsTheOrdinaryTest(t *testing.T) {
	if got := (plan{blocks: 40, looks: 1, confidence: 0.95}).levels(); math.Abs(got[0]-0.95) > 1e-9 {
		t.Errorf("level %v, want 0.95", got[0])
	}
}

// TestLooksTogetherKeepTheLevel walks random paths over the default plan.
func TestLooksTogetherKeepTheLevel(t *testing.T) {
	const paths, alpha = 200_000, 0.05
	p := plan{blocks: 40, looks: 4, confidence: 1 - alpha}
	levels := p.levels()
	r := rand.New(rand.NewPCG(5, 6))
	crossed := 0
	for range paths {
		b := 0.0
		for i, level := range levels {
			b += r.NormFloat64() * math.Sqrt(float64(p.at(i)-p.before(i)))
			if math.Abs(b)/math.Sqrt(float64(p.at(i))) > normalQuantile((1+level)/2) {
				crossed++
				break
			}
		}
	}
	// 5 sigma: 6e-7 per run with other seeds.
	if got := float64(crossed) / paths; math.Abs(got-alpha) > 5*math.Sqrt(alpha*(1-alpha)/paths) {
		t.Errorf("%.4f of the paths cross, want %.4f", got, alpha)
	}
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name string
		opt  CompareOptions
		want plan
	}{
		{"zero value", CompareOptions{}, plan{40, 4, 0.95}},
		{"few blocks have one look", CompareOptions{Blocks: 9}, plan{9, 1, 0.95}},
		{"more looks than blocks", CompareOptions{Blocks: 20, Looks: 100}, plan{20, 4, 0.95}},
		{"negative blocks", CompareOptions{Blocks: -3, Confidence: 0.99}, plan{1, 1, 0.99}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.opt.plan(); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
