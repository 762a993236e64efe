package main

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

// noise prints how far the tables themselves can be trusted.
func noise(out io.Writer, spaces []*replay.Samples, seeds int) error {
	fmt.Fprintln(out, "| space | points (failed) | samples a point | default / best | within 3 % / 10 % of the best | yardstick beside itself | a sample off its median | off by over 15 % | best of one half in the other |\n|---|---|---|---|---|---|---|---|---|")
	for _, s := range spaces {
		yardstick, err := s.Find(s.Yardstick)
		if err != nil {
			return err
		}
		standard, err := s.Find(s.Default)
		if err != nil {
			return err
		}
		failed, fewest, most, best, medians := 0, math.MaxInt, 0, math.Inf(1), make([]float64, len(s.Rows))
		for i, row := range s.Rows {
			if medians[i] = math.NaN(); row.Status != bandit.OK {
				failed++
				continue
			}
			fewest, most, medians[i] = min(fewest, len(row.Ratios)), max(most, len(row.Ratios)), tuner.Median(row.Ratios)
			best = min(best, medians[i])
		}
		within := func(share float64) (n int) {
			for _, m := range medians {
				if m <= best*(1+share) {
					n++
				}
			}
			return n
		}
		off := deviations(s, medians, 1.1*best)
		halves, err := halves(s, seeds)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "| %s | %d (%d) | %d to %d | %.2f | %d / %d | %.3f ± %.3f | %s | %s | %s / %s |\n", s.Name, len(s.Rows), failed, fewest, most,
			medians[standard]/best, within(near), within(0.1), medians[yardstick], spread(s.Rows[yardstick].Ratios),
			percent(off[len(off)/2]*sigma), percent(share(off, 0.15)), percent(quantile(halves, 0.5)), percent(quantile(halves, 0.9)))
	}
	return nil
}

// sigma makes the standard deviation of a median absolute deviation, of a normal distribution.
const sigma = 1.4826

// spread is the standard deviation of the centre of samples: robust, and as if they were normal.
func spread(samples []float64) float64 {
	var off []float64
	for _, x := range samples {
		off = append(off, math.Abs(x-tuner.Median(samples)))
	}
	return sigma * tuner.Median(off)
}

// deviations are how far samples of the good points lie from their medians, as a share, ascending.
func deviations(s *replay.Samples, medians []float64, limit float64) []float64 {
	var off []float64
	for i, row := range s.Rows {
		if medians[i] <= limit {
			for _, x := range row.Ratios {
				off = append(off, math.Abs(math.Log(x/medians[i])))
			}
		}
	}
	slices.Sort(off)
	return off
}

// share of ascending values that is above a limit.
func share(sorted []float64, limit float64) float64 {
	at, _ := slices.BinarySearch(sorted, limit)
	return 1 - float64(at)/float64(len(sorted))
}

// halves is by how much the point that one half of the samples calls the best is worse than the other half's best, for
// each split: what the table itself cannot tell.
func halves(s *replay.Samples, seeds int) ([]float64, error) {
	var list []float64
	for seed := range seeds {
		l, err := s.Live(uint64(seed))
		if err != nil {
			return nil, err
		}
		least, most := math.Inf(1), len(s.Rows[l.Best].Ratios)
		for i, t := range l.Truth {
			if !math.IsNaN(t) && 2*len(s.Rows[i].Ratios) >= most {
				least = min(least, t)
			}
		}
		list = append(list, l.Truth[l.Best]/least-1)
	}
	slices.Sort(list)
	return list, nil
}
