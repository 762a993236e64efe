package tuner

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/sim"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model/modeltest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// lazy makes one kernel of a driver return at once and leave its outputs as they are: the fastest of all, and wrong.
func lazy(table driver.Table, symbol string) driver.Table {
	var handles []driver.FunctionHandle
	find, launch := table.ModuleGetFunction, table.LaunchKernel
	table.ModuleGetFunction = func(f *driver.FunctionHandle, m driver.ModuleHandle, name string) driver.Result {
		r := find(f, m, name)
		if r == driver.Success && name == symbol {
			handles = append(handles, *f)
		}
		return r
	}
	table.LaunchKernel = func(f driver.FunctionHandle, gx, gy, gz, bx, by, bz, shared uint32, s driver.StreamHandle, params *unsafe.Pointer, extra *driver.LaunchExtra) driver.Result {
		for _, h := range handles {
			if h == f {
				return driver.Success
			}
		}
		return launch(f, gx, gy, gz, bx, by, bz, shared, s, params, extra)
	}
	return table
}

// A whole tune over the driver of a simulated card, with the kernels as they are shipped: the planted fastest one wins,
// though another is faster still and wrong, and a third is refused by the compiler.
func TestTuneOnASimulatedCard(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: a whole tune on the simulated card takes 40 s under the race detector; run it without -short")
	}
	const fast, wrong = "mul_tl2_decode_kw2_rt1_m1_u1", "mul_tl2_decode_kw1_rt1_m1_u1"
	machine, err := sim.New(sim.Config{
		Devices: []sim.DeviceSpec{{TotalBytes: 4 << 30}}, Faults: "ModuleLoadDataEx:6=218",
		KernelTime: func(l sim.Launched) time.Duration {
			if l.Kernel == fast {
				return 400 * time.Microsecond
			}
			return 800 * time.Microsecond
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tiny.gguf")
	tiny := model.Model{Name: "tiny", Architecture: "bitnet-b1.58", Layers: 1, Hidden: 64, FFN: 64, Heads: 1, KVHeads: 1, HeadDim: 64, Vocab: 64, Tied: true}
	if err := modeltest.WriteI2S(file, tiny, 1); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	var tuner *Tuner
	tuner, err = Open(Options{
		Store: t.TempDir(), Host: fourCores(), Now: func() time.Time { return begin.Add(machine.Now()) },
		CUDA: func() (*driver.Driver, error) { return driver.Open(lazy(machine.Table(), wrong)) },
		Rig: func(_ context.Context, p Problem, seed uint64) (Rig, error) {
			rig, err := tuner.liveCUDA(t.Context(), p, seed)
			rig.Timer = &measure.Timer{MinSample: time.Nanosecond, WarmTime: time.Nanosecond, Rand: rand.NewPCG(seed, seed)}
			return rig, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tuner.Tune(t.Context(), file, Budget{Time: 6 * time.Second, Target: targetCUDA, Objective: ObjectiveDecode, Layout: kernels.TL2, Strategy: "exhaustive"})
	if err != nil {
		t.Fatal(err)
	}
	best := cert.Best.Config
	if cert.Verdict != measure.Adopt || best.Decode.Kernel != "mul/tl2/decode/kw2-rt1-m1-u1" || best.Strategy != GPUOnly || best.Layout != kernels.TL2 {
		t.Errorf("%s with %+v, warnings %q: want ADOPT of the planted kernel", cert.Verdict, best.Decode, cert.Warnings)
	}
	wrongs := 0
	for _, a := range cert.Wrong {
		if !strings.HasSuffix(a.Kernel, "kw1-rt1-m1-u1") {
			t.Errorf("%s was found wrong", a)
		}
		wrongs++
	}
	if wrongs == 0 || cert.Failed <= wrongs {
		t.Errorf("%d wrong arms of %d that failed: want the lazy kernel's, and the one that was refused", wrongs, cert.Failed)
	}
	plan, err := tuner.Plan(t.Context(), file)
	if err != nil || plan.Source != Measured || plan.Config.Decode != best.Decode {
		t.Errorf("plan %+v, %v: want what was measured", plan, err)
	}
	if err := tuner.Close(); err != nil {
		t.Error(err)
	}
	if leaks := machine.Leaks(); len(leaks) > 0 {
		t.Errorf("left on the card: %q", leaks)
	}
}

// A driver that hangs keeps no answer waiting for longer than its patience, and only once; when it answers at last, so does the GPU.
func TestAHangingDriverKeepsNoPlanWaiting(t *testing.T) {
	dir := t.TempDir()
	s := withGPU(7)
	if cert, err := s.open(t, dir, 1).Tune(t.Context(), anyModel, anyTarget); err != nil || cert.Placement.Strategy != GPUOnly {
		t.Fatalf("%+v, %v: want the GPU", cert, err)
	}
	patience := driverPatience
	driverPatience = 10 * time.Millisecond
	defer func() { driverPatience = patience }()
	woken, opens := make(chan struct{}), 0
	tuner := s.open(t, dir, 1)
	tuner.opt.CUDA = func() (*driver.Driver, error) {
		opens++
		<-woken
		return s.driver()
	}
	plan, err := tuner.Plan(t.Context(), anyModel)
	if err != nil || plan.Config.Strategy != CPUOnly || !strings.Contains(plan.Reason, "a config for a GPU is known, but there is no GPU: no answer from its driver so far") {
		t.Fatalf("%s because %q, %v: want the CPU, and why", plan.Config.Strategy, plan.Reason, err)
	}
	tuner.forget()
	if plan, err = tuner.Plan(t.Context(), anyModel); err != nil || plan.Config.Strategy != CPUOnly {
		t.Fatalf("again: %s, %v: want the CPU at once", plan.Config.Strategy, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if plan, err := tuner.Rollback(ctx, anyModel, "me", "a test"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("rolled back to %s, %v, while nobody knows which target answers", plan.Config.Strategy, err)
	}
	close(woken)
	<-tuner.lookForGPUs().looked
	tuner.plans[anyModel].checked.Store(-int64(fresh)) // its time is over
	if plan, err = tuner.Plan(t.Context(), anyModel); err != nil || plan.Config.Strategy != GPUOnly || opens != 1 {
		t.Errorf("once the driver answers: %s, %v, opened %d times: want the GPU, and that it was opened once", plan.Config.Strategy, err, opens)
	}
}

// A run that needs a driver which hangs ends when it is told to.
func TestAHangingDriverKeepsNoRunFromEnding(t *testing.T) {
	woken := make(chan struct{})
	s := withGPU(7)
	for _, target := range []string{targetCUDA, targetAuto} {
		tuner := s.open(t, t.TempDir(), 1)
		asked, answered := make(chan struct{}), make(chan struct{})
		tuner.opt.CUDA = func() (*driver.Driver, error) {
			defer close(answered)
			close(asked)
			<-woken
			return s.driver()
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-asked; cancel() }()
		if cert, err := tuner.Tune(ctx, anyModel, Budget{Time: time.Minute, Target: target}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %+v, %v: want it cancelled", target, cert, err)
		}
		if err := tuner.Close(); err != nil {
			t.Error(err)
		}
		defer func() { <-answered }()
	}
	close(woken)
}
