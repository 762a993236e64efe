package tuner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// BenchOptions say how much Bench measures. The zero value is the full table.
type BenchOptions struct {
	Quick    bool            // two shapes, three batches, 256 MiB of weights: under 20 s on two cores
	Seed     uint64          // of the random weights
	Progress func(row Bench) // is told each row as it is done; nil = nobody
}

// BenchReport is the kernel table of a host beside the host's own limits, all taken in this run. It marshals to the
// document that the bench verb prints. Keys of the limits are thread counts.
type BenchReport struct {
	ReadBandwidth map[int]float64 `json:"read_bandwidth_bytes_per_second"` // a plain read loop over weights in memory
	Int8Peak      map[int]float64 `json:"int8_peak_ops_per_second"`        // the widest int8 multiply-add loop, registers only
	Rows          []Bench         `json:"rows"`
	Warnings      []string        `json:"warnings"`
}

// Bench is one kernel on one shape. Its time is for one matmul of M tokens with an N x K matrix, one of a set of
// distinct matrices that are multiplied in turn, so that decode finds its weights in memory and not in a cache.
type Bench struct {
	Kernel           string           `json:"kernel"`
	Layout           kernels.Layout   `json:"layout"`
	N                int              `json:"n"`
	K                int              `json:"k"`
	M                int              `json:"m"`
	Threads          int              `json:"threads"`
	Blocking         kernels.Blocking `json:"blocking"`
	WorkingSetBytes  uint64           `json:"working_set_bytes"`
	MedianSeconds    float64          `json:"median_seconds"`
	BytesPerSecond   float64          `json:"bytes_per_second"`   // of packed weights
	OpsPerSecond     float64          `json:"ops_per_second"`     // 2 M N K per matmul
	WeightsPerSecond float64          `json:"weights_per_second"` // N K per matmul
	Limit            string           `json:"limit"`              // "read" at M = 1, else "int8 peak", of the kernel's own instruction set
	FractionOfLimit  float64          `json:"fraction_of_limit"`  // from pairs with the limit's loop, interleaved
	Low              float64          `json:"fraction_low"`       // 0 to 0: too few samples for an interval
	High             float64          `json:"fraction_high"`
	Samples          int              `json:"samples"`
	Spread           float64          `json:"spread"` // coefficient of variation of the samples
}

// benchPlan is what a run of Bench goes through.
type benchPlan struct {
	shapes  []model.Shape
	batches []int
	bytes   uint64 // of distinct weights, at least
	blocks  int    // pairs of each row with its limit
}

func (o BenchOptions) plan() benchPlan {
	if o.Quick {
		return benchPlan{
			shapes:  []model.Shape{{N: 2560, K: 2560}, {N: 6912, K: 2560}},
			batches: []int{1, SmallBatchTokens, 128}, bytes: 256 << 20, blocks: 10,
		}
	}
	m, _ := model.Preset("bitnet-b1.58-2b-4t")
	return benchPlan{shapes: m.Shapes, batches: []int{1, 2, 4, 8, 16, 32, 128, 512}, bytes: 1 << 30, blocks: 16}
}

// RunBench measures every SIMD kernel that h can run (the portable ones where there is none) over shapes, batches and
// thread counts, each row in interleaved pairs with the loop that is its limit. Every kernel is verified before it is
// timed. When ctx ends, the rows done so far come with its error.
func RunBench(ctx context.Context, h probe.Host, opt BenchOptions) (*BenchReport, error) {
	b := &bench{host: h, opt: opt, plan: opt.plan(), timer: &measure.Timer{Watch: measure.Local(), Rand: rand.NewPCG(opt.Seed, 0)}}
	b.report = &BenchReport{ReadBandwidth: map[int]float64{}, Int8Peak: map[int]float64{}, Rows: []Bench{}, Warnings: []string{}}
	for _, shape := range b.plan.shapes {
		for _, k := range benchKernels(h.CPU.Features) {
			if err := b.kernel(ctx, shape, k); err != nil {
				return b.report, fmt.Errorf("bench: %s on %d x %d: %w", k.Name, shape.N, shape.K, err)
			}
		}
	}
	return b.report, nil
}

// benchKernels are the SIMD kernels, or the portable ones of a host without any.
func benchKernels(have probe.Feature) []kernels.Kernel {
	var simd, portable []kernels.Kernel
	for _, k := range kernels.Usable(have) {
		if k.Needs == 0 {
			portable = append(portable, k)
		} else {
			simd = append(simd, k)
		}
	}
	if len(simd) == 0 {
		return portable
	}
	return simd
}

type bench struct {
	host   probe.Host
	opt    BenchOptions
	plan   benchPlan
	timer  *measure.Timer
	report *BenchReport
}

// kernel measures one kernel on one shape. The target is a model of as many layers of one matmul as make the wanted
// bytes, limited to the kernel's own instruction set so that its limits are too.
func (b *bench) kernel(ctx context.Context, shape model.Shape, k kernels.Kernel) error {
	format, _ := kernels.FormatOf(k.Layout)
	one := uint64(format.Bytes(shape.N, shape.K))
	layers := int((b.plan.bytes + one - 1) / one)
	m := model.Model{Name: fmt.Sprintf("%d x %d", shape.N, shape.K), Layers: layers,
		Shapes: []model.Shape{{N: shape.N, K: shape.K, Count: layers, Roles: "q"}}}
	cpu, err := target.NewCPU(ctx, b.host, m, target.CPUOptions{Layout: k.Layout, Seed: b.opt.Seed, Features: k.Needs})
	if err != nil {
		return err
	}
	defer cpu.Close()
	if note := cpu.Note(); note != "" {
		b.warn(note)
	}
	for _, threads := range BenchThreads(b.host.CPU.UsableCores) {
		if err := b.limits(ctx, cpu, k, threads); err != nil {
			return err
		}
		for _, batch := range b.plan.batches {
			row := Bench{Kernel: k.Name, Layout: k.Layout, N: shape.N, K: shape.K, M: batch, Threads: threads, Blocking: k.Default(batch), WorkingSetBytes: cpu.WeightBytes()}
			if err := b.row(ctx, cpu, &row, layers); err != nil {
				return err
			}
		}
	}
	return nil
}

// BenchThreads are the thread counts of a table: 1 and the bound, with the powers of two between.
func BenchThreads(usable int) []int {
	if usable < 1 {
		return nil
	}
	var counts []int
	for n := 1; n < usable; n *= 2 {
		counts = append(counts, n)
	}
	return append(counts, usable)
}

// limits measures the host's own limits with a thread count the first time its widest kernel comes by.
func (b *bench) limits(ctx context.Context, cpu *target.CPU, k kernels.Kernel, threads int) error {
	list := benchKernels(b.host.CPU.Features)
	if _, done := b.report.ReadBandwidth[threads]; done || k.Name != widestOf(list).Name {
		return nil
	}
	read, err := cpu.ReadSubject(threads)
	if err != nil {
		return err
	}
	peak, err := cpu.PeakSubject(threads)
	if err != nil {
		return err
	}
	reading, err := b.timer.Measure(ctx, read, b.plan.blocks)
	if err != nil {
		return err
	}
	multiplying, err := b.timer.Measure(ctx, peak, b.plan.blocks)
	if err != nil {
		return err
	}
	if reading.N == 0 || multiplying.N == 0 {
		b.warn(fmt.Sprintf("the limits with %d threads are unknown: the host disturbed every sample", threads))
		return nil
	}
	b.report.ReadBandwidth[threads] = float64(cpu.WeightBytes()) / reading.Median * 1e9
	b.report.Int8Peak[threads] = 1e9 / multiplying.Median
	return nil
}

// kind is a doubt without the figures of its case, which the rows show.
func kind(doubt error) string {
	if cause := errors.Unwrap(doubt); cause != nil {
		return cause.Error()
	}
	return doubt.Error()
}

// warn adds a warning to the report unless it is there already.
func (b *bench) warn(text string) {
	if !slices.Contains(b.report.Warnings, text) {
		b.report.Warnings = append(b.report.Warnings, text)
	}
}

// row measures one row in pairs with its limit.
func (b *bench) row(ctx context.Context, cpu *target.CPU, row *Bench, layers int) error {
	regime := target.Prefill
	switch {
	case row.M == 1:
		regime = target.Decode
	case row.M < 32:
		regime = target.SmallBatch
	}
	arm := target.Arm{Layout: row.Layout, Kernel: row.Kernel, Threads: row.Threads, Batch: row.M, Blocking: row.Blocking}
	subject, err := cpu.Prepare(ctx, regime, arm)
	if err != nil {
		return err
	}
	limit, unit, err := b.limit(cpu, row, layers)
	if err != nil {
		return err
	}
	c, err := b.timer.Compare(ctx, subject, limit, measure.CompareOptions{Blocks: b.plan.blocks, Looks: 1})
	if err != nil {
		return err
	}
	for _, w := range c.Warnings {
		b.warn("some rows: " + kind(w))
	}
	if c.Blocks == 0 {
		b.warn(fmt.Sprintf("no row for %s on %d x %d, M = %d, %d threads: the host disturbed every sample", row.Kernel, row.N, row.K, row.M, row.Threads))
		return nil
	}
	row.fill(c, unit, layers)
	b.report.Rows = append(b.report.Rows, *row)
	if b.opt.Progress != nil {
		b.opt.Progress(*row)
	}
	return nil
}

// limit is the loop that bounds a row, with how many of its units one token takes.
func (b *bench) limit(cpu *target.CPU, row *Bench, layers int) (limit measure.Subject, unit float64, err error) {
	if row.M == 1 {
		row.Limit = "read"
		limit, err = cpu.ReadSubject(row.Threads)
		return limit, 1, err
	}
	row.Limit = "int8 peak"
	limit, err = cpu.PeakSubject(row.Threads)
	return limit, 2 * float64(row.N) * float64(row.K) * float64(layers), err
}

// fill turns a comparison, whose costs are of one token through all layers, into the figures of one matmul.
// Without an interval, Low and High stay 0.
func (row *Bench) fill(c measure.Comparison, unit float64, layers int) {
	weights := float64(row.N) * float64(row.K)
	row.MedianSeconds = c.Base.Median * float64(row.M) / float64(layers) / 1e9
	row.WeightsPerSecond = weights / row.MedianSeconds
	row.OpsPerSecond = 2 * weights * float64(row.M) / row.MedianSeconds
	row.BytesPerSecond = float64(row.WorkingSetBytes) / float64(layers) / row.MedianSeconds
	row.FractionOfLimit = unit / c.Ratio
	if c.High < math.MaxFloat64 {
		row.Low, row.High = unit/c.High, unit/c.Low
	}
	row.Samples, row.Spread = c.Base.N, c.Base.CV
}
