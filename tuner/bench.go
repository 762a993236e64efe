package tuner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// BenchProgress is what a bench tells while it works.
type BenchProgress struct {
	Done, Total int           // rows
	Left        time.Duration // expected
	Row         *Bench        // what was just measured; nil before the first
}

// RunBench measures kernels over shapes, batches, threads and residencies, each row in interleaved pairs with the loop
// that is its limit. Every kernel is verified before it is timed and after. When ctx ends, the report holds what was
// measured and says Interrupted, without an error; a kernel with a wrong result has no row, and the error, which comes
// with the report, wraps target.ErrMismatch.
func RunBench(ctx context.Context, h probe.Host, opt BenchOptions) (*BenchReport, error) {
	plan, err := planBench(h, opt)
	if err != nil {
		return nil, err
	}
	b := &bench{host: h, opt: opt, plan: plan, prefetch: map[string]bool{},
		timer: &measure.Timer{Watch: measure.Local(), Rand: rand.NewPCG(opt.Seed, 0), WarmTime: plan.warm},
		clock: &benchClock{now: time.Now, paces: map[string]pace{}},
		report: &BenchReport{
			Host:      BenchHost{CPU: h.CPU.Model, UsableCores: h.CPU.UsableCores, Fingerprint: h.Fingerprint()},
			StartedAt: time.Now().UTC().Truncate(time.Second), Rows: []Bench{}, Warnings: slices.Clone(plan.notes),
			ReadBandwidth: map[int]float64{}, ReadFrom: map[Residency]map[int]float64{},
			Int8Peak: map[int]float64{}, Int8PeakOf: map[string]map[int]float64{},
		},
	}
	budget := plan.budget
	err = b.run(ctx)
	b.finish(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		return b.report, fmt.Errorf("bench: %w", err)
	case b.wrong != nil:
		return b.report, fmt.Errorf("bench: %w", b.wrong)
	case len(b.report.Rows) == 0 && ctx.Err() == nil:
		return b.report, fmt.Errorf("bench: %w: no row fits %v", ErrNoBudget, budget)
	}
	return b.report, nil
}

// bench is one run.
type bench struct {
	host     probe.Host
	opt      BenchOptions
	plan     *benchPlan
	timer    *measure.Timer
	clock    *benchClock
	prefetch map[string]bool // by instruction set, residency and threads: the read loop is faster with it
	total    int             // rows
	missing  []leftOut       // for lack of time
	spoilt   []leftOut       // by the host
	wrong    error           // the first kernel that failed its check
	report   *BenchReport
}

func (b *bench) run(ctx context.Context) error {
	start := time.Now()
	if err := b.calibrate(ctx); err != nil {
		return err
	}
	if b.plan.budget > 0 {
		b.plan.budget = max(1, b.plan.budget-time.Since(start))
	}
	b.missing = b.clock.fit(b.plan)
	b.total = b.plan.rows()
	b.clock.start(b.plan)
	if b.total > 0 {
		b.tell(nil)
	}
	for _, bank := range b.plan.banks {
		if err := b.bank(ctx, bank); err != nil {
			return fmt.Errorf("%s on %d x %d: %w", bank.format.Layout, bank.n, bank.k, err)
		}
	}
	return nil
}

// finish puts the report in order and says what is missing.
func (b *bench) finish(ctx context.Context) {
	r := b.report
	r.sortRows(b.plan.shapes)
	r.summarize()
	r.Interrupted, r.Elapsed = ctx.Err() != nil, time.Since(r.StartedAt).Seconds()
	r.LeftOut = len(b.missing) + b.total - len(r.Rows)
	if !r.Interrupted {
		for _, line := range append(nameLeftOut("not measured for lack of time", b.missing), nameLeftOut("not measured, the host disturbed every sample", b.spoilt)...) {
			b.warn(line)
		}
	} else if r.LeftOut > 0 {
		b.warn(fmt.Sprintf("interrupted: %d rows were not measured", r.LeftOut))
	}
	if slices.ContainsFunc(r.Rows, func(row Bench) bool { return row.Limit == limitRead && row.Low > 1 }) {
		b.warn("a fraction of the read limit above 1: the limit is the better of two plain loops, with and without prefetching, and a kernel drew more from the memory than it; why is not known")
	}
	if slices.ContainsFunc(r.Rows, func(row Bench) bool { return row.Limit == limitPeak && row.Low > 1 }) {
		b.warn("a fraction of the int8 peak above 1: the loop of the peak knows no better instruction of this host, as where only the portable loop runs")
	}
}

func (b *bench) warn(text string) {
	if !slices.Contains(b.report.Warnings, text) {
		b.report.Warnings = append(b.report.Warnings, text)
	}
}

// kind is a doubt without the figures of its case, which the rows show.
func kind(doubt error) string {
	if cause := errors.Unwrap(doubt); cause != nil {
		return cause.Error()
	}
	return doubt.Error()
}

func (b *bench) tell(row *Bench) {
	if b.opt.Progress != nil {
		b.opt.Progress(BenchProgress{Done: len(b.report.Rows), Total: b.total, Left: b.clock.remaining(), Row: row})
	}
}

// calibrate runs each kernel of the plan on one small matrix, to know about how long the rows will take.
func (b *bench) calibrate(ctx context.Context) error {
	const side, batch = 512, 16
	for _, k := range b.plan.kernels() {
		bank, err := target.NewBank(ctx, b.host, target.BankOptions{Layout: k.Layout, N: side, K: side, Seed: b.opt.Seed})
		if err != nil {
			return err
		}
		perWeight := func(m int) (float64, error) {
			s, _, err := bank.Multiply(ctx, k.Name, target.Arm{Layout: k.Layout, Kernel: k.Name, Threads: 1, Batch: m, Blocking: k.Default(m)}, 1)
			if err != nil {
				return 0, err
			}
			const runs = 3
			took, err := s.Run(ctx, runs)
			return float64(took) / runs / (side * side), err
		}
		var p pace
		if p.one, err = perWeight(1); err == nil {
			p.many, err = perWeight(batch)
			p.many /= batch
		}
		if err := errors.Join(b.mismatch(k.Name, err), bank.Close()); err != nil {
			return err
		}
		b.clock.paces[k.Name] = p
	}
	return nil
}

// mismatch takes down that a kernel is wrong, and passes any other error on.
func (b *bench) mismatch(kernel string, err error) error {
	if !errors.Is(err, target.ErrMismatch) {
		return err
	}
	if b.wrong == nil {
		b.wrong = err
	}
	b.warn(fmt.Sprintf("%s gives wrong results and has no row: %v", kernel, err))
	return nil
}

// bank makes the matrices of one shape in one layout and measures its cases on them.
func (b *bench) bank(ctx context.Context, plan benchBank) error {
	if b.late() {
		b.giveUp(plan.shape, plan.cases)
		return nil
	}
	bank, err := target.NewBank(ctx, b.host, target.BankOptions{Layout: plan.format.Layout, N: plan.n, K: plan.k, Matrices: plan.matrices(), Seed: b.opt.Seed})
	if errors.Is(err, target.ErrOutOfMemory) {
		b.warn(err.Error())
		b.giveUp(plan.shape, plan.cases)
		return nil
	} else if err != nil {
		return err
	}
	b.clock.done(b.clock.bank(plan))
	for _, c := range plan.cases {
		if err := b.row(ctx, bank, plan, c); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", c.kernel.Name, err), bank.Close())
		}
	}
	return bank.Close()
}

// giveUp takes cases down as missing.
func (b *bench) giveUp(s shape, cases []benchCase) {
	for _, c := range cases {
		b.missing = append(b.missing, leftOut{s, c})
		b.total--
	}
}

// row measures one case, if there is time.
func (b *bench) row(ctx context.Context, bank *target.Bank, plan benchBank, c benchCase) error {
	defer func() { b.clock.done(b.clock.row(plan.shape, c, b.plan.blocks)) }()
	until, ok := b.clock.until(plan.shape, c)
	if !ok && len(b.report.Rows) > 0 {
		b.giveUp(plan.shape, []benchCase{c})
		return nil
	}
	row := Bench{Kernel: c.kernel.Name, Layout: c.kernel.Layout, N: plan.n, K: plan.k, M: c.m, Threads: c.threads, Residency: c.residency,
		Blocking: c.kernel.Default(c.m), WorkingSetBytes: uint64(c.matrices) * plan.matrix()}
	subject, verify, err := bank.Multiply(ctx, row.name(), row.arm(), c.matrices)
	if err != nil {
		return b.mismatch(c.kernel.Name, err)
	}
	limit, units, scale, err := b.limit(ctx, bank, &row, plan.matrix(), c)
	if err != nil {
		return err
	}
	comparison, err := b.compare(ctx, subject, limit, until)
	if err != nil {
		return err
	}
	if err := verify(); err != nil {
		return b.mismatch(c.kernel.Name, err)
	}
	if comparison.Blocks < leastPairs {
		if b.late() {
			b.giveUp(plan.shape, []benchCase{c})
		} else {
			b.spoilt = append(b.spoilt, leftOut{plan.shape, c})
		}
		return nil
	}
	for _, w := range comparison.Warnings {
		b.warn("some rows: " + kind(w))
	}
	row.fill(comparison, plan.matrix(), units, scale)
	b.report.Rows = append(b.report.Rows, row)
	b.tell(&row)
	return nil
}

// name tells the subject of a row from all others.
func (b Bench) name() string {
	return fmt.Sprintf("%s on %d x %d in %s", b.arm(), b.N, b.K, b.Residency)
}

func (b Bench) arm() target.Arm {
	return target.Arm{Layout: b.Layout, Kernel: b.Kernel, Threads: b.Threads, Batch: b.M, Blocking: b.Blocking}
}

// late reports whether the budget is used up, and a little more. The first row may take longer: a table has one.
func (b *bench) late() bool {
	return len(b.report.Rows) > 0 && !b.clock.deadline.IsZero() && b.clock.now().After(b.clock.deadline.Add(b.plan.budget/16))
}

// compare takes blocks until there are enough or time is up, the least in any case unless it is much too late.
func (b *bench) compare(ctx context.Context, subject, limit measure.Subject, until time.Time) (measure.Comparison, error) {
	pair := b.timer.Pair(subject, limit)
	for range 2 * b.plan.blocks { // some are lost where the host disturbs them
		if done := pair.Result().Blocks; done >= b.plan.blocks || b.late() || done >= leastPairs && !until.IsZero() && b.clock.now().After(until) {
			break
		}
		if err := pair.Block(ctx); err != nil {
			return measure.Comparison{}, err
		}
	}
	return pair.Result(), nil
}

// limit is the loop that bounds a row, how many of its units one matmul takes, and what one unit is: a matrix of bytes
// at M = 1, else one operation.
func (b *bench) limit(ctx context.Context, bank *target.Bank, row *Bench, matrix uint64, c benchCase) (limit measure.Subject, units, scale float64, err error) {
	have := c.kernel.Needs
	_, _, instruction := kernels.PeakLoop(have)
	if row.M > 1 {
		row.Limit, row.LimitLoop = limitPeak, instruction
		limit, err = bank.Peak(fmt.Sprintf("%s, %d threads", instruction, row.Threads), have, row.Threads)
		return limit, 2 * float64(row.M) * float64(row.N) * float64(row.K), 1, err
	}
	row.Limit = limitRead
	prefetches, err := b.better(ctx, bank, row, c)
	if err != nil {
		return limit, 0, 0, err
	}
	limit, err = b.read(bank, row, c, prefetches)
	return limit, 1, float64(matrix), err
}

// readAhead is the distance of prefetching that is tried beside none: a page, where the hardware stops.
const readAhead = 4096

// readLoop is the read loop of an instruction set, with what it consists of.
func readLoop(have probe.Feature, prefetches bool) (loop func([]byte) uint64, name string) {
	if !prefetches {
		return kernels.ReadLoop(have), "plain loads"
	}
	return kernels.PrefetchingReadLoop(have, readAhead), fmt.Sprintf("loads, prefetch %d", readAhead)
}

// better reports whether the read loop is faster with prefetching, as measured once in this run for each instruction
// set, number of threads and residency.
func (b *bench) better(ctx context.Context, bank *target.Bank, row *Bench, c benchCase) (bool, error) {
	key := fmt.Sprintf("%s %s %d", c.kernel.Needs, row.Residency, row.Threads)
	if better, known := b.prefetch[key]; known || kernels.PrefetchingReadLoop(c.kernel.Needs, readAhead) == nil {
		return better, nil
	}
	plain, err := b.read(bank, row, c, false)
	if err != nil {
		return false, err
	}
	prefetching, err := b.read(bank, row, c, true)
	if err != nil {
		return false, err
	}
	pair := b.timer.Pair(plain, prefetching)
	for range leastPairs {
		if err := pair.Block(ctx); err != nil {
			return false, err
		}
	}
	b.prefetch[key] = pair.Result().Low > 1
	return b.prefetch[key], nil
}

// read is a read loop over a row's matrices, and takes down in the row which.
func (b *bench) read(bank *target.Bank, row *Bench, c benchCase, prefetches bool) (measure.Subject, error) {
	var loop func([]byte) uint64
	loop, row.LimitLoop = readLoop(c.kernel.Needs, prefetches)
	name := fmt.Sprintf("%s of %s over %s, %d x %d in %s, %d threads", row.LimitLoop, c.kernel.Needs, row.Layout, row.N, row.K, row.Residency, row.Threads)
	return bank.Read(name, loop, row.Threads, c.matrices)
}
