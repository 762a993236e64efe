package measure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Timer measures subjects. The zero value works on a real machine, without censoring; one with Watch set to Local()
// censors too. Its fields are set before its first use. It is not safe for concurrent use: two measurements at once
// would measure each other. A subject's Name stands for it: of two subjects with one name the second is not warmed,
// unless the name is empty.
type Timer struct {
	// MinSample is the least time of one sample: iterations are doubled until it is reached. If 0, 1 ms.
	MinSample time.Duration
	// WarmTime caps the warming of one subject, by the subject's own clock; one whose samples are longer is never seen
	// steady. If 0, 500 ms.
	WarmTime time.Duration
	// WarmRounds caps the rounds of warming, the first of 3 samples and 20 ms and each twice the last. If 0, 10.
	WarmRounds int
	// Watch says which samples to censor. If nil, none is.
	Watch Watcher
	// MaxSteal is the share of CPU time stolen above which a sample is censored. If 0, 0.05.
	MaxSteal float64
	// Rand decides the order within each block; it must know nothing of the noise. If nil, a PCG of seed 0 is used.
	Rand rand.Source

	readied map[string]Ready
	guard   *guard
	order   *rand.Rand
}

// attempts is how often a block, or a sample of Measure, is tried before it is given up as censored.
const attempts = 4

// run does n iterations of s and returns how long they took.
func (t *Timer) run(ctx context.Context, s Subject, n int) (time.Duration, error) {
	err := ctx.Err()
	if err != nil {
		return 0, fmt.Errorf("measure: run %s: %w", s.Name, err)
	}
	took, err := s.Run(ctx, n)
	if err != nil {
		return 0, fmt.Errorf("measure: run %s: %w", s.Name, err)
	}
	if took < 0 {
		return 0, fmt.Errorf("measure: run %s: took %v, want a time that is not negative", s.Name, took)
	}
	return took, nil
}

// sample returns the cost of one sample of s in ns per unit, and whether the host disturbed it since the last sample
// or mark of the guard.
func (t *Timer) sample(ctx context.Context, s Subject, n int) (cost float64, disturbed bool, err error) {
	took, err := t.run(ctx, s, n)
	if err != nil {
		return 0, false, err
	}
	if took == 0 {
		return 0, false, fmt.Errorf("measure: run %s: %d iterations took no time", s.Name, n)
	}
	return s.cost(took, n), t.watch().disturbed(), nil
}

func (t *Timer) minSample() time.Duration { return orDefault(t.MinSample, time.Millisecond) }

// watch returns the guard over this timer's samples.
func (t *Timer) watch() *guard {
	if t.guard == nil {
		t.guard = &guard{watcher: t.Watch, maxSteal: orDefault(t.MaxSteal, 0.05)}
	}
	return t.guard
}

// baseFirst flips the coin that orders a block.
func (t *Timer) baseFirst() bool {
	if t.order == nil {
		t.order = rand.New(orDefault[rand.Source](t.Rand, rand.NewPCG(0, 0)))
	}
	return t.order.Uint64()>>63 == 0
}

// orDefault is v, or def where v is zero.
func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
