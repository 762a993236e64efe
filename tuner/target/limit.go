package target

import (
	"context"
	"fmt"
	"slices"
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
	start := time.Now()
	for range n {
		for _, r.w = range r.target.weights.matmuls {
			if err := ctx.Err(); err != nil {
				return 0, fmt.Errorf("target: run the read loop: %w", err)
			}
			r.pool.Run(r.part)
		}
	}
	return time.Since(start), nil
}

// PeakOps measures how many int8 operations per second (a multiplication and an addition are two) the host can do with
// that many threads from registers to registers: the limit of prefill. kernels.PeakLoop tells which instruction that
// is. It takes about 50 ms and returns the median of several tries.
func (c *CPU) PeakOps(ctx context.Context, threads int) (opsPerSecond float64, err error) {
	pool, err := c.limitPool(ctx, threads)
	if err == nil {
		opsPerSecond, err = c.peak(ctx, pool)
	}
	if err != nil {
		return 0, fmt.Errorf("target: measure the int8 peak: %w", err)
	}
	return opsPerSecond, nil
}

func (c *CPU) peak(ctx context.Context, pool *kernels.Pool) (float64, error) {
	give, err := c.take(ctx)
	if err != nil {
		return 0, err
	}
	defer give()
	defer enter(pool)()
	loop, operations, _ := kernels.PeakLoop(c.options.Features)
	iterations := 1
	once := func() float64 { // seconds
		start := time.Now()
		pool.Run(func(int) { loop(iterations) })
		return time.Since(start).Seconds()
	}
	for once() < 4e-3 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		iterations *= 2
	}
	seconds := make([]float64, 7)
	for i := range seconds {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		seconds[i] = once()
	}
	slices.Sort(seconds)
	return float64(operations) * float64(iterations) * float64(pool.Threads()) / seconds[len(seconds)/2], nil
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
