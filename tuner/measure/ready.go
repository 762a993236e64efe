package measure

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// Ready is what warming up found out about a subject.
type Ready struct {
	Iterations int           // per sample, so that a sample lasts at least Timer.MinSample
	Rounds     int           // how many rounds of samples it took
	Elapsed    time.Duration // the subject's own time spent
	Steady     bool          // the last round was less than 5 % faster than the one before
}

// A round of warming up is the median of at least roundSamples samples over at least roundTime, and each round is twice
// as long as the one before, so that slow warming shows as well as quick; a subject is steady when a round is less than
// steadyGain faster than the one before. Fixed counts do not do: how much warming a program needs differs widely, and
// many never reach a steady state (Barrett et al., "Virtual machine warmup blows hot and cold", OOPSLA 2017).
const (
	roundSamples = 3
	roundTime    = 20 * time.Millisecond
	steadyGain   = 0.05
)

// maxIterations bounds the doubling for a subject that takes no time.
const maxIterations = 1 << 40

// Warm runs s until it is steady and finds how many iterations make one sample, within WarmTime and WarmRounds.
// A subject that is never seen steady is no error: its Ready says so, and so will the Warnings of what is measured.
// Measure and Compare warm by themselves the first time they meet a subject's name; Warm does it again.
func (t *Timer) Warm(ctx context.Context, s Subject) (Ready, error) {
	ready := Ready{Iterations: 1}
	limit := orDefault(t.WarmTime, 500*time.Millisecond)
	took, err := t.lengthen(ctx, s, &ready, limit)
	before := math.Inf(1)
	if took >= roundTime { // long enough to stand for a round
		before = s.cost(took, ready.Iterations)
	}
	for err == nil && !ready.Steady && ready.Elapsed < limit && ready.Rounds < orDefault(t.WarmRounds, 10) {
		if took, err = t.round(ctx, s, &ready, limit); err != nil {
			break
		}
		cost := s.cost(took, ready.Iterations)
		ready.Steady = cost > before*(1-steadyGain)
		before = cost
		for ; took > 0 && took < t.minSample(); took *= 2 {
			ready.Iterations *= 2
		}
	}
	if err != nil {
		return ready, err
	}
	if s.Name != "" {
		if t.readied == nil {
			t.readied = make(map[string]Ready)
		}
		t.readied[s.Name] = ready
	}
	return ready, nil
}

// lengthen doubles the iterations until one sample lasts MinSample, and returns how long it took.
func (t *Timer) lengthen(ctx context.Context, s Subject, ready *Ready, limit time.Duration) (time.Duration, error) {
	for {
		if _, err := Rest(ctx); err != nil {
			return 0, err
		}
		took, err := t.run(ctx, s, ready.Iterations)
		if err != nil {
			return 0, err
		}
		ready.Elapsed += took
		if took >= t.minSample() || ready.Elapsed >= limit {
			return took, nil
		}
		if ready.Iterations >= maxIterations {
			return 0, fmt.Errorf("measure: warm %s: %d iterations took %v: want work that takes time", s.Name, ready.Iterations, took)
		}
		ready.Iterations *= 2
	}
}

// round takes the samples of one round and returns their median time.
func (t *Timer) round(ctx context.Context, s Subject, ready *Ready, limit time.Duration) (time.Duration, error) {
	end := min(ready.Elapsed+roundTime<<ready.Rounds, limit)
	var samples []time.Duration
	for len(samples) < roundSamples || ready.Elapsed < end {
		if _, err := Rest(ctx); err != nil {
			return 0, err
		}
		took, err := t.run(ctx, s, ready.Iterations)
		if err != nil {
			return 0, err
		}
		samples = append(samples, took)
		ready.Elapsed += took
	}
	ready.Rounds++
	slices.Sort(samples)
	return samples[len(samples)/2], nil
}

// ready returns what is known of s, warming it at the first meeting.
func (t *Timer) ready(ctx context.Context, s Subject) (Ready, error) {
	if known, ok := t.readied[s.Name]; ok {
		return known, nil
	}
	return t.Warm(ctx, s)
}
