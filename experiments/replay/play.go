package replay

import (
	"context"
	"fmt"
	"math"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/experiments/score"
)

// Options are what a strategy is told in a replay: one sample is enough, for each recorded time sums up many.
func Options(seed uint64) bandit.Options { return bandit.Options{Seed: seed, Samples: 1} }

// Run lets a strategy search a table until its evaluations have cost a budget of milliseconds, or it asks nothing more.
// The clock is virtual: an evaluation takes as long as it took when it was recorded, and thinking takes no time.
func Run(ctx context.Context, t *Table, s bandit.Strategy, budget float64) ([]score.Step, error) {
	var steps []score.Step
	for clock := 0.0; clock <= budget; {
		if err := ctx.Err(); err != nil {
			return steps, err
		}
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

// Scored is a table, how searches of it are scored, and where their curves are read.
type Scored struct {
	*Table
	Score  *score.Space
	Counts []int     // numbers of evaluations, evenly on a logarithmic scale, as far as the clock of the score goes
	Clock  []float64 // times in milliseconds, evenly over the clock of the score
}

// readings is how often a curve is read: enough to draw it, and little to keep for thousands of runs.
const readings = 101

// Score prepares a table for scoring.
func Score(t *Table) (Scored, error) {
	scored, err := newScored(t)
	if err != nil {
		return Scored{}, fmt.Errorf("replay: table %s: %w", t.Name, err)
	}
	return scored, nil
}

func newScored(t *Table) (Scored, error) {
	s, err := score.New(t.times, t.costs)
	if err != nil {
		return Scored{}, err
	}
	return Scored{Table: t, Score: s, Counts: counts(min(s.End/s.MedianCost, float64(t.Space.Size()))), Clock: s.Clock(readings)}, nil
}

// counts returns whole numbers from 1 to last.
func counts(last float64) []int {
	list := []int{1}
	for i := range readings {
		if n := int(math.Round(math.Pow(last, float64(i)/(readings-1)))); n > list[len(list)-1] {
			list = append(list, n)
		}
	}
	return list
}

// Result is what a strategy made of a table with one seed. The zero value is that of a run which never ended.
type Result struct {
	Score      float64
	Steps      int
	Within5    int // evaluations until within 5 % of the optimum; 0 is never
	Within1    int
	FinalRatio float64 // best time over optimum; NaN where all failed
	// The best time so far over the optimum at each of Scored.Counts and of Scored.Clock. A run that has found nothing
	// sits at the larger of the median and what random search is expected to have.
	ByCount, ByTime []float32
}

// Play runs the named strategy once, as long as the score's clock runs.
func (s Scored) Play(ctx context.Context, strategy string, seed uint64) (Result, error) {
	search, err := bandit.New(strategy, s.Space, Options(seed))
	if err != nil {
		return Result{}, err
	}
	run, err := Run(ctx, s.Table, search, s.Score.End)
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
		ByCount:    s.byCount(run),
		ByTime:     s.ratios(s.Score.Best(run, s.Clock)),
	}, nil
}

// byCount reads a run as if every evaluation took the median cost.
func (s Scored) byCount(run []score.Step) []float32 {
	even := make([]score.Step, len(run))
	for i, step := range run {
		even[i] = score.Step{At: float64(i+1) * s.Score.MedianCost, Time: step.Time}
	}
	times := make([]float64, len(s.Counts))
	for i, n := range s.Counts {
		times[i] = float64(n) * s.Score.MedianCost
	}
	return s.ratios(s.Score.Best(even, times))
}

func (s Scored) ratios(best []float64) []float32 {
	ratios := make([]float32, len(best))
	for i, ms := range best {
		ratios[i] = float32(ms / s.Score.Optimum)
	}
	return ratios
}
