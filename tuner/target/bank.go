package target

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// BankOptions say what a bank holds.
type BankOptions struct {
	Layout   kernels.Layout
	N, K     int
	Matrices int    // how many distinct ones; if 0, 1
	Seed     uint64 // draws the weights and the activations
}

// Bank holds distinct random matrices of one shape in one layout, which every kernel of the layout may multiply, and the
// read loop read, in turn. One cursor serves them all: what one subject has just brought into a cache is what the next
// one comes to last. It belongs to one goroutine.
type Bank struct {
	host      probe.Host
	format    kernels.Format
	seed      uint64
	weights   *weights
	next      int // the matrix that comes next
	pools     map[int]*kernels.Pool
	reference *reference // of the first matrix
	x         *kernels.Activations
	dst       []int32
}

// NewBank draws the matrices and holds them until Close.
func NewBank(ctx context.Context, host probe.Host, opt BankOptions) (*Bank, error) {
	b := &Bank{host: host, seed: opt.Seed, pools: make(map[int]*kernels.Pool)}
	if err := b.open(ctx, opt); err != nil {
		return nil, errors.Join(fmt.Errorf("target: hold matrices of %d x %d as %s: %w", opt.N, opt.K, opt.Layout, err), b.Close())
	}
	return b, nil
}

func (b *Bank) open(ctx context.Context, opt BankOptions) (err error) {
	var known bool
	if b.format, known = kernels.FormatOf(opt.Layout); !known {
		return fmt.Errorf("layout %q: want one of %v: %w", opt.Layout, kernels.Layouts(), ErrRejected)
	}
	if opt.N < 1 || opt.K < 1 || opt.K > kernels.MaxCols {
		return fmt.Errorf("want at least 1 row and 1 to %d columns: %w", kernels.MaxCols, ErrRejected)
	}
	pool, err := b.pool(b.maxThreads())
	if err != nil {
		return err
	}
	b.weights, err = newWeights(ctx, b.format, []model.Matmul{{N: opt.N, K: opt.K}}, max(1, opt.Matrices), opt.Seed, pool)
	if err != nil {
		return err
	}
	first := b.weights.matmuls[0]
	b.reference = newReference(b.format, first, sampled(first.N), rand.New(rand.NewPCG(opt.Seed, streamWords)))
	return nil
}

// Close ends the threads and frees the matrices. It may be called again.
func (b *Bank) Close() error {
	for _, pool := range b.pools {
		pool.Close()
	}
	if b.weights == nil {
		return nil
	}
	return b.weights.memory.Free()
}

func (b *Bank) maxThreads() int {
	return max(1, min(b.host.CPU.UsableCores, len(b.host.CPU.CPUs)))
}

// pool returns the pool of that many threads, which stays parked while another one works.
func (b *Bank) pool(threads int) (*kernels.Pool, error) {
	if pool := b.pools[threads]; pool != nil {
		return pool, nil
	}
	if threads < 1 || threads > b.maxThreads() {
		return nil, fmt.Errorf("threads %d: want 1 to %d, the usable cores: %w", threads, b.maxThreads(), ErrRejected)
	}
	cpus := b.host.CPU.CPUs
	if len(cpus) == 0 {
		cpus = []int{0}
	}
	pool, err := kernels.NewPool(cpus[:threads])
	if err == nil {
		b.pools[threads] = pool
	}
	return pool, err
}

// Multiply returns a kernel as a subject whose unit is one matmul, with the first so many matrices in turn, and a check
// of its results, which it has already passed once. The name tells one subject from another, see measure.Timer.
func (b *Bank) Multiply(ctx context.Context, name string, arm Arm, matrices int) (s measure.Subject, verify func() error, err error) {
	fail := func(err error) (measure.Subject, func() error, error) {
		return measure.Subject{}, nil, fmt.Errorf("target: prepare %s: %w", arm, err)
	}
	kernel, known := kernels.ByName(arm.Kernel)
	if !known || kernel.Layout != b.format.Layout || arm.Batch < 1 {
		return fail(fmt.Errorf("want a kernel of layout %s and a batch of 1 or more: %w", b.format.Layout, ErrRejected))
	}
	pool, err := b.pool(arm.Threads)
	if err != nil {
		return fail(err)
	}
	b.grow(arm.Batch)
	x, dst := firstTokens(b.x, arm.Batch), b.dst[:arm.Batch*b.weights.matmuls[0].N]
	mul := func(w *kernels.Packed) { pool.Mul(&kernel, dst, w, x, arm.Blocking) }
	verify = func() error {
		defer pool.Enter()()
		poisonAll(dst)
		if err := attempt(func() error { mul(b.weights.matmuls[0]); return nil }); err != nil {
			return fmt.Errorf("target: verify %s: %w", arm, err)
		}
		if err := b.reference.compare(dst, x); err != nil {
			return fmt.Errorf("target: verify %s: %w", arm, err)
		}
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	if err := verify(); err != nil {
		return measure.Subject{}, nil, err
	}
	turn := b.turn(matrices)
	return subject(name, pool, func() { mul(turn()) }), verify, nil
}

// grow makes room for a batch. A token has the same values in every batch, so that the reference stays valid.
func (b *Bank) grow(batch int) {
	if b.x != nil && batch <= b.x.M {
		return
	}
	first := b.weights.matmuls[0]
	b.x, b.dst = randomTokens(batch, first.K, b.seed), make([]int32, batch*first.N)
}

// Read returns a read loop as a subject: over the same matrices as Multiply, by the same threads with the same shares and
// barriers. Its unit is one matrix.
func (b *Bank) Read(name string, read func([]byte) uint64, threads, matrices int) (measure.Subject, error) {
	pool, err := b.pool(threads)
	if err != nil {
		return measure.Subject{}, fmt.Errorf("target: prepare the read loop: %w", err)
	}
	sums := make([]uint64, threads) // kept, so that the reads are
	var at *kernels.Packed
	part := func(worker int) { sums[worker] += read(share(at, threads, worker)) }
	turn := b.turn(matrices)
	return subject(name, pool, func() {
		at = turn()
		pool.Run(part)
	}), nil
}

// Peak returns the int8 peak loop of a host with these extensions as a subject whose unit is one operation; a
// multiplication and an addition are two.
func (b *Bank) Peak(name string, have probe.Feature, threads int) (measure.Subject, error) {
	pool, err := b.pool(threads)
	if err != nil {
		return measure.Subject{}, fmt.Errorf("target: prepare the int8 peak loop: %w", err)
	}
	loop, operations, _ := kernels.PeakLoop(have)
	part := func(int) { loop(peakIterations) }
	s := subject(name, pool, func() { pool.Run(part) })
	s.Units = float64(operations) * peakIterations * float64(threads)
	return s, nil
}

// turn returns the next of the first so many matrices each time it is called.
func (b *Bank) turn(matrices int) func() *kernels.Packed {
	list := b.weights.matmuls[:min(max(1, matrices), len(b.weights.matmuls))]
	return func() *kernels.Packed {
		b.next = (b.next + 1) % len(list)
		return list[b.next]
	}
}

// subject is a subject that does step on a pool.
func subject(name string, pool *kernels.Pool, step func()) measure.Subject {
	run := func(ctx context.Context, n int) (elapsed time.Duration, err error) {
		defer enter(pool)()
		start := time.Now()
		err = attempt(func() error {
			for range n {
				if err := ctx.Err(); err != nil {
					return err
				}
				step()
			}
			return nil
		})
		if elapsed = time.Since(start); err != nil {
			return 0, fmt.Errorf("target: run %s: %w", name, err)
		}
		return elapsed, nil
	}
	return measure.Subject{Name: name, Units: 1, Run: run}
}
