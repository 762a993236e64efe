package report

import (
	"strconv"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
)

// Report is what an experiment showed.
type Report struct {
	Board   *Board
	x       *replay.Experiment
	results replay.Results
}

// New makes a report of the results of an experiment, complete or not, that took so long.
func New(x *replay.Experiment, results replay.Results, took time.Duration) *Report {
	return &Report{Board: NewBoard(x, results, took), x: x, results: results}
}

// Figures are all plots: of all spaces, then of each.
func (r *Report) Figures() []Figure {
	figures := r.summary()
	for t := range r.x.Tables {
		figures = append(figures, r.ofSpace(t)...)
	}
	return figures
}

// summary are the plots of all spaces.
func (r *Report) summary() []Figure { return []Figure{r.heat(), r.overall()} }

// ofSpace are the plots of one space.
func (r *Report) ofSpace(t int) []Figure {
	figures := []Figure{r.byCount(t), r.byTime(t)}
	if landscape, ok := r.landscape(t); ok {
		figures = append(figures, landscape)
	}
	return figures
}

// shortFloat is a number with four digits that count.
func shortFloat(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }
