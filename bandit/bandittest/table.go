package bandittest

import (
	"math"
	"math/rand/v2"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
)

// Table is a space whose true costs are known, so that a search of it can be judged.
type Table struct {
	Name  string
	Space *bandit.Space
	// Cost holds the true cost of every point by number. 0 stands for a point that fails.
	Cost []float64
	// Noise is the standard deviation of the logarithm of one sample.
	Noise float64
	// Start holds what a caller would know beforehand.
	Start []bandit.Point
}

// Optimum returns the least true cost.
func (t *Table) Optimum() float64 {
	best := math.Inf(1)
	for _, c := range t.Cost {
		if c > 0 {
			best = min(best, c)
		}
	}
	return best
}

// Regret returns how much dearer p is than the optimum, relative to it: 0.05 is 5 %.
func (t *Table) Regret(p bandit.Point) float64 {
	i, _ := t.Space.Index(p)
	return t.Cost[i]/t.Optimum() - 1
}

// Run answers a trial as a measurement would: a failure, or Want noisy samples. One sample in 16 is bad by 10 to 60 %
// in either direction, as on a shared host.
func (t *Table) Run(ask bandit.Trial, dice *rand.Rand) bandit.Trial {
	i, ok := t.Space.Index(ask.Point)
	if !ok {
		panic("bandittest: point is not in the space")
	}
	if t.Cost[i] == 0 {
		ask.Status = bandit.OutOfMemory
		return ask
	}
	for range ask.Want {
		e := dice.NormFloat64() * t.Noise
		if t.Noise > 0 && dice.IntN(16) == 0 {
			e += (0.1 + 0.4*dice.Float64()) * math.Copysign(1, dice.Float64()-0.5)
		}
		ask.Costs = append(ask.Costs, t.Cost[i]*math.Exp(e))
	}
	return ask
}

// Regrets runs a strategy on a table and returns the regret of its recommendation after each number of samples,
// ascending. A trial costs its samples, a failed one costs one. No recommendation counts as a regret of 9.
func Regrets(s bandit.Strategy, table *Table, seed uint64, samples []int) []float64 {
	dice := rand.New(rand.NewPCG(seed, 2))
	regrets := make([]float64, len(samples))
	used := 0
	for i, limit := range samples {
		for used < limit {
			asks := s.Ask(1)
			if len(asks) == 0 {
				break
			}
			asks[0].Want = min(asks[0].Want, limit-used)
			used += max(1, asks[0].Want)
			s.Tell(table.Run(asks[0], dice))
		}
		regrets[i] = 9
		if best := s.(bandit.Recommender).Recommend(1); len(best) > 0 {
			regrets[i] = table.Regret(best[0])
		}
	}
	return regrets
}
