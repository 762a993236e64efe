package kernels

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// skipWithout skips a test aloud, or fails it where BITNET_AUTOTUNE_REQUIRE names what is missing.
func skipWithout(t *testing.T, what, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), ","), what) {
		t.Fatalf("BITNET_AUTOTUNE_REQUIRE asks for %s: %s", what, why)
	}
	t.Skipf("NOT TESTED: %s: no %s: %s", t.Name(), what, why)
}

// cpus returns n CPUs to pin to: this machine's, over and over.
func cpus(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i % runtime.NumCPU()
	}
	return list
}

func newPool(t testing.TB, n int) *Pool {
	t.Helper()
	p, err := NewPool(cpus(n))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// procs sets GOMAXPROCS for one test.
func procs(t testing.TB, n int) {
	t.Helper()
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// sumKernel has one byte per weight, needs a workspace, and adds to dst: a row that is done twice is wrong.
var sumKernel = Kernel{
	Name:   "mul/test/bytes",
	Layout: "test",
	Work:   func(s Shape) int { return s.K },
	Mul: func(dst []int32, w *Packed, x *Activations, rows Rows, work []byte, _ Blocking) {
		for m := range x.M {
			for n := rows.From; n < rows.To; n++ {
				copy(work, w.Data[n*w.K:(n+1)*w.K])
				for k, code := range work[:w.K] {
					dst[m*w.N+n] += (int32(code) - 1) * int32(x.X[m*x.Stride+k])
				}
			}
		}
	},
}

func sumProblem(m, n, k int) (*Packed, *Activations, []int32) {
	w := &Packed{Layout: "test", N: n, K: k, Data: make([]byte, n*k)}
	for i := range w.Data {
		w.Data[i] = byte(i * 7 % 3)
	}
	x := &Activations{M: m, K: k, Stride: k, X: make([]int8, m*k)}
	for i := range x.X {
		x.X[i] = int8(i*31%255 - 127)
	}
	want := make([]int32, m*n)
	for i := range m {
		for j := range n {
			for l := range k {
				want[i*n+j] += (int32(w.Data[j*k+l]) - 1) * int32(x.X[i*k+l])
			}
		}
	}
	return w, x, want
}

func TestPoolRunsEveryWorkerOnce(t *testing.T) {
	for _, tc := range []struct{ threads, procs int }{{1, 2}, {2, 2}, {2, 1}, {3, 1}, {5, 2}, {17, 2}} {
		t.Run(fmt.Sprintf("threads=%d/procs=%d", tc.threads, tc.procs), func(t *testing.T) {
			procs(t, tc.procs)
			p := newPool(t, tc.threads)
			leave := p.Enter()
			defer leave()
			count := make([]int, tc.threads) // not atomic: the barrier must order it
			f := func(worker int) { count[worker]++ }
			const runs = 50
			for range runs {
				p.Run(f)
			}
			for worker, n := range count {
				if n != runs {
					t.Errorf("worker %d ran %d times in %d runs", worker, n, runs)
				}
			}
		})
	}
}

func TestPoolWakesParkedWorkers(t *testing.T) {
	p := newPool(t, 3)
	var ran atomic.Int32
	for range 3 {
		deadline := time.Now().Add(10 * time.Second)
		for i := 1; i < 3; i++ {
			for p.workers[i].word.Load() != parked {
				if time.Now().After(deadline) {
					t.Fatalf("worker %d does not park: word is %d", i, p.workers[i].word.Load())
				}
				time.Sleep(time.Millisecond)
			}
		}
		p.Run(func(int) { ran.Add(1) })
	}
	if got := ran.Load(); got != 9 {
		t.Errorf("3 workers ran %d times in 3 runs, want 9", got)
	}
}

func TestPoolCallerSleepsAtTheBarrier(t *testing.T) {
	p := newPool(t, 2)
	var slept bool
	p.Run(func(worker int) {
		if worker == 1 {
			for p.workers[1].word.Load() != awaited { // until the caller has given up spinning
				time.Sleep(time.Millisecond)
			}
			slept = true
		}
	})
	if !slept {
		t.Error("Run returned before worker 1 was done")
	}
}

func TestPoolPanics(t *testing.T) {
	cause := errors.New("cause")
	for _, tc := range []struct {
		name    string
		workers []int // that panic
		want    int   // worker reported; 0 = the caller's own value
	}{
		{"caller", []int{0}, 0},
		{"worker", []int{1}, 1},
		{"all", []int{0, 1, 2}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPool(t, 3)
			var done atomic.Int32
			got := caught(func() {
				p.Run(func(worker int) {
					defer done.Add(1)
					for _, w := range tc.workers {
						if w == worker {
							panic(cause)
						}
					}
					if worker == 2 {
						time.Sleep(20 * time.Millisecond)
					}
				})
			})
			if n := done.Load(); n != 3 {
				t.Errorf("Run panicked with %d of 3 workers done", n)
			}
			err, _ := got.(error)
			if !errors.Is(err, cause) {
				t.Errorf("panic value %v does not wrap the cause", got)
			}
			var wp *WorkerPanic
			if errors.As(err, &wp) != (tc.want != 0) || wp != nil && (wp.Worker != tc.want || len(wp.Stack) == 0) {
				t.Errorf("panic value %v, want worker %d", got, tc.want)
			}
			count := make([]int, 3)
			p.Run(func(worker int) { count[worker]++ })
			if count[0] != 1 || count[1] != 1 || count[2] != 1 {
				t.Errorf("after the panic the workers ran %v times", count)
			}
		})
	}
}

// caught returns what f panicked with.
func caught(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

func TestPoolMisusePanics(t *testing.T) {
	nop := func(int) {}
	p := newPool(t, 2)
	w, x, dst := sumProblem(1, 16, 8)
	other := sumKernel
	other.Layout = "other"
	short := &Activations{M: 1, K: 7, Stride: 8, X: make([]int8, 8)}
	wide := &Packed{Layout: w.Layout, N: w.N, K: math.MaxInt / 2, Data: w.Data}
	many := &Activations{M: math.MaxInt/8 + 1, K: 8, Stride: 8} // times 16 rows is 0
	negative := &Activations{M: -1, K: 8, Stride: 8}
	for _, tc := range []struct {
		name string
		f    func()
		want string
	}{
		{"nested Run", func() { p.Run(func(int) { p.Run(nop) }) }, "kernels: concurrent use of a Pool"},
		{"Close in Run", func() { p.Run(func(int) { p.Close() }) }, "kernels: Close of a Pool in use"},
		{"layout", func() { p.Mul(&other, dst, w, x, Blocking{}) }, "kernels: Mul: weights are in another layout than the kernel's"},
		{"too many columns", func() { p.Mul(&sumKernel, dst, wide, x, Blocking{}) }, "kernels: Mul: weights without rows or columns, or with more than MaxCols"},
		{"K", func() { p.Mul(&sumKernel, dst, w, short, Blocking{}) }, "kernels: Mul: weights and activations differ in K"},
		{"dst", func() { p.Mul(&sumKernel, dst[:15], w, x, Blocking{}) }, "kernels: Mul: dst is shorter than M x N"},
		{"dst, overflow", func() { p.Mul(&sumKernel, dst, w, many, Blocking{}) }, "kernels: Mul: dst is shorter than M x N"},
		{"negative M", func() { p.Mul(&sumKernel, dst, w, negative, Blocking{}) }, "kernels: Mul: dst is shorter than M x N"},
		{"Run after Close", func() { p.Close(); p.Run(nop) }, "kernels: use of a closed Pool"},
		{"Mul after Close", func() { p.Mul(&sumKernel, dst, w, x, Blocking{}) }, "kernels: use of a closed Pool"},
	} {
		got := caught(tc.f)
		if wp, ok := got.(*WorkerPanic); ok {
			got = wp.Value
		}
		if got != tc.want {
			t.Errorf("%s: panic value %v, want %q", tc.name, got, tc.want)
		}
	}
}

func TestNewPoolRejects(t *testing.T) {
	for name, cpus := range map[string][]int{"none": nil, "negative": {0, -1}} {
		if p, err := NewPool(cpus); err == nil {
			p.Close()
			t.Errorf("%s: NewPool(%v) succeeded", name, cpus)
		}
	}
}

func TestPoolCannotPin(t *testing.T) {
	p, err := NewPool([]int{0, 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ran := make([]bool, 2)
	p.Run(func(worker int) { ran[worker] = true })
	if !ran[0] || !ran[1] || p.Pinned() {
		t.Errorf("ran %v, Pinned %v on a CPU that does not exist; want all, false", ran, p.Pinned())
	}
}

func TestPoolCloseLeavesNothing(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	pools := make([]*Pool, 4)
	for i := range pools {
		pools[i] = newPool(t, 5)
		pools[i].Run(func(int) {})
	}
	threads := threadCount(t)
	var closers sync.WaitGroup
	for _, p := range pools {
		for range 2 {
			closers.Go(p.Close)
		}
	}
	closers.Wait()
	// A goroutine is counted until a moment after its last statement, and so is a thread. Of the 16 threads Go keeps the
	// process's first, if it is among them, and it may have started a few for itself meanwhile.
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > goroutines || threads > 0 && threadCount(t) > threads-12 {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before the pools; %d threads, %d with 16 workers",
				runtime.NumGoroutine(), goroutines, threadCount(t), threads)
		}
		time.Sleep(time.Millisecond)
	}
}

// threadCount is 0 where the OS does not tell.
func threadCount(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil && runtime.GOOS == "linux" {
		t.Fatal(err)
	}
	return len(tasks)
}

func TestPoolMul(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 7} {
		p := newPool(t, threads)
		for _, n := range []int{1, 15, 16, 17, 64, 65, 100, 640, 1000} {
			for _, chunk := range []int{0, 1, 16, 40, math.MaxInt} {
				w, x, want := sumProblem(2, n, 5)
				dst := make([]int32, 2*n+1)
				p.Mul(&sumKernel, dst, w, x, Blocking{ChunkRows: chunk})
				for i := range want {
					if dst[i] != want[i] {
						t.Fatalf("threads %d, N %d, chunk %d: dst[%d] = %d, want %d", threads, n, chunk, i, dst[i], want[i])
					}
				}
				if dst[2*n] != 0 {
					t.Fatalf("threads %d, N %d, chunk %d: wrote past M x N", threads, n, chunk)
				}
			}
		}
	}
}

func TestPoolAllocatesNothing(t *testing.T) {
	p := newPool(t, 2)
	nop := func(int) {}
	w, x, dst := sumProblem(1, 128, 8)
	for name, f := range map[string]func(){
		"Run":         func() { p.Run(nop) },
		"Mul":         func() { p.Mul(&sumKernel, dst, w, x, Blocking{}) },
		"Mul, chunks": func() { p.Mul(&sumKernel, dst, w, x, Blocking{ChunkRows: 16}) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations per call", name, n)
		}
	}
}

func TestShare(t *testing.T) {
	for _, tc := range []struct {
		n, workers int
		largest    int
	}{
		{2560, 2, 1280}, {6912, 2, 3456}, {6912, 16, 432}, {640, 4, 160}, {640, 2, 320}, {100, 2, 64}, {17, 2, 16}, {1, 3, 1},
		{2560, 64, 48},
	} {
		largest, next := 0, 0
		for i := range tc.workers {
			rows := Share(tc.n, tc.workers, i)
			if rows.From != next || rows.To < rows.From || rows.From%RowAlign != 0 && rows.From != tc.n {
				t.Errorf("Share(%d, %d, %d) = %v, want from %d, aligned", tc.n, tc.workers, i, rows, next)
			}
			next, largest = rows.To, max(largest, rows.To-rows.From)
		}
		if next != tc.n || largest != tc.largest {
			t.Errorf("Share(%d, %d): ends at %d, largest %d, want %d", tc.n, tc.workers, next, largest, tc.largest)
		}
	}
}

// BenchmarkFanOut is the time to share work out and to wait for it, on a warm pool and by the usual means of Go. With
// no work, the usual means look good because the second half runs after the first, on the same CPU. With 20 µs of work
// for each worker, about half a 2560 x 2560 GEMV, they show what they cost: 20 µs is ideal, 40 µs is no gain at all.
func BenchmarkFanOut(b *testing.B) {
	rounds := roundsFor(20 * time.Microsecond)
	for name, f := range map[string]func(int){"none": func(int) {}, "20us": func(int) { spinRounds(rounds) }} {
		for _, workers := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("work=%s/by=pool/workers=%d", name, workers), func(b *testing.B) {
				p := newPool(b, workers)
				defer p.Enter()()
				b.ReportAllocs()
				for b.Loop() {
					p.Run(f)
				}
			})
		}
		b.Run(fmt.Sprintf("work=%s/by=channels/workers=2", name), func(b *testing.B) {
			task, done := make(chan func(int)), make(chan struct{})
			go func() {
				for f := range task {
					f(1)
					done <- struct{}{}
				}
			}()
			b.ReportAllocs()
			for b.Loop() {
				task <- f
				f(0)
				<-done
			}
			close(task)
		})
		b.Run(fmt.Sprintf("work=%s/by=waitgroup/workers=2", name), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var wg sync.WaitGroup
				wg.Go(func() { f(1) })
				f(0)
				wg.Wait()
			}
		})
	}
}

// spun keeps the compiler from leaving spinRounds out.
var spun atomic.Uint64

// spinRounds keeps a CPU busy with n rounds of xorshift (Marsaglia, 2003), without touching memory. (PAUSE would not do:
// a hypervisor may take the CPU away from who repeats it for long.)
func spinRounds(n int) {
	x := uint64(1)
	for range n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	spun.Store(x)
}

// roundsFor returns the n for which spinRounds takes about d: the best of a few tries, because it is a property of
// the CPU.
func roundsFor(d time.Duration) int {
	const n = 100000
	best := time.Hour
	for range 10 {
		start := time.Now()
		spinRounds(n)
		best = min(best, time.Since(start))
	}
	return int(n * d / best)
}
