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
	Optimum, Median float64   // of the valid times
	MedianCost      float64   // of one evaluation, valid or not
	Start, End      float64   // the times between which a run is scored, in the unit of the costs
	best            []float64 // the valid times, ascending
	clock           []float64 // when a score is read
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
	s.clock = s.Clock(readings)
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

// Clock returns n equally spaced times from Start to End, at least two: what a score reads, more or less finely.
func (s *Space) Clock(n int) []float64 {
	times := make([]float64, n)
	for i := range times {
		times[i] = s.Start + (s.End-s.Start)*float64(i)/float64(n-1)
	}
	return times
}

// Best returns the least time that a run has found at each of these times, which ascend. Before the first, a run sits at
// the larger of baseline and median. The steps are in order of time.
func (s *Space) Best(run []Step, times []float64) []float64 {
	best := make([]float64, len(times))
	least, next := math.NaN(), 0
	for i, t := range times {
		for ; next < len(run) && run[next].At <= t; next++ {
			if found := run[next].Time; !(found >= least) && !math.IsNaN(found) {
				least = found
			}
		}
		best[i] = least
		if math.IsNaN(least) {
			best[i] = max(s.Baseline(t), s.Median)
		}
	}
	return best
}

// Gain returns P(t), how much of random search's distance to the optimum a best time saves at time t:
//
//	P(t) = (baseline(t) - best) / (baseline(t) - optimum)
//
// Where random search has reached the optimum itself there is nothing to win: false.
func (s *Space) Gain(best, t float64) (float64, bool) {
	baseline := s.Baseline(t)
	if baseline == s.Optimum {
		return 0, false
	}
	return (baseline - best) / (baseline - s.Optimum), true
}

// Score returns the mean of Gain over the readings of the clock; readings at which there is nothing to win are left out.
// 0 is random search, 1 knows the answer.
func (s *Space) Score(run []Step) float64 {
	sum, count := 0.0, 0
	best := s.Best(run, s.clock)
	for i, t := range s.clock {
		if p, ok := s.Gain(best[i], t); ok {
			sum += p
			count++
		}
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
