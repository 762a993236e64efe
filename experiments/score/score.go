package score

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// The share of the way from the median to the optimum at which the clock of a score starts and stops, and how often it
// is read in between.
const (
	startShare, endShare = 0.01, 0.95
	readings             = 1000
)

// Space is what a score needs to know of a space: what random search makes of it.
type Space struct {
	Optimum, Median float64 // of the valid times
	MedianCost      float64 // of one evaluation, valid or not
	Start, End      float64 // the times between which a run is scored, in the unit of the costs
	best            []float64
}

// New measures a space by the time and the cost of each of its points. A failed point has the time NaN and a cost all
// the same.
func New(times, costs []float64) (*Space, error) {
	if len(times) != len(costs) {
		return nil, fmt.Errorf("score: %d times and %d costs; want one of each for every point", len(times), len(costs))
	}
	s := &Space{MedianCost: median(slices.Sorted(slices.Values(costs)))}
	for _, t := range times {
		if !math.IsNaN(t) {
			s.best = append(s.best, t)
		}
	}
	if len(s.best) == 0 || !(s.MedianCost > 0) {
		return nil, errors.New("score: no valid time, or evaluations that cost nothing: there is nothing to score")
	}
	slices.Sort(s.best)
	s.Optimum, s.Median = s.best[0], median(s.best)
	s.Start, s.End = s.reach(startShare), s.reach(endShare)
	return s, nil
}

// median returns the middle of ascending values, NaN of none.
func median(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// expected returns the expected best of m random draws, where m need not be whole: the order statistic at
// round(m (N+1) / (m+1)) from the worst of N.
func (s *Space) expected(m float64) float64 {
	n := len(s.best)
	place := int(math.RoundToEven(m * float64(n+1) / (m + 1)))
	return s.best[n-min(max(place, 1), n)]
}

// reach returns the time after which random search has gone this share of the way from the median to the optimum.
func (s *Space) reach(share float64) float64 {
	goal := s.Median - share*(s.Median-s.Optimum)
	low, high := 0, 1
	for s.expected(float64(high)) > goal {
		low, high = high, 2*high
	}
	for low+1 < high {
		if m := (low + high) / 2; s.expected(float64(m)) > goal {
			low = m
		} else {
			high = m
		}
	}
	return float64(high) * s.MedianCost
}

// Baseline returns the expected best of random search at a time.
func (s *Space) Baseline(at float64) float64 { return s.expected(at / s.MedianCost) }

// Step is one evaluation of a run: when it ended, on the run's own clock, and the time it found, NaN where it failed.
type Step struct{ At, Time float64 }

// Score returns the mean of P over the readings of the clock,
//
//	P(t) = (baseline(t) - best(t)) / (baseline(t) - optimum)
//
// where best is the least time found so far, and, before the first, the larger of baseline and median. 0 is random
// search, 1 knows the answer. Where random search has reached the optimum itself, there is nothing to win, and the
// reading is left out. The steps are in order of time.
func (s *Space) Score(run []Step) float64 {
	sum, count := 0.0, 0
	best, next := math.NaN(), 0
	for i := range readings {
		t := s.Start + (s.End-s.Start)*float64(i)/(readings-1)
		for ; next < len(run) && run[next].At <= t; next++ {
			if found := run[next].Time; !(found >= best) && !math.IsNaN(found) {
				best = found
			}
		}
		baseline := s.Baseline(t)
		if baseline == s.Optimum {
			continue
		}
		sits := best
		if math.IsNaN(best) {
			sits = max(baseline, s.Median)
		}
		sum += (baseline - sits) / (baseline - s.Optimum)
		count++
	}
	if count == 0 {
		return 0
	}
	return sum / float64(count)
}

// Within returns after how many evaluations a run first came within a share of the optimum: 0.05 is 5 %. 0 is never.
func (s *Space) Within(run []Step, share float64) int {
	return 1 + slices.IndexFunc(run, func(step Step) bool { return step.Time <= s.Optimum*(1+share) })
}
