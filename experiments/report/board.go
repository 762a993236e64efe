package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
)

// Board says how good each strategy was, best first.
type Board struct {
	Spaces         []Space    `json:"spaces"`
	Strategies     []Strategy `json:"strategies"`
	Seeds          int        `json:"seeds"`
	Seed           uint64     `json:"seed"` // the first; the others follow
	Runs           int        `json:"runs"` // that ended
	RunsPlanned    int        `json:"runs_planned"`
	Interrupted    bool       `json:"interrupted"`
	ElapsedSeconds float64    `json:"elapsed_seconds"`
}

// Space is what is known of a recorded space.
type Space struct {
	Name              string  `json:"name"`
	Parameters        int     `json:"parameters"` // that vary
	Points            int     `json:"points"`
	Failed            int     `json:"failed"`
	Torn              bool    `json:"torn"` // the file ended early
	OptimumMs         float64 `json:"optimum_ms"`
	MedianMs          float64 `json:"median_ms"`
	MedianCostSeconds float64 `json:"median_cost_seconds"` // of one evaluation
	StartSeconds      float64 `json:"start_seconds"`       // when the clock of the score starts
	BudgetSeconds     float64 `json:"budget_seconds"`      // and when it stops
	BudgetEvaluations float64 `json:"budget_evaluations"`  // of median cost
}

// Strategy is a row of the board.
type Strategy struct {
	Name          string           `json:"name"`
	Score         Score            `json:"score"`
	StandardError Score            `json:"score_standard_error"` // from seed to seed; the spaces are what they are
	WorstSpace    string           `json:"worst_space"`
	WorstScore    Score            `json:"worst_score"`
	ScoreBySpace  map[string]Score `json:"score_by_space"`
	// Of all runs, and of those on each space: the median number of evaluations until near the optimum.
	Within5        Count            `json:"evaluations_to_within_5_percent"`
	Within1        Count            `json:"evaluations_to_within_1_percent"`
	Within5BySpace map[string]Count `json:"evaluations_to_within_5_percent_by_space"`
	Within1BySpace map[string]Count `json:"evaluations_to_within_1_percent_by_space"`
	RunsBySpace    map[string]int   `json:"runs_by_space"`

	series int // the place in the experiment, which chooses the colour
}

// Colour is the number of the strategy's colour.
func (s Strategy) Colour() int { return s.series % len(okabeIto) }

// Score is a score of which nothing is known where it is NaN: null in JSON.
type Score float64

// MarshalJSON implements json.Marshaler.
func (s Score) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(s)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(s))
}

// String is the score with two digits, or a dash.
func (s Score) String() string {
	if math.IsNaN(float64(s)) {
		return none
	}
	return fmt.Sprintf("%.2f", float64(s))
}

// Count is a number of evaluations; 0 is never, null in JSON.
type Count int

// MarshalJSON implements json.Marshaler.
func (c Count) MarshalJSON() ([]byte, error) {
	if c == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(int(c))
}

// String is the number, or a dash.
func (c Count) String() string {
	if c == 0 {
		return none
	}
	return fmt.Sprint(int(c))
}

// none stands for what is not known, or never was.
const none = "–"

// NewBoard sums up the results of an experiment, complete or not, that took so long.
func NewBoard(x *replay.Experiment, results replay.Results, took time.Duration) *Board {
	b := &Board{Seeds: x.Seeds, Seed: x.First, RunsPlanned: len(x.Strategies) * len(x.Tables) * x.Seeds, ElapsedSeconds: took.Seconds()}
	for _, t := range x.Tables {
		b.Spaces = append(b.Spaces, newSpace(t))
	}
	for s := range x.Strategies {
		row := newStrategy(x, results, s)
		for _, runs := range row.RunsBySpace {
			b.Runs += runs
		}
		b.Strategies = append(b.Strategies, row)
	}
	b.Interrupted = b.Runs < b.RunsPlanned
	slices.SortStableFunc(b.Strategies, func(p, q Strategy) int { return cmp.Compare(q.Score, p.Score) }) // NaN last
	return b
}

func newSpace(t replay.Scored) Space {
	varies := 0
	for _, knob := range t.Space.Knobs() {
		if len(knob.Values) > 1 {
			varies++
		}
	}
	return Space{
		Name: t.Name, Parameters: varies, Points: t.Space.Size(), Failed: t.Failed(), Torn: t.Torn,
		OptimumMs: t.Score.Optimum, MedianMs: t.Score.Median, MedianCostSeconds: t.Score.MedianCost / 1000,
		StartSeconds: t.Score.Start / 1000, BudgetSeconds: t.Score.End / 1000, BudgetEvaluations: t.Score.End / t.Score.MedianCost,
	}
}

func newStrategy(x *replay.Experiment, results replay.Results, s int) Strategy {
	row := Strategy{
		Name: x.Strategies[s], WorstScore: Score(math.NaN()), series: s,
		ScoreBySpace: map[string]Score{}, Within5BySpace: map[string]Count{}, Within1BySpace: map[string]Count{}, RunsBySpace: map[string]int{},
	}
	var all []replay.Result
	sum, variance := 0.0, 0.0
	for t, table := range x.Tables {
		runs := results.Complete(s, t)
		mean := results.Mean(s, t)
		all = append(all, runs...)
		sum, variance = sum+mean, variance+varianceOfMean(runs, mean)
		row.ScoreBySpace[table.Name], row.RunsBySpace[table.Name] = Score(mean), len(runs)
		row.Within5BySpace[table.Name], row.Within1BySpace[table.Name] = near(runs)
		if !(float64(row.WorstScore) <= mean) && !math.IsNaN(mean) {
			row.WorstSpace, row.WorstScore = table.Name, Score(mean)
		}
	}
	n := float64(len(x.Tables))
	row.Score, row.StandardError = Score(sum/n), Score(math.Sqrt(variance)/n)
	row.Within5, row.Within1 = near(all)
	return row
}

// varianceOfMean is that of the mean score; NaN of fewer than two runs.
func varianceOfMean(runs []replay.Result, mean float64) float64 {
	sum := 0.0
	for _, r := range runs {
		sum += (r.Score - mean) * (r.Score - mean)
	}
	n := float64(len(runs))
	if n < 2 {
		return math.NaN()
	}
	return sum / (n - 1) / n
}

// near is the median number of evaluations until within 5 % and 1 % of the optimum; 0 where half of the runs never were.
func near(runs []replay.Result) (within5, within1 Count) {
	var five, one []int
	for _, r := range runs {
		five, one = append(five, r.Within5), append(one, r.Within1)
	}
	return medianCount(five), medianCount(one)
}

// medianCount is the upper median of counts of which 0 is never, and so the largest.
func medianCount(counts []int) Count {
	if len(counts) == 0 {
		return 0
	}
	slices.SortFunc(counts, func(a, b int) int { return cmp.Compare(uint(a)-1, uint(b)-1) })
	return Count(counts[len(counts)/2])
}

// Missing says which part of the runs did not end; "" where none is missing.
func (b *Board) Missing() string {
	if !b.Interrupted {
		return ""
	}
	return fmt.Sprintf("interrupted: %d of %d runs ended, %.0f %% are missing; a mean is of the runs that ended, a dash where none did",
		b.Runs, b.RunsPlanned, 100*float64(b.RunsPlanned-b.Runs)/float64(b.RunsPlanned))
}
