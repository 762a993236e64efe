package main

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// pipeline is a way from a budget of runs to one configuration. All of them begin with the default.
type pipeline struct {
	name   string
	choose func(h *host, seed uint64, standard, budget int) (choice int, err error)
}

// usualRepeats is how often Kernel Tuner runs a configuration unless told otherwise.
const usualRepeats = 7

var pipelines = []pipeline{
	{"lucky minimum: one run each, the least", once(1, slices.Min[[]float64])},
	{"minimum of 7 runs each, the least", once(usualRepeats, slices.Min[[]float64])},
	{"median of 7 runs each, the least", once(usualRepeats, tuner.Median)},
	{"racing with one run a question", raced("bayes", single)},
	{"racing with one run a question, then a duel", duelled("bayes", single)},
	{"racing with paired blocks", raced("bayes", paired)},
	{"racing with paired blocks, then a duel", duelled("bayes", paired)},
	{"successive halving with paired blocks, then a duel", duelled("halving", paired)},
}

// named returns the ways whose names begin with one of the parts, which have commas between.
func named(parts string) []pipeline {
	var list []pipeline
	for _, way := range pipelines {
		if slices.ContainsFunc(strings.Split(parts, ","), func(part string) bool { return strings.HasPrefix(way.name, part) }) {
			list = append(list, way)
		}
	}
	return list
}

// once lets auto search where every point is measured once, in so many runs, and believes what centre makes of them.
func once(repeats int, centre func([]float64) float64) func(*host, uint64, int, int) (int, error) {
	return func(h *host, seed uint64, standard, budget int) (int, error) {
		search, err := bandit.New("auto", h.table.Space, bandit.Options{
			Seed: seed, Start: []bandit.Point{h.table.Space.At(standard)}, Budget: budget / repeats, Samples: 1,
		})
		if err != nil {
			return 0, err
		}
		best, least := standard, math.Inf(1)
		for h.runs+repeats <= budget {
			asks := search.Ask(1)
			if len(asks) == 0 {
				break
			}
			i, _ := h.table.Space.Index(asks[0].Point)
			done := bandit.Trial{Point: asks[0].Point}
			if status, failed := h.fails(i); failed {
				done.Status = status
			} else {
				runs := make([]float64, repeats)
				for r := range runs {
					runs[r] = h.run(i)
				}
				done.Costs = []float64{centre(runs)}
				if done.Costs[0] < least {
					best, least = i, done.Costs[0]
				}
			}
			search.Tell(done)
		}
		return best, nil
	}
}

// race is a search that repeats where it matters.
type race struct {
	*host
	standard int
	timer    *measure.Timer
	search   bandit.Strategy
	pairs    map[int]*measure.Pair
}

// answer is how a race measures a point that does not fail.
type answer struct {
	cost     func(r *race, i int) (float64, error) // in a unit that is the same for all
	relative bool                                  // to the default, which then costs 1
}

var (
	single = answer{cost: runOnce}
	paired = answer{cost: compareOnce, relative: true}
)

// newRace lets a strategy search until the host has made so many runs.
func newRace(strategy string, by answer, h *host, seed uint64, standard, runs int) (*race, error) {
	search, err := bandit.New(strategy, h.table.Space, bandit.Options{Seed: seed, Start: []bandit.Point{h.table.Space.At(standard)}, Budget: runs})
	if err != nil {
		return nil, err
	}
	// A sample is one run; a subject is warmed with the fewest.
	r := &race{h, standard, &measure.Timer{MinSample: 1, WarmTime: 1, WarmRounds: 1, Rand: h.dice}, search, map[int]*measure.Pair{}}
	if by.relative {
		search.Tell(bandit.Trial{Point: h.table.Space.At(standard), Costs: []float64{1, 1, 1, 1}})
	}
	for h.runs < runs {
		asks := search.Ask(1)
		if len(asks) == 0 {
			break
		}
		for range max(1, asks[0].Want) {
			done, err := r.evaluate(asks[0].Point, by)
			if err != nil {
				return nil, err
			}
			search.Tell(done)
			if done.Status != bandit.OK {
				break
			}
		}
	}
	return r, nil
}

func (r *race) evaluate(p bandit.Point, by answer) (bandit.Trial, error) {
	i, _ := r.table.Space.Index(p)
	if status, failed := r.fails(i); failed {
		return bandit.Trial{Point: p, Status: status}, nil
	}
	cost, err := by.cost(r, i)
	return bandit.Trial{Point: p, Costs: []float64{cost}}, err
}

func runOnce(r *race, i int) (float64, error) { return r.run(i), nil }

// compareOnce compares a point with the default in one block more, as package tuner does.
func compareOnce(r *race, i int) (float64, error) {
	if r.pairs[i] == nil {
		r.pairs[i] = r.timer.Pair(r.subject(r.standard), r.subject(i))
	}
	if err := r.pairs[i].Block(context.Background()); err != nil {
		return 0, err
	}
	ratios := r.pairs[i].Result().LogRatios
	return math.Exp(-ratios[len(ratios)-1]), nil
}

// recommended are the measured points by the strategy's posterior, best first.
func (r *race) recommended() []int {
	var list []int
	for _, p := range r.search.(bandit.Recommender).Recommend(r.table.Space.Size()) {
		i, _ := r.table.Space.Index(p)
		list = append(list, i)
	}
	return list
}

// raced spends all runs on the search and believes the strategy.
func raced(strategy string, by answer) func(*host, uint64, int, int) (int, error) {
	return func(h *host, seed uint64, standard, budget int) (int, error) {
		r, err := newRace(strategy, by, h, seed, standard, budget)
		if err != nil {
			return 0, err
		}
		return r.recommended()[0], nil
	}
}

// The rules of the duel are those of package tuner.
const (
	duelShare      = 0.4 // of the budget
	duelConfidence = 0.99
	minGain        = 0.01
	finalists      = 3
	leastBlocks    = 10
	mostLooks      = 8
	blockRuns      = 4
)

// duelled keeps two fifths of the runs for a duel of the finalists with the default, whose place only a proven gain takes.
func duelled(strategy string, by answer) func(*host, uint64, int, int) (int, error) {
	return func(h *host, seed uint64, standard, budget int) (int, error) {
		r, err := newRace(strategy, by, h, seed, standard, int((1-duelShare)*float64(budget)))
		if err != nil {
			return 0, err
		}
		decision := leastBlocks * blockRuns * 5 / 4
		ranked := slices.DeleteFunc(r.recommended(), func(i int) bool { return i == standard })
		ranked = ranked[:min(len(ranked), finalists, max(1, (budget-h.runs)/decision))]
		best, fastest := standard, measure.Comparison{}
		for n, i := range ranked {
			share := (budget - h.runs) / (len(ranked) - n)
			blocks := max(share/blockRuns, leastBlocks)
			c, err := r.timer.Compare(context.Background(), h.subject(standard), h.subject(i), measure.CompareOptions{
				Blocks: blocks, Looks: min(mostLooks, blocks/leastBlocks), MinGain: minGain,
				Confidence: 1 - (1-duelConfidence)/float64(len(ranked)),
			})
			if err != nil {
				return 0, err
			}
			// One that the duel cannot tell from the fastest is as good: then the strategy's order decides.
			if measure.Decide(c, minGain, 0) == measure.Adopt && c.Low > fastest.Ratio {
				best, fastest = i, c
			}
		}
		return best, nil
	}
}
