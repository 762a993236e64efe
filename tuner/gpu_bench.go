package tuner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	gpukernels "github.com/bitnet-autotune/bitnet-autotune/cuda/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/memory"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// GPUBenchOptions are how the kernels and the allocator of a GPU are measured.
type GPUBenchOptions struct {
	Device string           // UUID; "" = the card with the most memory
	Shapes []kernels.Shape  // of which M is not used; if nil, those of 2B-4T and two that show bandwidth
	Tokens []int            // if nil, 1, 2, 4, 8, 16, 32, 128 and 512
	All    bool             // every kernel that suits, not only the default's and the heuristic's of each layout
	Spread uint64           // bytes of distinct weights; if 0, four times the last-level cache, at least 256 MiB
	Timer  *measure.Timer   // if nil, one for the live card
	Tell   func(row string) // is told what is measured next; nil = nobody
}

// GPUBench is what was measured on a card.
type GPUBench struct {
	Device    string         `json:"device"`
	Name      string         `json:"name"`
	Copy      float64        `json:"copy_bytes_per_second"` // reading and writing, on the device
	Allocator AllocatorCosts `json:"allocator"`
	Rows      []GPUBenchRow  `json:"rows"`
	Failed    []string       `json:"failed"` // kernels that could not be measured, and why
}

// AllocatorCosts are medians of what a call takes the host; each is measured.
type AllocatorCosts struct {
	DirectNs float64 `json:"direct_ns"` // cuMemAlloc and cuMemFree
	PoolNs   float64 `json:"pool_ns"`   // the manager's Alloc and Free of the same sizes
	QueryNs  float64 `json:"query_ns"`  // cuMemGetInfo
	Saved    float64 `json:"saved"`     // 1 - pool / direct
}

// GPUBenchRow is one kernel on one shape.
type GPUBenchRow struct {
	Kernel        string         `json:"kernel"`
	Layout        kernels.Layout `json:"layout"`
	N             int            `json:"n"`
	K             int            `json:"k"`
	M             int            `json:"m"`
	Median        float64        `json:"median_seconds"` // of one matmul
	BytesPerS     float64        `json:"bytes_per_second"`
	WeightsPerS   float64        `json:"weights_per_second"`
	OpsPerS       float64        `json:"ops_per_second"`
	OfCopy        float64        `json:"fraction_of_copy"` // of what the device copies, which is measured in the same run
	Samples       int            `json:"samples"`
	Spread        float64        `json:"spread"`
	DistinctBytes uint64         `json:"distinct_bytes"`
}

// benchShapes are those of 2B-4T, and two that are long enough to show bandwidth and not launches.
var benchShapes = []kernels.Shape{{N: 2560, K: 2560}, {N: 6912, K: 2560}, {N: 2560, K: 6912}, {N: 20480, K: 3200}, {N: 55296, K: 5120}}

// RunGPUBench measures a card: what its memory copies, what allocating costs, and its kernels, each verified first.
func (t *Tuner) RunGPUBench(ctx context.Context, o GPUBenchOptions) (*GPUBench, error) {
	device, err := t.device(ctx, o.Device)
	if err != nil {
		return nil, err
	}
	card, err := t.card(ctx, o.Device)
	if err != nil {
		return nil, err
	}
	o.fill(card)
	b := &GPUBench{Device: card.UUID, Name: card.Name, Rows: []GPUBenchRow{}, Failed: []string{}}
	o.Tell("copies and allocations")
	if b.Copy, err = copyRate(device, min(512<<20, card.TotalBytes/16)); err != nil {
		return nil, fmt.Errorf("gpu bench: copy on %s: %w", device, err)
	}
	if b.Allocator, err = t.allocatorCosts(device); err != nil {
		return nil, fmt.Errorf("gpu bench: allocate on %s: %w", device, err)
	}
	for _, shape := range o.Shapes {
		if err := t.benchShape(ctx, b, device, card, o, shape); err != nil {
			return b, err
		}
	}
	return b, nil
}

func (o *GPUBenchOptions) fill(card *target.Card) {
	if o.Shapes == nil {
		o.Shapes = benchShapes
	}
	if o.Tokens == nil {
		o.Tokens = []int{1, 2, 4, 8, 16, 32, 128, 512}
	}
	if o.Spread == 0 {
		o.Spread = max(4*card.L2Bytes, 256<<20)
	}
	if o.Timer == nil {
		o.Timer = &measure.Timer{MinSample: cudaSample, Watch: measure.Local(), Rand: rand.NewPCG(1, 1)}
	}
	if o.Tell == nil {
		o.Tell = func(string) {}
	}
}

// benchShape measures the kernels on matrices of one shape, as many as make the weights distinct.
func (t *Tuner) benchShape(ctx context.Context, b *GPUBench, device *driver.Device, card *target.Card, o GPUBenchOptions, shape kernels.Shape) error {
	layers := int(max(1, o.Spread/uint64(gpukernels.Bytes(kernels.I2S, shape.N, shape.K))))
	m := model.Model{Name: fmt.Sprintf("%dx%d", shape.N, shape.K), Layers: layers, Shapes: []model.Shape{{N: shape.N, K: shape.K, Count: layers, Roles: "down"}}}
	p := Problem{Model: m, Target: targetCUDA, Card: card}
	for _, layout := range p.layouts() {
		cuda, err := target.NewCUDA(t.gpus.driver, device, *card, m, target.CUDAOptions{Layouts: []kernels.Layout{layout}, MaxBatch: slices.Max(o.Tokens), Seed: 1})
		if err != nil {
			return err
		}
		for _, tokens := range o.Tokens {
			for _, arm := range benchArms(cudaDomain{p.in(layout)}, tokens, o.All) {
				o.Tell(fmt.Sprintf("%s on %dx%d, %d tokens", arm.Kernel, shape.N, shape.K, tokens))
				row, err := benchRow(ctx, cuda, o.Timer, m, arm)
				switch {
				case err == nil:
					row.OfCopy = row.BytesPerS / b.Copy
					b.Rows = append(b.Rows, row)
				case ctx.Err() != nil || cuda.Lost() != nil:
					cuda.Close()
					return err
				default:
					b.Failed = append(b.Failed, err.Error())
				}
			}
		}
		if err := cuda.Close(); err != nil {
			return err
		}
	}
	return nil
}

// benchArms are the settings that are measured for so many tokens.
func benchArms(d cudaDomain, tokens int, all bool) []target.Arm {
	regime := target.Prefill
	switch {
	case tokens == 1:
		regime = target.Decode
	case tokens < 32:
		regime = target.SmallBatch
	}
	var arms []target.Arm
	add := func(kernel string) {
		a := target.Arm{Layout: d.p.Layout, Kernel: kernel, Batch: tokens}
		if kernel != "" && !slices.Contains(arms, a) {
			arms = append(arms, a)
		}
	}
	add(d.heuristic().Arm(regime).Kernel)
	if d.p.Layout == DefaultLayout {
		add(d.standard().Arm(regime).Kernel)
	}
	if all {
		for _, k := range d.usable(regime) {
			add(k.Name)
		}
	}
	return arms
}

// benchSamples are as many as the median of the middle half needs.
const benchSamples = 20

func benchRow(ctx context.Context, cuda *target.CUDA, timer *measure.Timer, m model.Model, arm target.Arm) (GPUBenchRow, error) {
	shape := m.Shapes[0]
	regime := target.Prefill
	if arm.Batch == 1 {
		regime = target.Decode
	}
	subject, err := cuda.Prepare(ctx, regime, arm)
	if err != nil {
		return GPUBenchRow{}, err
	}
	subject.Name = fmt.Sprintf("%s on %s", subject.Name, m.Name)
	sum, err := timer.Measure(ctx, subject, benchSamples)
	if err != nil {
		return GPUBenchRow{}, err
	}
	seconds := sum.Median * float64(arm.Batch) / float64(m.Layers) / 1e9
	weights := float64(shape.N) * float64(shape.K)
	bytes := gpukernels.Bytes(arm.Layout, shape.N, shape.K)
	return GPUBenchRow{
		Kernel: arm.Kernel, Layout: arm.Layout, N: shape.N, K: shape.K, M: arm.Batch, Median: seconds,
		BytesPerS: float64(bytes) / seconds, WeightsPerS: weights / seconds, OpsPerS: 2 * weights * float64(arm.Batch) / seconds,
		Samples: sum.N, Spread: sum.CV, DistinctBytes: uint64(bytes) * uint64(m.Layers),
	}, nil
}

// copyRate is what the device's memory reads and writes in a second, in copies of half of so many bytes.
func copyRate(d *driver.Device, bytes uint64) (float64, error) {
	half := bytes / 2 &^ 255
	p, err := d.Alloc(2 * half)
	if err != nil {
		return 0, err
	}
	defer d.Free(p)
	stream, err := d.NewStream()
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	var events [2]*driver.Event
	for i := range events {
		if events[i], err = d.NewEvent(); err != nil {
			return 0, err
		}
		defer events[i].Close()
	}
	const copies = 10
	for i := range copies + 1 { // the first is a warm-up
		if i == 1 {
			err = stream.Record(events[0])
		}
		if err == nil {
			err = stream.Copy(p, p+driver.Ptr(half), half)
		}
		if err != nil {
			return 0, err
		}
	}
	if err := stream.Record(events[1]); err != nil {
		return 0, err
	}
	if err := events[1].Synchronize(); err != nil {
		return 0, err
	}
	took, err := events[1].Since(events[0])
	if err != nil {
		return 0, err
	}
	if took <= 0 {
		return 0, fmt.Errorf("%d copies of %d bytes took %v by the device's clock", copies, half, took)
	}
	return 2 * copies * float64(half) / took.Seconds(), nil
}

// allocatorCosts measures the driver's and the manager's allocations of the same sizes, and what asking for the memory costs.
func (t *Tuner) allocatorCosts(d *driver.Device) (c AllocatorCosts, err error) {
	manager, err := memory.NewManager(t.gpus.driver, slices.Index(t.gpus.driver.Devices(), d), memory.Options{})
	if err != nil {
		return c, err
	}
	sizes := []uint64{4 << 10, 64 << 10, 1 << 20, 8 << 20}
	c.DirectNs, err = t.medianNs(sizes, func(bytes uint64) error {
		p, err := d.Alloc(bytes)
		if err == nil {
			err = d.Free(p)
		}
		return err
	})
	if err == nil {
		c.PoolNs, err = t.medianNs(sizes, func(bytes uint64) error {
			a, err := manager.Alloc(memory.Request{Bytes: bytes})
			if err == nil {
				err = manager.Free(a)
			}
			return err
		})
	}
	if err == nil {
		c.QueryNs, err = t.medianNs(sizes, func(uint64) error { _, err := d.MemoryInfo(); return err })
	}
	if c.DirectNs > 0 {
		c.Saved = 1 - c.PoolNs/c.DirectNs
	}
	if closed := manager.Close(); err == nil {
		err = closed
	}
	return c, err
}

// medianNs is the median time of f over rounds of all sizes, on the clock of budgets.
func (t *Tuner) medianNs(sizes []uint64, f func(bytes uint64) error) (float64, error) {
	const rounds = 50
	var took []float64
	for range rounds {
		for _, bytes := range sizes {
			start := t.opt.Now()
			if err := f(bytes); err != nil {
				return 0, err
			}
			took = append(took, float64(t.opt.Now().Sub(start)/time.Nanosecond))
		}
	}
	return Median(took), nil
}
