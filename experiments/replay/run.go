package replay

import (
	"fmt"
	"math"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/experiments/score"
)

// Options are what a strategy is told in a replay: one sample is enough, for each recorded time sums up many.
func Options(seed uint64) bandit.Options { return bandit.Options{Seed: seed, Samples: 1} }

// Run lets a strategy search a table until its evaluations have cost a budget of milliseconds, or it asks nothing more.
// The clock is virtual: an evaluation takes as long as it took when it was recorded, and thinking takes no time.
func Run(t *Table, s bandit.Strategy, budget float64) ([]score.Step, error) {
	var steps []score.Step
	for clock := 0.0; clock <= budget; {
		asks := s.Ask(1)
		if len(asks) == 0 {
			break
		}
		i, err := t.find(asks[0].Point)
		if err != nil {
			return steps, err
		}
		clock += t.costs[i]
		steps = append(steps, score.Step{At: clock, Time: t.times[i]})
		s.Tell(t.answer(asks[0].Point, i))
	}
	return steps, nil
}

// Scored is a table and how searches of it are scored.
type Scored struct {
	*Table
	Score *score.Space
}

// Score prepares a table for scoring.
func Score(t *Table) (Scored, error) {
	s, err := score.New(t.times, t.costs)
	if err != nil {
		return Scored{}, fmt.Errorf("replay: table %s: %w", t.Name, err)
	}
	return Scored{t, s}, nil
}

// Result is what a strategy made of a table with one seed.
type Result struct {
	Score      float64
	Steps      int
	Within5    int // evaluations until within 5 % of the optimum; 0 is never
	Within1    int
	FinalRatio float64 // best time over optimum; NaN where all failed
}

// Play runs the named strategy once, as long as the score's clock runs.
func (s Scored) Play(strategy string, seed uint64) (Result, error) {
	search, err := bandit.New(strategy, s.Space, Options(seed))
	if err != nil {
		return Result{}, err
	}
	run, err := Run(s.Table, search, s.Score.End)
	if err != nil {
		return Result{}, err
	}
	best := math.NaN()
	for _, step := range run {
		if !(step.Time >= best) && !math.IsNaN(step.Time) {
			best = step.Time
		}
	}
	return Result{
		Score: s.Score.Score(run), Steps: len(run), Within5: s.Score.Within(run, 0.05), Within1: s.Score.Within(run, 0.01),
		FinalRatio: best / s.Score.Optimum,
	}, nil
}
