package target

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	gpukernels "github.com/bitnet-autotune/bitnet-autotune/cuda/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/sim"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

// tall is a model of two layers with rows long enough to be split.
var tall = model.Model{Name: "tall", Layers: 2, Shapes: []model.Shape{
	{N: 40, K: 450, Count: 4, Roles: "gate,up"},
	{N: 17, K: 390, Count: 2, Roles: "down"},
}}

// rig is a CUDA target on a simulated card.
type rig struct {
	*CUDA
	machine *sim.Machine
}

// openCUDA is a target for the model tall. At its end nothing may be left on the card.
func openCUDA(t testing.TB, opt CUDAOptions) rig {
	t.Helper()
	m, err := sim.New(sim.Config{Devices: []sim.DeviceSpec{{TotalBytes: 8 << 30, Capability: [2]int32{9, 0}}}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := driver.Open(m.Table())
	if err != nil {
		t.Fatal(err)
	}
	if opt.Layouts == nil {
		opt.Layouts = gpukernels.Layouts()
	}
	opt.Seed = 1
	c, err := NewCUDA(d, d.Devices()[0], Card{Capability: gpu.Capability{Major: 9}}, tall, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), d.Close()); err != nil && c.Lost() == nil {
			t.Error(err)
		}
		if leaks := m.Leaks(); len(leaks) > 0 && c.Lost() == nil {
			t.Errorf("left on the card: %q", leaks)
		}
	})
	return rig{c, m}
}

var noshift = Arm{Layout: kernels.I2S, Kernel: "mul/i2s/noshift/kw4-rt1-m1-u2", Batch: 1}

// Of each layout and method the first kernel, as they are named, with rows in two parts.
func TestCUDAArmsAreRight(t *testing.T) {
	c := openCUDA(t, CUDAOptions{})
	type kind struct {
		layout kernels.Layout
		method gpukernels.Method
	}
	tried := map[kind]bool{}
	for _, k := range gpukernels.Usable(90) {
		of := kind{k.Layout, k.Method}
		if tried[of] {
			continue
		}
		tried[of] = true
		arm := Arm{Layout: k.Layout, Kernel: k.Name, Batch: 3}
		arm.Launch.SplitK = 2
		s, err := c.Prepare(t.Context(), SmallBatch, arm)
		if err != nil {
			t.Errorf("%s: %v", arm, err)
			continue
		}
		if took, err := s.Run(t.Context(), 1); err != nil || took <= 0 {
			t.Errorf("%s: %v, %v", arm, took, err)
		}
		if s.Units != 3 {
			t.Errorf("%s: %v tokens to an iteration, want 3: memory has room for all layers twice", arm, s.Units)
		}
	}
	if trouble := c.machine.Trouble(); len(trouble) > 0 {
		t.Error(trouble)
	}
}

// Launching a graph costs the host and the device time, which is none of the arm's: forty passes take four times ten.
func TestCUDALaunchCostCancels(t *testing.T) {
	c := openCUDA(t, CUDAOptions{})
	s, err := c.Prepare(t.Context(), Decode, noshift)
	if err != nil {
		t.Fatal(err)
	}
	ten, err := s.Run(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	forty, err := s.Run(t.Context(), 40)
	if err != nil {
		t.Fatal(err)
	}
	if ratio := float64(forty) / float64(ten); math.Abs(ratio-4) > 0.2 {
		t.Errorf("ten passes %v, forty %v: want four times as long", ten, forty)
	}
}

func TestCUDAWrongResultsAreFound(t *testing.T) {
	c := openCUDA(t, CUDAOptions{})
	spoil := func() {
		l := c.state.layers[kernels.I2S]
		if err := driver.Upload(c.device, l.data.Ptr, slices.Repeat([]byte{0x55}, int(l.bytes)*l.count)); err != nil { // all weights 0
			t.Fatal(err)
		}
	}
	s, err := c.Prepare(t.Context(), Decode, noshift)
	if err != nil {
		t.Fatal(err)
	}
	spoil()
	if _, err := s.Run(t.Context(), 1); !errors.Is(err, ErrMismatch) {
		t.Errorf("after a run: %v, want a mismatch", err)
	}
	other := noshift
	other.Launch.MaxRegisters = 64
	if _, err := c.Prepare(t.Context(), Decode, other); !errors.Is(err, ErrMismatch) {
		t.Errorf("before the first run: %v, want a mismatch", err)
	}
}

func TestCUDARefusesWhatItCannotDo(t *testing.T) {
	c := openCUDA(t, CUDAOptions{})
	for name, spoil := range map[string]func(*Arm){
		"kernel": func(a *Arm) { a.Kernel = "mul/i2s/abacus" },
		"layout": func(a *Arm) { a.Layout = kernels.TL1 },
		"batch":  func(a *Arm) { a.Batch = 2 },
		"launch": func(a *Arm) { a.Launch.SplitK = -1 },
		"parts":  func(a *Arm) { a.Launch.SplitK = 8 },
	} {
		a := noshift
		spoil(&a)
		if _, err := c.Prepare(t.Context(), Decode, a); !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want a rejection that names it", name, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Prepare(ended, Decode, noshift); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of ctx: %v", err)
	}
}

// What the driver refuses is the arm's failure, and the next arm's success.
func TestCUDAFaults(t *testing.T) {
	for name, f := range map[string]struct {
		plan string
		want error
	}{
		"the compiler refuses":            {"ModuleLoadDataEx:1=218", ErrRejected},
		"no compiler":                     {"ModuleLoadDataEx:1=221", ErrRejected},
		"the PTX is too new":              {"ModuleLoadDataEx:1=222", ErrRejected},
		"too many registers":              {"LaunchKernel:1=701", ErrRejected},
		"no memory":                       {"MemAlloc:1+=2,MemCreate:1+=2", ErrOutOfMemory},
		"no event":                        {"EventCreate:2=2", ErrOutOfMemory},
		"a kernel reads where it may not": {"StreamSynchronize:2=700", driver.ErrDeviceLost},
		"a graph cannot be made":          {"GraphInstantiate:2=999", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := openCUDA(t, CUDAOptions{})
			if err := c.machine.Fault(f.plan); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Prepare(t.Context(), Decode, noshift); err == nil || f.want != nil && !errors.Is(err, f.want) {
				t.Errorf("%v, want %v", err, f.want)
			}
			c.machine.Heal()
			s, err := c.Prepare(t.Context(), Decode, noshift)
			if err != nil {
				t.Fatalf("the next arm: %v", err)
			}
			if _, err := s.Run(t.Context(), 1); err != nil {
				t.Errorf("the next arm: %v", err)
			}
		})
	}
}

// A lost device is reset, and what was prepared before runs again; the third time it is given up.
func TestCUDASurvivesTwoResets(t *testing.T) {
	c := openCUDA(t, CUDAOptions{})
	good, err := c.Prepare(t.Context(), Decode, noshift)
	if err != nil {
		t.Fatal(err)
	}
	for loss := 1; loss <= maxResets+1; loss++ {
		if err := c.machine.Fault("GraphLaunch:1=719"); err != nil {
			t.Fatal(err)
		}
		if _, err := good.Run(t.Context(), 1); !errors.Is(err, driver.ErrDeviceLost) {
			t.Fatalf("loss %d: %v, want that the device was lost", loss, err)
		}
		took, err := good.Run(t.Context(), 1)
		if loss <= maxResets && (err != nil || took <= 0 || c.Lost() != nil) {
			t.Errorf("after loss %d: %v, %v: want it to run again", loss, took, err)
		}
		if loss > maxResets && (err == nil || c.Lost() == nil) {
			t.Errorf("after loss %d: %v, want it given up", loss, err)
		}
	}
}

func TestCUDAHoldsAsManyLayersAsFit(t *testing.T) {
	c := openCUDA(t, CUDAOptions{Layouts: []kernels.Layout{kernels.I2S}})
	if _, err := c.Prepare(t.Context(), Decode, noshift); err != nil || c.Note() != "" {
		t.Fatalf("%v, note %q: want room for everything", err, c.Note())
	}
	layer := c.state.layers[kernels.I2S].bytes
	small := openCUDA(t, CUDAOptions{Layouts: []kernels.Layout{kernels.I2S}, MaxBytes: 3 * layer})
	s, err := small.Prepare(t.Context(), Decode, noshift)
	if err != nil || s.Units != 0.5 || !strings.Contains(small.Note(), "holds 1 of 2 layers") {
		t.Errorf("%v, %v tokens to an iteration, note %q: want half a pass and a note of it", err, s.Units, small.Note())
	}
	tiny := openCUDA(t, CUDAOptions{Layouts: []kernels.Layout{kernels.I2S}, MaxBytes: layer})
	if _, err := tiny.Prepare(t.Context(), Decode, noshift); !errors.Is(err, ErrOutOfMemory) {
		t.Errorf("room for one layer: %v, want out of memory", err)
	}
}

// A larger batch takes new room, and what was captured in the old one is made anew.
func TestCUDALaterBatchIsLarger(t *testing.T) {
	c := openCUDA(t, CUDAOptions{})
	first, err := c.Prepare(t.Context(), Decode, noshift)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Prepare(t.Context(), Prefill, Arm{Layout: kernels.I2S, Kernel: "mul/i2s/gemm/w4-rt1-m32-s2", Batch: 40}); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Run(t.Context(), 1); err != nil {
		t.Error(err)
	}
	small := openCUDA(t, CUDAOptions{MaxBytes: 1 << 20})
	if _, err := small.Prepare(t.Context(), Prefill, Arm{Layout: kernels.I2S, Kernel: "mul/i2s/gemm/w4-rt1-m32-s2", Batch: 4096}); !errors.Is(err, ErrOutOfMemory) {
		t.Errorf("4096 tokens in 1 MiB: %v, want out of memory", err)
	}
}

// A target leaves nothing on the card while the driver, which others use too, stays open: also no graph of an arm.
func TestCUDACloseLeavesNothing(t *testing.T) {
	c := openCUDA(t, CUDAOptions{Layouts: []kernels.Layout{kernels.I2S}})
	if _, err := c.Prepare(t.Context(), Decode, noshift); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, left := range c.machine.Leaks() {
		if !strings.Contains(left, "primary context") {
			t.Errorf("left on the card: %s", left)
		}
	}
}
