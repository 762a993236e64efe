package score_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bitnet-autotune/bitnet-autotune/experiments/score"
)

var nan = math.NaN()

// nine has the valid times 1 to 9, a failure, and evaluations of 2 units.
func nine(t *testing.T) *score.Space {
	t.Helper()
	s, err := score.New([]float64{9, 2, 7, nan, 4, 5, 6, 3, 8, 1}, []float64{2, 2, 2, 2, 2, 2, 2, 2, 2, 2})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// By hand: N = 9, so that m draws find the time at place round(10 m / (m+1)) from the worst:
//
//	m      1  2  3  4  5  6  7  8  9  18  19
//	place  5  7  8  8  8  9  9  9  9   9  10 -> 9
//	time   5  3  2  2  2  1 …
//
// of which 10·1/2 = 5, 10·2/3 = 6.67 -> 7, 7.5 -> 8 (half to even), 8, 8.33, 8.57 -> 9. The median is 5 and the optimum
// 1. The clock starts when random search is at 5 - 0.01·4 = 4.96 or below: 2 draws, 4 units. It stops at 5 - 0.95·4 =
// 1.2: 6 draws, 12 units.
func TestSpaceOfNine(t *testing.T) {
	s := nine(t)
	want := &score.Space{Optimum: 1, Median: 5, MedianCost: 2, Start: 4, End: 12}
	if diff := cmp.Diff(want, s, cmpopts.IgnoreUnexported(score.Space{})); diff != "" {
		t.Errorf("space (-want +got):\n%s", diff)
	}
	for _, c := range []struct{ at, want float64 }{{0, 9}, {2, 5}, {4, 3}, {6, 2}, {10, 2}, {12, 1}, {1000, 1}} {
		if got := s.Baseline(c.at); got != c.want {
			t.Errorf("Baseline(%v) = %v; want %v", c.at, got, c.want)
		}
	}
}

// The clock reads 4 + 8i/999. With m = t/2 the baseline is 3 while 10m/(m+1) <= 7.5 - rounding half to even makes 7.5 an
// 8, so below 7.5: m < 3, t < 6, which is i <= 249 (4 + 8·249/999 = 5.994): 250 readings. It is 2 up to 10m/(m+1) = 8.5,
// which goes to 8: m <= 17/3, t <= 34/3, which is i <= 915 (11.327): 666 readings. Then it is 1, the optimum, and the
// last 84 readings are left out.
func TestScoreByHand(t *testing.T) {
	const early, late = 250, 666
	s := nine(t)
	for _, c := range []struct {
		name string
		run  []score.Step
		want float64
	}{
		// P = (3-1)/(3-1) = 1 and (2-1)/(2-1) = 1.
		{"knows the answer", []score.Step{{1, 1}}, 1},
		// P = (3-3)/2 = 0 and (2-3)/1 = -1.
		{"third best", []score.Step{{1, 3}}, -late / float64(early+late)},
		// The run sits at the median, 5: P = (3-5)/2 = -1 and (2-5)/1 = -3.
		{"nothing", nil, -(early + 3*late) / float64(early+late)},
		{"failures only", []score.Step{{1, nan}, {3, nan}}, -(early + 3*late) / float64(early+late)},
		// From the median to the optimum at t = 6, where the baseline changes, too: P = -1, then 1.
		{"late", []score.Step{{2, nan}, {6, 1}, {7, 9}}, (late - early) / float64(early+late)},
		{"too late", []score.Step{{12.5, 1}}, -(early + 3*late) / float64(early+late)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := s.Score(c.run); math.Abs(got-c.want) > 1e-12 {
				t.Errorf("Score = %v; want %v", got, c.want)
			}
		})
	}
}

func TestWithin(t *testing.T) {
	s := nine(t)
	run := []score.Step{{1, nan}, {2, 4}, {3, 2}, {4, 1}, {5, 1}}
	for share, want := range map[float64]int{3: 2, 1: 3, 0.05: 4} {
		if got := s.Within(run, share); got != want {
			t.Errorf("Within(%v) = %d; want %d", share, got, want)
		}
	}
	if got := s.Within(run[:3], 0.05); got != 0 {
		t.Errorf("Within = %d of a run that never came near; want 0", got)
	}
}

// With two equal times random search knows the answer at once.
func TestNothingToWin(t *testing.T) {
	s, err := score.New([]float64{3, 3}, []float64{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Score([]score.Step{{1, 3}}); got != 0 {
		t.Errorf("Score = %v; want 0", got)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		times, costs []float64
		want         string
	}{
		"all failed": {[]float64{nan}, []float64{1}, "no valid time"},
		"free":       {[]float64{1}, []float64{0}, "cost nothing"},
		"unpaired":   {[]float64{1}, nil, "1 times and 0 costs"},
		"empty":      {nil, nil, "no valid time"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := score.New(c.times, c.costs); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want %q in it", err, c.want)
			}
		})
	}
}
