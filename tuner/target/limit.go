package target

import (
	"context"
	"fmt"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// ReadSubject returns the limit of decoding as a subject: the plain read loop over the same bytes as a decode pass, in
// the same order, by the same threads with the same shares and barriers. Its unit is one token.
func (c *CPU) ReadSubject(threads int) (measure.Subject, error) {
	pool, err := c.limitPool(context.Background(), threads)
	if err != nil {
		return measure.Subject{}, fmt.Errorf("target: prepare the read loop: %w", err)
	}
	r := &readPass{target: c, pool: pool, read: kernels.ReadLoop(c.options.Features), sums: make([]uint64, threads)}
	r.part = r.readShare
	held := float64(len(c.weights.matmuls)) / float64(c.weights.perLayer*c.model.Layers)
	return measure.Subject{Name: fmt.Sprintf("read loop threads=%d", threads), Units: held, Run: r.run}, nil
}

// readPass reads all weights once per iteration.
type readPass struct {
	target *CPU
	pool   *kernels.Pool
	read   func([]byte) uint64
	part   func(worker int) // r.readShare
	w      *kernels.Packed  // what is read at the moment
	sums   []uint64         // per worker; kept, so that the reads are
}

func (r *readPass) readShare(worker int) {
	r.sums[worker] += r.read(share(r.w, r.pool.Threads(), worker))
}

func (r *readPass) run(ctx context.Context, n int) (time.Duration, error) {
	give, err := r.target.take(ctx)
	if err != nil {
		return 0, fmt.Errorf("target: run the read loop: %w", err)
	}
	defer give()
	defer enter(r.pool)()
	r.target.settle(r.pool)
	yield := yielding(ctx, r.pool)
	start := time.Now()
	for range n {
		for _, r.w = range r.target.weights.matmuls {
			if err := ctx.Err(); err != nil {
				return 0, fmt.Errorf("target: run the read loop: %w", err)
			}
			r.pool.Run(r.part)
			yield()
		}
	}
	return time.Since(start), nil
}

// settle brings weights that fit the caches back into them, each share to the worker that will want it, as the token
// before would have left them: since then another arm may have run, on a copy of the weights in another layout.
func (c *CPU) settle(pool *kernels.Pool) {
	if !c.cached {
		return
	}
	r := &readPass{target: c, pool: pool, read: kernels.ReadLoop(c.options.Features), sums: make([]uint64, pool.Threads())}
	for _, r.w = range c.weights.matmuls {
		pool.Run(r.readShare)
	}
}

// PeakSubject returns the limit of prefill as a subject: int8 multiply-adds from registers to registers, on that many
// threads. kernels.PeakLoop tells which instruction that is. Its unit is one operation; a multiplication and an addition
// are two.
func (c *CPU) PeakSubject(threads int) (measure.Subject, error) {
	pool, err := c.limitPool(context.Background(), threads)
	if err != nil {
		return measure.Subject{}, fmt.Errorf("target: prepare the int8 peak loop: %w", err)
	}
	loop, operations, name := kernels.PeakLoop(c.options.Features)
	p := &peakLoop{target: c, pool: pool, loop: loop}
	p.part = func(int) { p.loop(peakIterations) }
	return measure.Subject{
		Name: fmt.Sprintf("%s loop threads=%d", name, threads), Run: p.run,
		Units: float64(operations) * peakIterations * float64(threads),
	}, nil
}

// peakIterations keeps one call of a peak loop, which cannot be preempted, well under a millisecond.
const peakIterations = 1 << 13

// peakLoop is the int8 limit, ready to run.
type peakLoop struct {
	target *CPU
	pool   *kernels.Pool
	loop   func(iterations int)
	part   func(worker int)
}

func (p *peakLoop) run(ctx context.Context, n int) (time.Duration, error) {
	give, err := p.target.take(ctx)
	if err != nil {
		return 0, fmt.Errorf("target: run the int8 peak loop: %w", err)
	}
	defer give()
	defer enter(p.pool)()
	start := time.Now()
	for range n {
		if err := ctx.Err(); err != nil {
			return 0, fmt.Errorf("target: run the int8 peak loop: %w", err)
		}
		p.pool.Run(p.part)
	}
	return time.Since(start), nil
}

// limitPool is the pool for a limit.
func (c *CPU) limitPool(ctx context.Context, threads int) (*kernels.Pool, error) {
	if threads < 1 || threads > c.maxThreads() {
		return nil, fmt.Errorf("threads %d: want 1 to %d, the usable cores: %w", threads, c.maxThreads(), ErrRejected)
	}
	give, err := c.take(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	return c.pool(threads)
}
