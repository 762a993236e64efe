package kernels_test

import (
	"context"
	"flag"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/kernels/kerneltest"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/sim/ptx"
	cpu "github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// make check sets this.
var full = flag.Bool("full", false, "run every kernel on the full grid of cases")

// interpreter runs PTX without a driver.
type interpreter struct {
	target kernels.Capability
	edit   func(text string) string // nil: none
	mu     sync.Mutex
	loaded map[string]func() (*ptx.Module, error)
}

func newInterpreter(target kernels.Capability) *interpreter {
	return &interpreter{target: target, loaded: map[string]func() (*ptx.Module, error){}}
}

func (in *interpreter) Capability() kernels.Capability { return in.target }

// kernel reads the PTX of one kernel, once.
func (in *interpreter) kernel(e kernels.Entry) (*ptx.Kernel, error) {
	in.mu.Lock()
	load, ok := in.loaded[e.Symbol()]
	if !ok {
		load = sync.OnceValues(func() (*ptx.Module, error) {
			text, err := kernels.Text(e, in.target)
			if err != nil {
				return nil, err
			}
			if in.edit != nil {
				return ptx.Parse(in.edit(string(text)))
			}
			return ptx.Parse(string(text))
		})
		in.loaded[e.Symbol()] = load
	}
	in.mu.Unlock()
	m, err := load()
	if err != nil {
		return nil, err
	}
	return m.Kernel(e.Symbol())
}

func (in *interpreter) Run(ctx context.Context, e kernels.Entry, shape driver.Launch, buffers [][]byte, numbers ...int32) error {
	_, err := in.count(ctx, e, shape, buffers, numbers...)
	return err
}

func (in *interpreter) count(ctx context.Context, e kernels.Entry, shape driver.Launch, buffers [][]byte, numbers ...int32) (ptx.Stats, error) {
	k, err := in.kernel(e)
	if err != nil {
		return ptx.Stats{}, err
	}
	var heap ptx.Heap
	at := make([]driver.Ptr, len(buffers))
	for i, b := range buffers {
		at[i] = driver.Ptr(heap.Put(b))
	}
	l := ptx.Launch{SharedBytes: int(shape.SharedBytes), Params: kerneltest.Params(at, numbers), Workers: 1}
	for i := range 3 {
		l.Grid[i], l.Block[i] = int(shape.Grid[i]), int(shape.Block[i])
	}
	return k.Launch(ctx, &heap, l)
}

func depth() kerneltest.Depth {
	switch {
	case *full:
		return kerneltest.Full
	case testing.Short():
		return kerneltest.Quick
	}
	return kerneltest.Normal
}

// tested are the targets to test for: the race detector looks at the interpreter and the suite, not at the kernels.
func tested() []kernels.Capability {
	if testing.Short() {
		return []kernels.Capability{kernels.TensorCore}
	}
	return []kernels.Capability{kernels.DP4A, kernels.TensorCore}
}

func TestKernelsEqualTheReference(t *testing.T) {
	for _, target := range tested() {
		t.Run(target.String(), func(t *testing.T) { kerneltest.Run(t, newInterpreter(target), depth()) })
	}
}

func TestQuantizersEqualTheCPUs(t *testing.T) {
	for _, target := range tested() {
		t.Run(target.String(), func(t *testing.T) { kerneltest.Quantizers(t, newInterpreter(target), depth()) })
	}
}

// TestPlantedFaultsAreCaught spoils the PTX of a kernel and expects the suite's machine to notice: else it would prove
// nothing that all others pass.
func TestPlantedFaultsAreCaught(t *testing.T) {
	const kernel = "mul/i2s/noshift/kw4-rt1-m1-u1"
	for name, c := range map[string]struct{ kernel, old, new, want string }{
		"mask of another field":    {kernel, "202116108", "50529027", "differs"},
		"lane too far":             {kernel, "ld.global.nc.v4.u32 ", "ld.global.nc.u32 ", "line"},
		"no barrier":               {kernel, "bar.sync \t0;", "", "race"},
		"weights of another tile":  {kernel, "+0];", "+16];", "out of bounds"},
		"weights between two":      {kernel, "+0];", "+8];", "misaligned"},
		"no such instruction":      {kernel, "dp4a.u32.s32", "dp4a.u32.u64", "dp4a"},
		"not on this target":       {kernel, ".target sm_80", ".target sm_60", "dp4a"},
		"signs of codes":           {kernel, "dp4a.u32.s32", "dp4a.s32.s32", "differs"},
		"copies that are not over": {"mul/i2s/gemm/w4-rt1-m32-s2", "cp.async.wait_group 0;", "", "cp.async has not been waited for"},
	} {
		t.Run(name, func(t *testing.T) {
			k, ok := kernels.ByName(c.kernel)
			if !ok {
				t.Fatal("no such kernel")
			}
			in := newInterpreter(kernels.TensorCore)
			in.edit = func(text string) string {
				if !strings.Contains(text, c.old) {
					t.Fatalf("the PTX has no %q: has its form changed?", c.old)
				}
				return strings.ReplaceAll(text, c.old, c.new)
			}
			err := kerneltest.Check(t.Context(), in, k, kerneltest.Case{Shape: cpu.Shape{M: 2, N: 17, K: 1409}, Split: 1, Fill: kerneltest.Random})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestInstructionsPerFourWeights counts what threads execute in the interpreter: a figure of the PTX, the same on every
// machine, in which a change of a template or of the compiler shows. It is no measure of speed: a card may run some
// instructions in a quarter of the time of others.
func TestInstructionsPerFourWeights(t *testing.T) {
	const n, k = 64, 6912 // with what it takes to start and to add up
	for name, want := range map[string]float64{
		"mul/i2s/noshift/kw4-rt1-m1-u1": 2.93,
		"mul/i2s/noshift/kw4-rt1-m1-u4": 2.75,
		"mul/i2s/noshift/kw4-rt4-m1-u1": 2.50,
		"mul/i2s/shift/kw4-rt1-m1-u1":   3.64,
		"mul/i2s/shift/kw4-rt2-m1-u1":   3.31,
		"mul/i2s/mma/kw4-rt1-m8-u1":     2.96,
		"mul/tl1/decode/kw4-rt1-m1-u1":  4.64,
		"mul/tl2/decode/kw4-rt1-m1-u1":  7.41,
	} {
		kernel, ok := kernels.ByName(name)
		if !ok {
			t.Fatalf("no kernel %s", name)
		}
		in := newInterpreter(kernels.TensorCore)
		counted := &counter{interpreter: in}
		if err := kerneltest.Check(t.Context(), counted, kernel, kerneltest.Case{Shape: cpu.Shape{M: 1, N: n, K: k}, Split: 1, Fill: kerneltest.Random}); err != nil {
			t.Fatal(err)
		}
		if got := float64(counted.stats.Instructions) / (n * k / 4); math.Abs(got/want-1) > 0.01 { // an instruction in the loop is 2 %
			t.Errorf("%s: %.3f instructions for four weights, want %.2f", name, got, want)
		}
	}
}

// counter keeps the figures of the last launch.
type counter struct {
	*interpreter
	stats ptx.Stats
}

func (c *counter) Run(ctx context.Context, e kernels.Entry, shape driver.Launch, buffers [][]byte, numbers ...int32) (err error) {
	c.stats, err = c.count(ctx, e, shape, buffers, numbers...)
	return err
}
