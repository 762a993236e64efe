package target

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// CPUOptions are what a CPU target may be told. Layout has no default.
type CPUOptions struct {
	// Layout is how the weights are packed: arms of another layout need another target.
	Layout kernels.Layout
	// Seed draws the weights, the activations and the words of the checks. Any value will do.
	Seed uint64
	// MaxBytes bounds the memory for weights; inputs and outputs may take half as much again. If 0, it is half of what
	// the host has available to this process, so that a quarter stays free.
	MaxBytes uint64
	// Least holds no more layers than it takes for their weights to be read from memory, as those of all are.
	Least bool
	// Features is what kernels may need. If 0, host.CPU.Features is used.
	Features probe.Feature

	// lookup finds a kernel by its name; if nil, kernels.ByName does. Tests use it to bring in bad ones.
	lookup func(name string) (kernels.Kernel, bool)
}

// CPU is the live processor as a Target. It holds the ternary weights of the whole model, so that a decode pass reads
// what a real one reads, in the same order. Its methods may be called concurrently: they take turns.
type CPU struct {
	host    probe.Host
	model   model.Model
	options CPUOptions
	format  kernels.Format
	budget  uint64 // bytes that the weights may take, and half as much again the inputs and outputs; 0 = unknown
	note    string
	place   string // what Residency returns
	cached  bool   // the weights fit the caches

	turn       chan struct{} // held by whoever uses what follows
	closed     bool
	weights    *weights
	next       int                   // the matmul to run next, whatever the arm
	pools      map[int]*kernels.Pool // by number of threads
	references map[*kernels.Packed]*reference
	batch      int                          // the largest so far: what inputs and outputs have room for
	inputs     map[int]*kernels.Activations // by K
	outputs    map[int][]int32              // by N
	words      *rand.Rand                   // draws the words of the references
}

var _ Target = (*CPU)(nil)

// NewCPU draws random weights for m in the layout of opt and holds them until Close. Where memory does not allow all
// layers it holds as many whole ones as fit, and Note says so; where those would fit into the caches, or not even one
// fits, the error wraps ErrOutOfMemory. It takes about as long as writing the weights once, and holds a thread pool
// of the host's usable cores.
func NewCPU(ctx context.Context, host probe.Host, m model.Model, opt CPUOptions) (*CPU, error) {
	if opt.Features == 0 {
		opt.Features = host.CPU.Features
	}
	if opt.lookup == nil {
		opt.lookup = kernels.ByName
	}
	c := &CPU{
		host: host, model: m, options: opt, turn: make(chan struct{}, 1),
		pools:      make(map[int]*kernels.Pool),
		references: make(map[*kernels.Packed]*reference),
		words:      rand.New(rand.NewPCG(opt.Seed, streamWords)),
	}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("target: hold %s on the CPU: %w", m.Name, err), c.Close())
	}
	return c, nil
}

func (c *CPU) open(ctx context.Context) (err error) {
	var ok bool
	if c.format, ok = kernels.FormatOf(c.options.Layout); !ok {
		return fmt.Errorf("layout %q: want one of %v: %w", c.options.Layout, kernels.Layouts(), ErrRejected)
	}
	if err := checkModel(c.model); err != nil {
		return err
	}
	c.budget = c.options.MaxBytes
	if c.budget == 0 {
		c.budget = c.host.Memory.AvailableBytes / 2
	}
	layers, err := c.layersThatFit()
	if err != nil {
		return err
	}
	pool, err := c.pool(c.maxThreads())
	if err != nil {
		return err
	}
	if c.weights, err = newWeights(ctx, c.format, c.model.Layer(), layers, c.options.Seed, pool); err != nil {
		return err
	}
	cache := cacheBytes(c.host.CPU)
	c.place = residency(c.weights.memory, cache)
	c.cached = uint64(len(c.weights.memory.Bytes)) <= cache
	return nil
}

// checkModel refuses what cannot be packed.
func checkModel(m model.Model) error {
	if m.Layers < 1 || len(m.Layer()) == 0 {
		return fmt.Errorf("model %q: want one with ternary matmuls: %w", m.Name, ErrRejected)
	}
	for _, mm := range m.Layer() {
		if mm.N < 1 || mm.K < 1 || mm.K > kernels.MaxCols {
			return fmt.Errorf("model %q: matmul %s of %d x %d: want at least 1 row and 1 to %d columns: %w",
				m.Name, mm.Role, mm.N, mm.K, kernels.MaxCols, ErrRejected)
		}
	}
	return nil
}

// coldFactor is how many times the last-level cache a set of weights must be for a pass in order to find next to
// nothing of the pass before in it: with 4, a cache that evicts at random keeps under 2 % until it is used again
// (the fraction h that is hit solves h = exp(-4 (1-h))).
const coldFactor = 4

// layersThatFit returns how many layers the budget allows.
func (c *CPU) layersThatFit() (int, error) {
	layer := layerBytes(c.format, c.model.Layer())
	cold := max(layer, coldFactor*cacheBytes(c.host.CPU))
	if least := int((cold + layer - 1) / layer); c.options.Least && cacheBytes(c.host.CPU) > 0 && least < c.model.Layers {
		c.note = fmt.Sprintf("holds %d of %d layers, to set up quickly and to take little memory", least, c.model.Layers)
		if uint64(least)*layer <= c.budget || c.budget == 0 {
			return least, nil
		}
	}
	if c.budget == 0 { // the host does not tell what is available
		return c.model.Layers, nil
	}
	if layer*uint64(c.model.Layers) <= c.budget {
		return c.model.Layers, nil
	}
	layers := c.budget / layer
	if layers*layer < cold {
		return 0, fmt.Errorf("weights need %d bytes to be read from memory and not from a cache, and %d may be used: "+
			"free memory or raise the limit: %w", min(cold, layer*uint64(c.model.Layers)), c.budget, ErrOutOfMemory)
	}
	c.note = fmt.Sprintf("holds %d of %d layers, because %d bytes may be used for weights and all need %d",
		layers, c.model.Layers, c.budget, layer*uint64(c.model.Layers))
	return int(layers), nil
}

// cacheBytes is the size of the last level of caches, all instances together; 0 = unknown.
func cacheBytes(cpu probe.CPU) uint64 {
	for _, cache := range []probe.Cache{cpu.L3, cpu.L2} {
		if cache.Bytes > 0 {
			return uint64(cache.Bytes) * uint64(max(1, cache.Instances))
		}
	}
	return 0
}

// maxThreads is the most threads that an arm may have.
func (c *CPU) maxThreads() int {
	return max(1, min(c.host.CPU.UsableCores, len(c.host.CPU.CPUs)))
}

// Name implements Target.
func (c *CPU) Name() string { return "cpu" }

// Note says how what is measured differs from the whole model; "" = not at all.
func (c *CPU) Note() string { return c.note }

// WeightBytes returns the bytes of weights that one decoded token reads: all layers, also those left out.
func (c *CPU) WeightBytes() uint64 {
	return layerBytes(c.format, c.model.Layer()) * uint64(c.model.Layers)
}

// Residency says where the weights lie between two passes, and whether huge pages back them.
func (c *CPU) Residency() string { return c.place }

func residency(memory *kernels.Memory, cache uint64) string {
	size := uint64(len(memory.Bytes))
	place := "memory"
	switch {
	case cache == 0:
		place = "memory or cache (the host does not tell the size of its caches)"
	case size <= cache:
		place = "the last-level cache"
	case size < coldFactor*cache:
		place = "memory, in part the last-level cache"
	}
	pages := ""
	if huge, known := memory.HugePages(); known {
		pages = fmt.Sprintf(", %.0f %% on huge pages", 100*min(1, float64(huge)/float64(size)))
	}
	return fmt.Sprintf("%.0f MB of weights in %s%s", float64(size)/1e6, place, pages)
}

// Close ends the threads and frees the weights. Subjects return an error from then on. It may be called again.
func (c *CPU) Close() error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.closed = true
	for _, pool := range c.pools {
		pool.Close()
	}
	if c.weights == nil {
		return nil
	}
	return c.weights.memory.Free()
}

// take waits for the caller's turn; give ends it.
func (c *CPU) take(ctx context.Context) (give func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c.closed {
		<-c.turn
		return nil, errors.New("the target is closed")
	}
	return func() { <-c.turn }, nil
}

// pool returns the pool of that many threads, which stays parked while another one works.
func (c *CPU) pool(threads int) (*kernels.Pool, error) {
	if pool := c.pools[threads]; pool != nil {
		return pool, nil
	}
	cpus := c.host.CPU.CPUs
	if len(cpus) == 0 {
		cpus = []int{0}
	}
	pool, err := kernels.NewPool(cpus[:threads])
	if err == nil {
		c.pools[threads] = pool
	}
	return pool, err
}

// Prepare implements Target. One iteration of the subject is the matmuls of one layer in order, of the next one each
// time, whatever arm ran before: so the weights come from as far as they do in a real pass. Activations are made and
// quantised once, before: a subject's time is that of the matmuls alone.
//
// The outputs of every distinct shape are verified here (see reference), and after every Run of the subject those of a
// matmul of the last layer again, outside its time.
func (c *CPU) Prepare(ctx context.Context, regime Regime, arm Arm) (measure.Subject, error) {
	fail := func(err error) (measure.Subject, error) {
		return measure.Subject{}, fmt.Errorf("target: prepare %s for %s: %w", arm.Kernel, regime, err)
	}
	give, err := c.take(ctx)
	if err != nil {
		return fail(err)
	}
	defer give()
	kernel, err := c.check(regime, arm)
	if err != nil {
		return fail(err)
	}
	p, err := c.pass(arm, kernel)
	if err != nil {
		return fail(err)
	}
	if err := p.verify(ctx); err != nil {
		return fail(err)
	}
	return measure.Subject{Name: arm.String(), Units: float64(arm.Batch) / float64(c.model.Layers), Run: p.run}, nil
}

// check finds the kernel of an arm and refuses what this target cannot do, naming the field.
func (c *CPU) check(regime Regime, arm Arm) (kernels.Kernel, error) {
	reject := func(field string, got any, want string, args ...any) error {
		return fmt.Errorf("%s %v: want %s: %w", field, got, fmt.Sprintf(want, args...), ErrRejected)
	}
	kernel, known := c.options.lookup(arm.Kernel)
	tile := arm.Blocking.Tile
	switch {
	case regime != Decode && regime != SmallBatch && regime != Prefill:
		return kernel, reject("regime", regime, "%s, %s or %s", Decode, SmallBatch, Prefill)
	case arm.Layout != c.options.Layout:
		return kernel, reject("layout", arm.Layout, "%s, which this target holds", c.options.Layout)
	case !known:
		return kernel, reject("kernel", arm.Kernel, "one of %s", strings.Join(c.kernelNames(), ", "))
	case kernel.Layout != c.options.Layout:
		return kernel, reject("kernel", arm.Kernel, "one of layout %s, not %s", c.options.Layout, kernel.Layout)
	case !c.options.Features.Has(kernel.Needs):
		return kernel, reject("kernel", arm.Kernel, "one that needs no more than %s, not %s", c.options.Features, kernel.Needs)
	case arm.Threads < 1 || arm.Threads > c.maxThreads():
		return kernel, reject("threads", arm.Threads, "1 to %d, the usable cores", c.maxThreads())
	case arm.Batch < 1 || regime == Decode && arm.Batch != 1:
		return kernel, reject("batch", arm.Batch, "1 for %s, else 1 or more", Decode)
	case tile != kernels.Tile{} && !slices.Contains(kernel.Tiles, tile):
		return kernel, reject("tile", tile, "0x0 or one of %v", kernel.Tiles)
	case arm.Blocking.PrefetchBytes < 0:
		return kernel, reject("prefetch_bytes", arm.Blocking.PrefetchBytes, "0 or more")
	case arm.Blocking.ChunkRows < 0:
		return kernel, reject("chunk_rows", arm.Blocking.ChunkRows, "0 or more")
	}
	return kernel, nil
}

func (c *CPU) kernelNames() []string {
	var names []string
	for _, k := range kernels.Usable(c.options.Features) {
		if k.Layout == c.options.Layout {
			names = append(names, k.Name)
		}
	}
	return names
}

// enter makes the calling goroutine the pool's worker 0 and wakes the others, which is no part of any arm's time.
func enter(pool *kernels.Pool) (leave func()) {
	leave = pool.Enter()
	pool.Run(func(int) {})
	return leave
}

// attempt runs f and turns a panic of a kernel into an error.
func attempt(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("kernel panicked: %v", v)
		}
	}()
	return f()
}
