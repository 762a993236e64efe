package measuretest

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// Simulator is a host with a virtual clock and invented noise. All its arms share the clock and the noise, so that a
// slow moment is slow for every arm: what pairing cancels and what it cannot are both as on a real host. The same
// seed and the same calls give the same times. It is safe for concurrent use, though concurrent runs come one after the
// other in virtual time.
type Simulator struct {
	mu       sync.Mutex
	now      time.Duration
	counters measure.Counters
	effects  []Effect
}

// New returns a host at virtual time 0 with these kinds of noise, applied in order. Each draws from a stream of its
// own: adding one at the end changes nothing of the others.
func New(seed uint64, noise ...Noise) *Simulator {
	s := &Simulator{counters: measure.Counters{StealTick: stealTick}}
	for i, begin := range noise {
		s.effects = append(s.effects, begin(rand.New(rand.NewPCG(seed, uint64(i)))))
	}
	return s
}

// Arm returns a subject whose iterations truly cost that much each, before noise. Its unit is one iteration.
func (s *Simulator) Arm(name string, cost time.Duration) measure.Subject {
	done := 0
	return measure.Subject{Name: name, Run: func(ctx context.Context, n int) (time.Duration, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		sample := Sample{Start: s.now, Work: cost * time.Duration(n), Done: done, Counters: &s.counters}
		done += n
		took := sample.Work
		for _, effect := range s.effects {
			sample.Took = took
			took = effect(sample)
		}
		took = max(took, 1)
		s.now += took
		return took, nil
	}}
}

// Now is the virtual time.
func (s *Simulator) Now() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Sleep lets virtual time pass.
func (s *Simulator) Sleep(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += d
}

// Watch returns a watcher of the virtual host's counters, as coarse as a real one: steal comes in ticks of 10 ms.
func (s *Simulator) Watch() measure.Watcher { return watcher{s} }

type watcher struct{ s *Simulator }

// stealTick is that of /proc/stat at the usual USER_HZ of 100.
const stealTick = 10 * time.Millisecond

// Read implements measure.Watcher.
func (w watcher) Read() (measure.Counters, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	now := w.s.counters
	now.At = w.s.now
	now.Steal = now.Steal.Truncate(stealTick)
	return now, nil
}

// Timer returns a measure.Timer for this host: watched, with an order of blocks that depends on the seed.
func (s *Simulator) Timer(seed uint64) *measure.Timer {
	return &measure.Timer{Watch: s.Watch(), Rand: rand.NewPCG(seed, math.MaxUint64)}
}
