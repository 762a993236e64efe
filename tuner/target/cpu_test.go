package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// odd is a model of two layers whose shapes fit no block.
var odd = model.Model{Name: "odd", Layers: 2, Shapes: []model.Shape{
	{N: 100, K: 70, Count: 4, Roles: "q,o"},
	{N: 17, K: 70, Count: 4, Roles: "k,v"},
	{N: 210, K: 70, Count: 4, Roles: "gate,up"},
	{N: 70, K: 210, Count: 2, Roles: "down"},
}}

func localHost(t testing.TB) probe.Host {
	t.Helper()
	host, err := probe.Local(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// openCPU is a target of layout i2s for the model odd, which may use 2 threads whatever the machine has.
func openCPU(t testing.TB, lookup func(string) (kernels.Kernel, bool)) *CPU {
	t.Helper()
	host := localHost(t)
	host.CPU.UsableCores = 2
	host.CPU.CPUs = []int{0, runtime.NumCPU() - 1}
	c, err := NewCPU(t.Context(), host, odd, CPUOptions{Layout: kernels.I2S, Seed: 1, lookup: lookup})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

const generic = "mul/i2s/generic"

var decodeArm = Arm{Layout: kernels.I2S, Kernel: generic, Threads: 2, Batch: 1}

// needs skips a test aloud where this host lacks what k needs, or fails it where BITNET_AUTOTUNE_REQUIRE names that.
func needs(t *testing.T, k kernels.Kernel, have probe.Feature) {
	t.Helper()
	missing := k.Needs &^ have
	for _, name := range missing.Names() {
		if slices.Contains(strings.Split(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), ","), name) {
			t.Fatalf("BITNET_AUTOTUNE_REQUIRE asks for %s, which this host lacks", name)
		}
	}
	if missing != 0 {
		t.Skipf("NOT TESTED: %s: this host lacks %s", k.Name, missing)
	}
}

func TestEveryKernelIsVerifiedAndRuns(t *testing.T) {
	c := openCPU(t, nil)
	for _, k := range kernels.All() {
		if k.Layout != kernels.I2S {
			continue
		}
		t.Run(strings.ReplaceAll(k.Name, "/", "_"), func(t *testing.T) {
			needs(t, k, c.options.Features)
			for _, tile := range append(slices.Clone(k.Tiles), kernels.Tile{}) {
				verifyAndRun(t, c, k, tile)
			}
		})
	}
}

// verifyAndRun puts one tile through every regime.
func verifyAndRun(t *testing.T, c *CPU, k kernels.Kernel, tile kernels.Tile) {
	for _, tc := range []struct {
		regime                Regime
		threads, batch, chunk int
		units                 float64
	}{
		{Decode, 1, 1, 0, 0.5}, {Decode, 2, 1, 0, 0.5}, {Decode, 2, 1, 32, 0.5}, {SmallBatch, 2, 5, 0, 2.5}, {Prefill, 2, 37, 0, 18.5}, {Prefill, 1, 37, 48, 18.5},
	} {
		arm := Arm{Layout: k.Layout, Kernel: k.Name, Threads: tc.threads, Batch: tc.batch,
			Blocking: kernels.Blocking{Tile: tile, PrefetchBytes: 4096, ChunkRows: tc.chunk}}
		s, err := c.Prepare(t.Context(), tc.regime, arm)
		if err != nil {
			t.Fatal(err)
		}
		if s.Units != tc.units {
			t.Errorf("%s, %s: %v tokens per iteration, want %v", tc.regime, arm, s.Units, tc.units)
		}
		if elapsed, err := s.Run(t.Context(), 3); err != nil || elapsed <= 0 {
			t.Errorf("%s, %s: Run = %v, %v", tc.regime, arm, elapsed, err)
		}
	}
}

// call is one call of a kernel's Mul; right does what it should.
type call struct {
	dst   []int32
	w     *kernels.Packed
	x     *kernels.Activations
	rows  kernels.Rows
	right func(kernels.Rows)
}

// bad looks up kernels of which each does what mul does.
func bad(mul func(call)) func(string) (kernels.Kernel, bool) {
	return func(name string) (kernels.Kernel, bool) {
		k, ok := kernels.ByName(generic)
		if name == "bad" {
			right := k.Mul
			k.Mul = func(dst []int32, w *kernels.Packed, x *kernels.Activations, rows kernels.Rows, work []byte, opt kernels.Blocking) {
				mul(call{dst, w, x, rows, func(rows kernels.Rows) { right(dst, w, x, rows, work, opt) }})
			}
		}
		return k, ok
	}
}

func TestWrongKernelIsAMismatch(t *testing.T) {
	for _, tc := range []struct {
		name  string
		batch int
		mul   func(call)
		want  string
	}{
		{"one lane of one block", 1, func(c call) {
			c.right(c.rows)
			if c.w.N == 210 && c.rows.From <= 37 && 37 < c.rows.To {
				c.dst[37]++
			}
		}, "matmul 210 x 70, token 0, row 37"},
		{"the sign of one output", 2, func(c call) {
			c.right(c.rows)
			if c.w.K == 210 && c.rows.From == 0 {
				c.dst[70+20] = -c.dst[70+20]
			}
		}, "matmul 70 x 210, token 1, row 20"},
		{"two errors that cancel", 1, func(c call) {
			c.right(c.rows)
			if c.w.N == 210 && c.rows.From == 0 {
				c.dst[40]++
				c.dst[41]--
			}
		}, "matmul 210 x 70, token 0, row 40"},
		{"the tail is dropped", 1, func(c call) {
			if c.w.N == 17 {
				c.rows.To = min(c.rows.To, 16)
			}
			if c.rows.From < c.rows.To {
				c.right(c.rows)
			}
		}, "matmul 17 x 70, token 0, row 16"},
		{"later tokens", 5, func(c call) {
			c.right(c.rows)
			if c.x.M > 1 && c.w.N == 100 && c.rows.From == 0 {
				c.dst[4*c.w.N] = c.dst[0]
			}
		}, "matmul 100 x 70, token 4, row 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := openCPU(t, bad(tc.mul))
			arm := decodeArm
			arm.Kernel, arm.Batch = "bad", tc.batch
			_, err := c.Prepare(t.Context(), SmallBatch, arm)
			if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "bad") {
				t.Errorf("Prepare = %v, want ErrMismatch with the kernel and %q", err, tc.want)
			}
			arm.Kernel = generic
			if _, err := c.Prepare(t.Context(), SmallBatch, arm); err != nil {
				t.Errorf("a right kernel afterwards: %v", err)
			}
		})
	}
}

func TestKernelThatIsRightOnlyWhenWatched(t *testing.T) {
	for _, regime := range []Regime{SmallBatch, Prefill} {
		t.Run(string(regime), func(t *testing.T) {
			var watched atomic.Bool
			watched.Store(true)
			c := openCPU(t, bad(func(c call) {
				if watched.Load() {
					c.right(c.rows)
				}
			}))
			arm := decodeArm
			arm.Kernel, arm.Batch = "bad", 2
			s, err := c.Prepare(t.Context(), regime, arm)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Run(t.Context(), 2); err != nil {
				t.Fatalf("watched: %v", err)
			}
			watched.Store(false)
			for n := 1; n <= 2; n++ {
				if _, err := s.Run(t.Context(), n); !errors.Is(err, ErrMismatch) {
					t.Errorf("not watched, %d iterations: error %v, want ErrMismatch", n, err)
				}
			}
		})
	}
}

func TestPanickingKernelIsACrashOfTheArm(t *testing.T) {
	for _, tc := range []struct {
		name  string
		crash func(call)
		want  string
	}{
		{"index", func(c call) { c.dst[len(c.dst)]++ }, "index out of range"},
		{"fault", func(c call) { readBeyond(c.w.Data) }, "invalid memory address"},
	} {
		if tc.name == "fault" && runtime.GOOS != "linux" {
			continue // no fence to run into
		}
		t.Run(tc.name, func(t *testing.T) {
			var armed atomic.Bool
			c := openCPU(t, bad(func(c call) {
				c.right(c.rows)
				if armed.Load() && c.rows.From > 0 { // on worker 1
					tc.crash(c)
				}
			}))
			arm := decodeArm
			arm.Kernel = "bad"
			s, err := c.Prepare(t.Context(), Decode, arm)
			if err != nil {
				t.Fatal(err)
			}
			armed.Store(true)
			_, prepareErr := c.Prepare(t.Context(), Decode, arm)
			_, runErr := s.Run(t.Context(), 1)
			for _, err := range []error{prepareErr, runErr} {
				if err == nil || !strings.Contains(err.Error(), tc.want) ||
					errors.Is(err, ErrMismatch) || errors.Is(err, ErrRejected) || errors.Is(err, ErrOutOfMemory) {
					t.Errorf("error %v, want %q and none of the sentinels", err, tc.want)
				}
			}
			armed.Store(false)
			if _, err := s.Run(t.Context(), 2); err != nil {
				t.Errorf("after the crash: %v", err)
			}
		})
	}
}

// readBeyond reads data and what follows, up to the fence behind the weights and into it.
func readBeyond(data []byte) {
	start := unsafe.Pointer(unsafe.SliceData(data))
	for i := 0; i <= 4<<20; i += 4096 {
		sink.Add(int32(*(*byte)(unsafe.Add(start, i))))
	}
}

var sink atomic.Int32

func TestRejectedArmsNameTheField(t *testing.T) {
	c := openCPU(t, func(name string) (kernels.Kernel, bool) {
		k, ok := kernels.ByName(generic)
		switch name {
		case "other layout":
			k.Layout = "other"
		case "needs more":
			k.Needs = 1 << 63
		case "unknown":
			ok = false
		}
		return k, ok
	})
	for _, tc := range []struct {
		regime Regime
		change func(*Arm)
		want   string
	}{
		{"idle", func(*Arm) {}, "regime idle: want decode, small_batch or prefill"},
		{Decode, func(a *Arm) { a.Layout = "tl9" }, "layout tl9: want i2s"},
		{Decode, func(a *Arm) { a.Kernel = "unknown" }, "kernel unknown: want one of "},
		{Decode, func(a *Arm) { a.Kernel = "other layout" }, "kernel other layout: want one of layout i2s"},
		{Decode, func(a *Arm) { a.Kernel = "needs more" }, "kernel needs more: want one that needs no more than"},
		{Decode, func(a *Arm) { a.Threads = 0 }, "threads 0: want 1 to 2"},
		{Decode, func(a *Arm) { a.Threads = 3 }, "threads 3: want 1 to 2"},
		{Decode, func(a *Arm) { a.Batch = 2 }, "batch 2: want 1 for decode"},
		{Prefill, func(a *Arm) { a.Batch = 0 }, "batch 0: want 1 for decode, else 1 or more"},
		{Decode, func(a *Arm) { a.Blocking.Tile = kernels.Tile{Groups: 9, Tokens: 9} }, "tile 9x9: want 0x0 or one of [1x1]"},
		{Decode, func(a *Arm) { a.Blocking.PrefetchBytes = -1 }, "prefetch_bytes -1: want 0 or more"},
		{Decode, func(a *Arm) { a.Blocking.ChunkRows = -16 }, "chunk_rows -16: want 0 or more"},
	} {
		arm := decodeArm
		tc.change(&arm)
		_, err := c.Prepare(t.Context(), tc.regime, arm)
		if !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error %v, want ErrRejected and %q", err, tc.want)
		}
	}
	for _, threads := range []int{0, 3} {
		if _, err := c.ReadSubject(threads); !errors.Is(err, ErrRejected) {
			t.Errorf("ReadSubject(%d): error %v, want ErrRejected", threads, err)
		}
		if _, err := c.PeakSubject(threads); !errors.Is(err, ErrRejected) {
			t.Errorf("PeakSubject(%d): error %v, want ErrRejected", threads, err)
		}
	}
}

func TestNewCPURejects(t *testing.T) {
	wide, empty := odd, odd
	wide.Shapes = []model.Shape{{N: 1, K: kernels.MaxCols + 1, Count: 2, Roles: "q"}}
	empty.Shapes = nil
	for _, tc := range []struct {
		name   string
		model  model.Model
		layout kernels.Layout
		want   string
	}{
		{"layout", odd, "tl9", `layout "tl9"`},
		{"no matmuls", empty, kernels.I2S, "ternary matmuls"},
		{"K", wide, kernels.I2S, "columns"},
	} {
		_, err := NewCPU(t.Context(), localHost(t), tc.model, CPUOptions{Layout: tc.layout})
		if !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want ErrRejected and %q", tc.name, err, tc.want)
		}
	}
}

func TestMemoryBudget(t *testing.T) {
	many := odd
	many.Layers = 10
	layer := layerBytes(formatI2S(t), many.Layer())
	for _, tc := range []struct {
		name      string
		max       uint64
		available uint64
		cache     int64
		least     bool
		layers    int // 0 = ErrOutOfMemory
		note      string
	}{
		{"all fit", 10 * layer, 0, int64(layer), false, 10, ""},
		{"unknown", 0, 0, 0, false, 10, ""},
		{"half of what is available", 0, 12 * layer, 1, false, 6, "holds 6 of 10 layers"},
		{"some fit", 7*layer + layer/2, 0, int64(layer), false, 7, "holds 7 of 10 layers"},
		{"some fit, but into the cache", 7 * layer, 0, int64(2 * layer), false, 0, ""},
		{"less than a layer", layer - 1, 0, 0, false, 0, ""},
		{"the least", 10 * layer, 0, int64(layer), true, 4, "holds 4 of 10 layers"},
		{"the least, of a cache nobody knows", 10 * layer, 0, 0, true, 10, ""},
		{"the least are all", 10 * layer, 0, int64(3 * layer), true, 10, ""},
		{"the least do not fit", 3 * layer, 0, int64(layer), true, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			host := localHost(t)
			host.Memory.AvailableBytes = tc.available
			host.CPU.L2, host.CPU.L3 = probe.Cache{}, probe.Cache{Bytes: tc.cache, Instances: 1}
			c, err := NewCPU(t.Context(), host, many, CPUOptions{Layout: kernels.I2S, MaxBytes: tc.max, Least: tc.least})
			if tc.layers == 0 {
				if !errors.Is(err, ErrOutOfMemory) {
					t.Fatalf("error %v, want ErrOutOfMemory", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if !strings.HasPrefix(c.Note(), tc.note) || tc.note == "" && c.Note() != "" {
				t.Errorf("Note() = %q, want %q", c.Note(), tc.note)
			}
			if got := c.WeightBytes(); got != 10*layer {
				t.Errorf("WeightBytes() = %d, want those of all 10 layers, %d", got, 10*layer)
			}
			arm := decodeArm
			arm.Threads = 1
			s, err := c.Prepare(t.Context(), Decode, arm)
			if err != nil || s.Units != 0.1 {
				t.Errorf("decode: %v tokens per iteration, %v; want a tenth, as a layer is of the model", s.Units, err)
			}
			if got := len(c.weights.matmuls) / c.weights.perLayer; got != tc.layers {
				t.Errorf("holds %d layers, want %d", got, tc.layers)
			}
			if r, err := c.ReadSubject(1); err != nil || r.Units != float64(tc.layers)/10 {
				t.Errorf("read loop: %v tokens per iteration, %v", r.Units, err)
			}
		})
	}
}

// TestBatchBeyondMemory: a token of odd takes 2 inputs of 192 and 320 bytes and 4 outputs of 1588 in all.
func TestBatchBeyondMemory(t *testing.T) {
	const perToken = 2100
	host := localHost(t)
	c, err := NewCPU(t.Context(), host, odd, CPUOptions{Layout: kernels.I2S, MaxBytes: 2 * 300 * perToken})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, batch := range []int{301, 1 << 40, 300} {
		arm := decodeArm
		arm.Threads, arm.Batch = 1, batch
		_, err := c.Prepare(t.Context(), Prefill, arm)
		if batch == 300 && err != nil {
			t.Errorf("batch 300, as many as half of the weights' bytes hold: %v", err)
		}
		if batch > 300 && (!errors.Is(err, ErrOutOfMemory) || !strings.Contains(err.Error(), "batch")) {
			t.Errorf("batch %d: error %v, want ErrOutOfMemory and the batch", batch, err)
		}
	}
}

// TestArmsGoOnWhereTheLastOneStopped: an arm that began with the layer its rival has just used would find it in a cache.
func TestArmsGoOnWhereTheLastOneStopped(t *testing.T) {
	c := openCPU(t, nil)
	var arms []measure.Subject
	for _, threads := range []int{1, 2} {
		arm := decodeArm
		arm.Threads = threads
		s, err := c.Prepare(t.Context(), Decode, arm)
		if err != nil {
			t.Fatal(err)
		}
		arms = append(arms, s)
	}
	for i, s := range []measure.Subject{arms[0], arms[1], arms[1], arms[0], arms[1]} {
		if want := i % odd.Layers * c.weights.perLayer; c.next != want {
			t.Errorf("sample %d begins with matmul %d, want %d", i, c.next, want)
		}
		if _, err := s.Run(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCancelledWithinOneMatmul(t *testing.T) {
	for _, regime := range []Regime{SmallBatch, Prefill} {
		t.Run(string(regime), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var calls, after atomic.Int32
			c := openCPU(t, bad(func(c call) {
				c.right(c.rows)
				if ctx.Err() != nil {
					after.Add(1)
				}
				if calls.Add(1) == 11 {
					cancel()
				}
			}))
			arm := decodeArm
			arm.Kernel, arm.Threads = "bad", 1
			s, err := c.Prepare(ctx, regime, arm) // 4 calls: one for each shape
			if err != nil {
				t.Fatal(err)
			}
			if elapsed, err := s.Run(ctx, 1000); !errors.Is(err, context.Canceled) || elapsed != 0 {
				t.Errorf("Run = %v, %v, want 0 and context.Canceled", elapsed, err)
			}
			if n := after.Load(); n != 0 {
				t.Errorf("%d matmuls after the end of the context", n)
			}
			if _, err := c.Prepare(ctx, regime, arm); !errors.Is(err, context.Canceled) {
				t.Errorf("Prepare: error %v, want context.Canceled", err)
			}
			peak, err := c.PeakSubject(1)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := peak.Run(ctx, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("peak loop: error %v, want context.Canceled", err)
			}
			if _, err := s.Run(t.Context(), 3); err != nil {
				t.Errorf("with another context: %v", err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewCPU(ctx, localHost(t), odd, CPUOptions{Layout: kernels.I2S}); !errors.Is(err, context.Canceled) {
		t.Errorf("NewCPU: error %v, want context.Canceled", err)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	c := openCPU(t, nil)
	s, err := c.Prepare(t.Context(), Decode, decodeArm)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.ReadSubject(2)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, run := range map[string]func(context.Context, int) (time.Duration, error){"pass": s.Run, "read loop": r.Run} {
		if _, err := run(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("%s after Close: error %v, want one that says closed", name, err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

func TestConcurrentUseTakesTurns(t *testing.T) {
	c := openCPU(t, nil)
	var users sync.WaitGroup
	for i := range 4 {
		users.Go(func() {
			arm := decodeArm
			arm.Threads, arm.Batch = 1+i%2, 1+i
			s, err := c.Prepare(t.Context(), SmallBatch, arm)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := s.Run(t.Context(), 5); err != nil {
				t.Error(err)
			}
		})
	}
	users.Wait()
}

func TestLimits(t *testing.T) {
	c := openCPU(t, nil)
	for threads := 1; threads <= 2; threads++ {
		r, err := c.ReadSubject(threads)
		if err != nil {
			t.Fatal(err)
		}
		if elapsed, err := r.Run(t.Context(), 10); err != nil || elapsed <= 0 || r.Units != 1 {
			t.Errorf("read loop with %d threads: %v, %v, %v tokens", threads, elapsed, err, r.Units)
		}
		if ops, err := peakOps(t, c, threads); err != nil || ops < 1e8 {
			t.Errorf("peak with %d threads: %v operations per second, %v", threads, ops, err)
		}
	}
	if got := c.Residency(); !strings.Contains(got, "MB of weights in ") {
		t.Errorf("Residency() = %q", got)
	}
}

func formatI2S(t testing.TB) kernels.Format {
	t.Helper()
	format, ok := kernels.FormatOf(kernels.I2S)
	if !ok {
		t.Fatal("no layout i2s")
	}
	return format
}

// BenchmarkPrepare is what verifying one more arm costs: a matmul of every shape and its check.
func BenchmarkPrepare(b *testing.B) {
	m, err := model.Load("bitnet-b1.58-2b-4t")
	if err != nil {
		b.Fatal(err)
	}
	host := localHost(b)
	start := time.Now()
	c, err := NewCPU(b.Context(), host, m, CPUOptions{Layout: kernels.I2S})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.Logf("opened in %v: %s", time.Since(start), c.Residency())
	for _, k := range kernels.Usable(host.CPU.Features) {
		if k.Name == generic {
			continue
		}
		for _, batch := range []int{1, 8, 128, 512} {
			b.Run(fmt.Sprintf("kernel=%s/batch=%d", k.Name, batch), func(b *testing.B) {
				arm := Arm{Layout: k.Layout, Kernel: k.Name, Threads: c.maxThreads(), Batch: batch}
				for b.Loop() {
					if _, err := c.Prepare(b.Context(), SmallBatch, arm); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// peakOps is the rate of the peak loop in operations per second.
func peakOps(t *testing.T, c *CPU, threads int) (float64, error) {
	peak, err := c.PeakSubject(threads)
	if err != nil {
		return 0, err
	}
	took, err := peak.Run(t.Context(), 4)
	return 4 * peak.Units / took.Seconds(), err
}
