package target

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// pass is one arm, ready to run: the matmuls of the weights in order, with their inputs and outputs.
type pass struct {
	target *CPU
	arm    Arm
	kernel kernels.Kernel
	pool   *kernels.Pool
	steps  []step
}

// step is one matmul.
type step struct {
	w   *kernels.Packed
	x   *kernels.Activations
	dst []int32
}

// pass gives an arm its threads, inputs and outputs.
func (c *CPU) pass(arm Arm, kernel kernels.Kernel) (*pass, error) {
	if err := c.grow(arm.Batch); err != nil {
		return nil, err
	}
	pool, err := c.pool(arm.Threads)
	if err != nil {
		return nil, err
	}
	p := &pass{target: c, arm: arm, kernel: kernel, pool: pool}
	inputs := make(map[int]*kernels.Activations)
	for k, x := range c.inputs {
		inputs[k] = firstTokens(x, arm.Batch)
	}
	for _, w := range c.weights.matmuls {
		p.steps = append(p.steps, step{w: w, x: inputs[w.K], dst: c.outputs[w.N][:arm.Batch*w.N]})
	}
	return p, nil
}

// firstTokens is x cut to m tokens.
func firstTokens(x *kernels.Activations, m int) *kernels.Activations {
	return &kernels.Activations{M: m, K: x.K, Stride: x.Stride, X: x.X[:m*x.Stride], Sum: x.Sum[:m], Scale: x.Scale[:m]}
}

// grow makes room for a batch in the inputs, one for each distinct K, and the outputs, one for each distinct N. A token
// has the same values in every batch, so that the references stay valid.
func (c *CPU) grow(batch int) error {
	if batch <= c.batch {
		return nil
	}
	inputs, outputs := make(map[int]*kernels.Activations), make(map[int][]int32)
	perToken := uint64(0)
	for _, w := range c.weights.samples() {
		if _, known := inputs[w.K]; !known {
			inputs[w.K], perToken = nil, perToken+uint64(kernels.Stride(w.K))
		}
		if _, known := outputs[w.N]; !known {
			outputs[w.N], perToken = nil, perToken+4*uint64(w.N)
		}
	}
	if most := c.budget / 2; c.budget > 0 && uint64(batch) > most/perToken {
		return fmt.Errorf("batch %d: inputs and outputs take %d bytes per token, and %d bytes may be used: %w",
			batch, perToken, most, ErrOutOfMemory)
	}
	for k := range inputs {
		inputs[k] = randomTokens(batch, k, c.options.Seed)
	}
	for n := range outputs {
		outputs[n] = make([]int32, batch*n)
	}
	c.batch, c.inputs, c.outputs = batch, inputs, outputs
	return nil
}

// randomTokens draws normally distributed activations and quantises them as a model does.
func randomTokens(m, k int, seed uint64) *kernels.Activations {
	rng := rand.New(rand.NewPCG(seed, streamActivations))
	all, one := kernels.NewActivations(m, k), kernels.NewActivations(1, k)
	values := make([]float32, k)
	for token := range m {
		for i := range values {
			values[i] = float32(rng.NormFloat64())
		}
		one.Quantize(values)
		copy(tokenOf(all, token), one.X)
		all.Sum[token], all.Scale[token] = one.Sum[0], one.Scale[0]
	}
	return all
}

// verify runs one matmul of every distinct shape and checks all its outputs.
func (p *pass) verify(ctx context.Context) error {
	defer p.pool.Enter()()
	for _, w := range p.target.weights.samples() {
		for _, s := range p.steps {
			if s.w != w {
				continue
			}
			if _, err := measure.Rest(ctx); err != nil {
				return err
			}
			if err := p.verifyStep(s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pass) verifyStep(s step) error {
	v := p.target.references[s.w]
	if v == nil {
		v = newReference(p.target.format, s.w, sampled(s.w.N), p.target.words)
		p.target.references[s.w] = v
	}
	poisonAll(s.dst)
	if err := attempt(func() error { p.mul(s); return nil }); err != nil {
		return err
	}
	return v.compare(s.dst, s.x)
}

func (p *pass) mul(s step) { p.pool.Mul(&p.kernel, s.dst, s.w, s.x, p.arm.Blocking) }

// run is Subject.Run. It is the caller's thread that is pinned and works, for the whole call. The time of the first
// error or of the end of ctx is seen after the matmul at hand.
func (p *pass) run(ctx context.Context, n int) (time.Duration, error) {
	elapsed, err := p.timed(ctx, n)
	if err != nil {
		return 0, fmt.Errorf("target: run %s: %w", p.arm, err)
	}
	return elapsed, nil
}

func (p *pass) timed(ctx context.Context, n int) (elapsed time.Duration, err error) {
	c := p.target
	give, err := c.take(ctx)
	if err != nil {
		return 0, err
	}
	defer give()
	last := p.steps[c.weights.witness(c.next+(n-1)*c.weights.perLayer)]
	poisonAll(last.dst)
	defer enter(p.pool)()
	c.settle(p.pool)
	start := time.Now()
	err = attempt(func() error { return p.iterate(ctx, n*c.weights.perLayer) })
	elapsed = time.Since(start)
	if err != nil {
		c.next -= c.next % c.weights.perLayer // back to where a layer begins
		return 0, err
	}
	if n > 0 {
		err = p.recheck(last)
	}
	return elapsed, err
}

func (p *pass) iterate(ctx context.Context, steps int) error {
	yield := yielding(ctx, p.pool)
	for range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.mul(p.steps[p.target.next])
		yield()
		p.target.next = (p.target.next + 1) % len(p.steps)
	}
	return nil
}

// yieldEvery is how long the workers of a paced run keep their CPUs to themselves: next to a sched_yield of 1 µs, next to
// nothing.
const yieldEvery = 200 * time.Microsecond

// yielding returns what is to be called between two matmuls: on a paced run, all workers give way to whoever waits for
// their CPUs. The lowest priority does not do so by itself: some kernels let a thread that runs keep its CPU until the
// next tick, up to 4 ms, whoever wakes up meanwhile (experiments/2026-11-background).
func yielding(ctx context.Context, pool *kernels.Pool) func() {
	if measure.PacerOf(ctx) == nil {
		return func() {}
	}
	last := time.Now()
	return func() {
		if time.Since(last) < yieldEvery {
			return
		}
		pool.Run(func(int) { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) })
		last = time.Now()
	}
}

// recheck checks the outputs of the last matmul of a run, so that a kernel which is right only when Prepare looks is
// found out.
func (p *pass) recheck(s step) error {
	v := p.target.references[s.w]
	if v == nil {
		v = newReference(p.target.format, s.w, nil, p.target.words)
		p.target.references[s.w] = v
	}
	return v.compare(s.dst, s.x)
}
