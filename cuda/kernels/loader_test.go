package kernels_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/kernels/kerneltest"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/sim"
	cpu "github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// simulated is a machine with one card, and its driver.
func simulated(t *testing.T, major, minor int32, edit func(*driver.Table)) (*sim.Machine, *driver.Device) {
	t.Helper()
	m, err := sim.New(sim.Config{Devices: []sim.DeviceSpec{{Capability: [2]int32{major, minor}}}})
	if err != nil {
		t.Fatal(err)
	}
	table := m.Table()
	if edit != nil {
		edit(&table)
	}
	d, err := driver.Open(table)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		m.Close()
	})
	return m, d.Devices()[0]
}

// TestSuiteOnTheSimulatedDriver runs a kernel of each layout and method as a program does: through the driver.
func TestSuiteOnTheSimulatedDriver(t *testing.T) {
	_, device := simulated(t, 9, 0, nil)
	card, err := kerneltest.NewCard(device)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := card.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("quantizers", func(t *testing.T) { kerneltest.Quantizers(t, card, kerneltest.Quick) })
	type kind struct {
		layout cpu.Layout
		method kernels.Method
	}
	seen := map[kind]bool{}
	for _, k := range kernels.Usable(card.Capability()) {
		if kind := (kind{k.Layout, k.Method}); !seen[kind] {
			seen[kind] = true
			if err := kerneltest.Check(t.Context(), card, k, kerneltest.Case{Shape: cpu.Shape{M: 2, N: 17, K: 450}, Split: 1, Fill: kerneltest.Random}); err != nil {
				t.Error(err)
			}
		}
	}
	if len(seen) != 9 {
		t.Errorf("%d kinds of kernels, want 9: %v", len(seen), seen)
	}
}

// TestKernelsOnThisMachinesGPU is the whole suite on a real card; make gpu runs it with -full.
func TestKernelsOnThisMachinesGPU(t *testing.T) {
	d, err := driver.Local(driver.Options{Library: os.Getenv("BITNET_CUDA_LIBRARY")})
	if err != nil || len(d.Devices()) == 0 {
		if slices.Contains(strings.Split(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), ","), "cuda") {
			t.Fatalf("BITNET_AUTOTUNE_REQUIRE asks for cuda: %v", err)
		}
		t.Skipf("NOT TESTED: the kernels on a card: %v", err)
	}
	defer d.Close()
	for _, device := range d.Devices() {
		t.Run(device.Name(), func(t *testing.T) {
			card, err := kerneltest.NewCard(device)
			if err != nil {
				t.Fatal(err)
			}
			defer card.Close()
			t.Run("kernels", func(t *testing.T) { kerneltest.Run(t, card, depth()) })
			t.Run("quantizers", func(t *testing.T) { kerneltest.Quantizers(t, card, depth()) })
		})
	}
}

func someKernel(t *testing.T, name string) kernels.Kernel {
	t.Helper()
	k, ok := kernels.ByName(name)
	if !ok {
		t.Fatalf("no kernel %s", name)
	}
	return k
}

func TestLoaderCompilesEachKernelOnce(t *testing.T) {
	m, device := simulated(t, 8, 9, nil)
	l, err := kernels.NewLoader(device)
	if err != nil {
		t.Fatal(err)
	}
	one, two := someKernel(t, "mul/i2s/noshift/kw4-rt1-m1-u1"), someKernel(t, "mul/tl2/mma/kw2-rt1-m8-u1")
	first, err := l.Function(one, driver.JIT{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kernel kernels.Kernel
		jit    driver.JIT
		loads  int
	}{{one, driver.JIT{}, 1}, {two, driver.JIT{}, 2}, {one, driver.JIT{MaxRegisters: 64}, 3}, {two, driver.JIT{}, 3}} {
		f, err := l.Function(c.kernel, c.jit)
		if err != nil {
			t.Fatal(err)
		}
		if same := f == first; same != (c.kernel.Name == one.Name && c.jit == driver.JIT{}) {
			t.Errorf("%s with %+v: the same function as at first: %t", c.kernel.Name, c.jit, same)
		}
		if got := m.Calls("ModuleLoadDataEx"); got != c.loads {
			t.Errorf("%s with %+v: %d modules were loaded, want %d", c.kernel.Name, c.jit, got, c.loads)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := m.Calls("ModuleUnload"); got != 3 {
		t.Errorf("%d modules unloaded, want 3", got)
	}
}

func TestLoaderErrors(t *testing.T) {
	t.Run("a card that is too old", func(t *testing.T) {
		_, device := simulated(t, 7, 5, nil)
		l, err := kernels.NewLoader(device)
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Function(someKernel(t, "mul/i2s/mma/kw4-rt1-m8-u1"), driver.JIT{})
		if err == nil || !strings.Contains(err.Error(), "needs a card of at least sm_80, this one is sm_75") {
			t.Errorf("error %v, want one that names both capabilities", err)
		}
	})
	t.Run("a compiler that refuses", func(t *testing.T) {
		m, device := simulated(t, 8, 0, nil)
		l, err := kernels.NewLoader(device)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Fault("ModuleLoadDataEx:1=218"); err != nil {
			t.Fatal(err)
		}
		k := someKernel(t, "mul/i2s/noshift/kw4-rt1-m1-u1")
		if _, err := l.Function(k, driver.JIT{}); !errors.Is(err, driver.ErrInvalidPTX) || !strings.Contains(err.Error(), k.Symbol()) {
			t.Errorf("error %v, want one that is ErrInvalidPTX and names the kernel", err)
		}
		if _, err := l.Function(k, driver.JIT{}); err != nil {
			t.Errorf("a failure was remembered: %v", err)
		}
	})
}

// TestLaunchClearsWhatItAddsTo multiplies with split columns into a dst that is full of something else, twice.
func TestLaunchClearsWhatItAddsTo(t *testing.T) {
	_, device := simulated(t, 8, 0, nil)
	l, err := kernels.NewLoader(device)
	if err != nil {
		t.Fatal(err)
	}
	k := someKernel(t, "mul/i2s/noshift/kw4-rt1-m1-u1")
	f, err := l.Function(k, driver.JIT{})
	if err != nil {
		t.Fatal(err)
	}
	const n, cols = 16, 512
	ones := make([]int8, n*cols)
	for i := range ones {
		ones[i] = 1
	}
	w, err := kernels.Pack(cpu.I2S, ones, n, cols)
	if err != nil {
		t.Fatal(err)
	}
	p := kernels.MulParams{
		Dst: upload(t, device, []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}), W: upload(t, device, w.Data),
		X: upload(t, device, append(ones[:cols:cols], make([]int8, kernels.Stride(cols)-cols)...)), Sum: upload(t, device, []int32{cols}),
		M: 1, N: n, K: cols, Stride: int32(kernels.Stride(cols)),
	}
	s, err := device.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	for _, split := range []int{4, 3, 1} {
		if err := k.Launch(s, f, &p, split); err != nil {
			t.Fatal(err)
		}
		if err := s.Synchronize(); err != nil {
			t.Fatal(err)
		}
		got := make([]int32, n)
		if err := driver.Download(device, got, p.Dst); err != nil {
			t.Fatal(err)
		}
		if want := slices.Repeat([]int32{cols}, n); !slices.Equal(got, want) {
			t.Errorf("in %d parts: %v, want %v", split, got, want)
		}
	}
	if err := k.Launch(s, f, &p, 5); err == nil || !strings.Contains(err.Error(), "want 1 to 4") {
		t.Errorf("in 5 parts: error %v, want one that says how many there may be", err)
	}
}

func upload[T any](t *testing.T, d *driver.Device, values []T) driver.Ptr {
	t.Helper()
	p, err := d.Alloc(uint64(len(values)) * uint64(unsafe.Sizeof(values[0])))
	if err != nil {
		t.Fatal(err)
	}
	if err := driver.Upload(d, p, values); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestLaunchDoesNotAllocate leaves the simulator out, which does.
func TestLaunchDoesNotAllocate(t *testing.T) {
	launches := 0
	_, device := simulated(t, 8, 0, func(table *driver.Table) {
		table.LaunchKernel = func(driver.FunctionHandle, uint32, uint32, uint32, uint32, uint32, uint32, uint32, driver.StreamHandle, *unsafe.Pointer, *driver.LaunchExtra) driver.Result {
			launches++
			return driver.Success
		}
	})
	l, err := kernels.NewLoader(device)
	if err != nil {
		t.Fatal(err)
	}
	k, q := someKernel(t, "mul/i2s/gemm/w4-rt1-m32-s2"), kernels.Quantizers()[0]
	f, err := l.Function(k, driver.JIT{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := l.Function(q, driver.JIT{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := device.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	mul, quantize := kernels.MulParams{M: 40, N: 100, K: 2560}, kernels.QuantizeParams{K: 2560}
	allocated := testing.AllocsPerRun(50, func() {
		if k.Launch(s, f, &mul, 1) != nil || q.Launch(s, g, &quantize, 40) != nil {
			t.Fatal("a launch failed")
		}
	})
	if allocated > 0 && !raceEnabled {
		t.Errorf("%v allocations per launch, want 0", allocated)
	}
	if launches == 0 {
		t.Error("nothing was launched")
	}
}
