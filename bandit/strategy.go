package bandit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Strategy searches a space. What it knows is a function of what it was told, and of the questions still open; there
// is no other state to store: to resume, tell a new one the log. A Strategy is not safe for concurrent use.
type Strategy interface {
	// Ask returns at most n questions, all of different points, none of which is still open. None means that
	// nothing is left to learn, or, while questions are open, nothing until they are answered.
	Ask(n int) []Trial
	// Tell adds evidence, in any order. The same trial told twice is evidence twice. Trials that were never asked
	// for are welcome; those of points outside the space are ignored. It panics on a cost that is not positive
	// and finite, which is misuse: a failure is a Status.
	Tell(done ...Trial)
}

// Recommender is a Strategy that says what it would choose now. Every registered strategy is one.
type Recommender interface {
	// Recommend returns at most k measured points that never failed, best first: by the posterior of their cost,
	// which pulls a point with few samples towards what its relatives suggest, so that one lucky sample does not
	// win. Empty before the first success.
	Recommend(k int) []Point
}

// Options tell a strategy about the task. The zero value works.
type Options struct {
	// Seed is the only source of randomness: same seed and same answers, same questions.
	Seed uint64
	// Start holds points to ask first, in this order: the default, a heuristic, what a similar host learned.
	Start []Point
	// Budget is the number of samples that the caller expects to afford, 0 where unknown. It is a hint for
	// strategies that plan ahead; those of today can be stopped at any time and do not need it.
	Budget int
	// Samples is how many samples of a point are enough; it is not asked for again. If 0, 8. 1 says that a sample tells
	// the cost, as one that already sums up many does.
	Samples int
	// Margin is the relative difference in cost that is worth no further sample. If 0, 0.01.
	Margin float64
}

// registry has one row per strategy; each strategy's file adds its own from init.
var registry = map[string]func(*ledger) Strategy{}

func register(name string, build func(*ledger) Strategy) { registry[name] = build }

// Names returns the names of all strategies, sorted.
func Names() []string { return slices.Sorted(maps.Keys(registry)) }

// New returns the named strategy for a space. It fails where there is no such strategy, where a start point is not
// in the space, and where a number is negative.
func New(name string, s *Space, opt Options) (Strategy, error) {
	build, ok := registry[name]
	if !ok {
		return nil, fmt.Errorf("bandit: new strategy %q: want one of %s", name, strings.Join(Names(), ", "))
	}
	l, err := newLedger(s, opt)
	if err != nil {
		return nil, fmt.Errorf("bandit: new strategy %q: %w", name, err)
	}
	return build(l), nil
}
