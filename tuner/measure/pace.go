package measure

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// Pacer lets a run work in bursts and rest between them, so that others hardly meet it. It travels in a context (see
// WithPacer), because not only what measures takes CPU time: whatever works for longer than some 10 ms offers to rest.
// Rest and Now belong to the run's goroutine, Interrupt to anybody.
type Pacer struct {
	// Burst is how long the run works before it asks. If 0, it asks at every offer.
	Burst time.Duration
	// Ask is called at the end of a burst and returns when the next may begin; waited is false where it may at once.
	Ask func(ctx context.Context) (waited bool, err error)
	// Clock tells the time. If nil, time.Now.
	Clock func() time.Time

	began     time.Time     // the burst at hand
	rested    time.Duration // so far
	ends      []*end
	interrupt atomic.Bool
}

// end is a moment on the run's clock at which a context ends.
type end struct {
	at     time.Time
	cancel context.CancelFunc
}

type pacerKey struct{}

// WithPacer returns a context whose runs are paced. The first burst begins now.
func WithPacer(ctx context.Context, p *Pacer) context.Context {
	p.began = p.clock()
	return context.WithValue(ctx, pacerKey{}, p)
}

// PacerOf returns the pacer of a context; nil = it works without rests.
func PacerOf(ctx context.Context) *Pacer {
	p, _ := ctx.Value(pacerKey{}).(*Pacer)
	return p
}

func (p *Pacer) clock() time.Time {
	if p.Clock == nil {
		return time.Now()
	}
	return p.Clock()
}

// Now is the run's own clock, which stands still while it rests: budgets are of the time worked.
func (p *Pacer) Now() time.Time { return p.clock().Add(-p.rested) }

// Until bounds ctx by a moment on the run's clock: it is noticed at the next offer to rest.
func (p *Pacer) Until(ctx context.Context, at time.Time) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	e := &end{at, cancel}
	p.ends = append(p.ends, e)
	return ctx, func() {
		p.ends = slices.DeleteFunc(p.ends, func(other *end) bool { return other == e })
		cancel()
	}
}

// Interrupt ends the burst at the next offer, and with it the block that is being measured, which is measured anew after
// the rest: load has arrived.
func (p *Pacer) Interrupt() { p.interrupt.Store(true) }

// Rest offers to rest where ctx has a pacer, and reports whether it was taken up. The error is that of ctx, or that nobody
// paces any more.
func Rest(ctx context.Context) (rested bool, err error) {
	p := PacerOf(ctx)
	if p == nil {
		return false, ctx.Err()
	}
	for _, e := range p.ends {
		if !p.Now().Before(e.at) {
			e.cancel()
		}
	}
	if p.clock().Sub(p.began) < p.Burst && !p.interrupt.Load() || ctx.Err() != nil {
		return false, ctx.Err()
	}
	asked := p.clock()
	if rested, err = p.Ask(ctx); err != nil {
		return rested, err
	}
	p.interrupt.Store(false)
	p.began = p.clock()
	p.rested += p.began.Sub(asked)
	return rested, ctx.Err()
}

// interrupted reports whether the burst is to end now.
func interrupted(ctx context.Context) bool {
	p := PacerOf(ctx)
	return p != nil && p.interrupt.Load()
}

// rest offers to rest before samples of s are taken. A rest cools down caches, page tables and clocks, so the first sample
// after one is taken for nothing.
func (t *Timer) rest(ctx context.Context, s Subject, n int) error {
	rested, err := Rest(ctx)
	if rested && err == nil {
		_, err = t.run(ctx, s, n)
	}
	return err
}
