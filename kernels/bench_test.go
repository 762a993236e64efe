package kernels_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// layer2B4T are the ternary matmuls of one layer of BitNet-b1.58-2B-4T, N x K in the order of a forward pass.
var layer2B4T = [][2]int{{2560, 2560}, {640, 2560}, {640, 2560}, {2560, 2560}, {6912, 2560}, {6912, 2560}, {2560, 6912}}

// ring is a model of more weights than any cache holds.
type ring [][]*kernels.Packed

func newRing(tb testing.TB, layout kernels.Layout, size int) ring {
	format, _ := kernels.FormatOf(layout)
	perLayer := 0
	for _, s := range layer2B4T {
		perLayer += format.Bytes(s[0], s[1])
	}
	memory := hugePages(tb, (size/perLayer+1)*perLayer)
	var layers ring
	for len(memory) >= perLayer {
		var layer []*kernels.Packed
		for _, s := range layer2B4T {
			data := memory[:format.Bytes(s[0], s[1])]
			memory = memory[len(data):]
			format.Random(data, s[0], s[1], uint64(len(memory)))
			layer = append(layer, &kernels.Packed{Layout: layout, N: s[0], K: s[1], Data: data, Scale: 1})
		}
		layers = append(layers, layer)
	}
	return layers
}

func (r ring) bytes(layers int) int {
	sum := 0
	for _, w := range r[0] {
		sum += len(w.Data)
	}
	return sum * layers
}

// share is the rows of one of several threads, whole blocks of 64 as far as they go.
func share(n, thread, threads int) kernels.Rows {
	at := func(i int) int { return n * i / threads / 64 * 64 }
	if thread == threads-1 {
		return kernels.Rows{From: at(thread), To: n}
	}
	return kernels.Rows{From: at(thread), To: at(thread + 1)}
}

// team runs one function on several locked threads at a time.
func team(b *testing.B, threads int) func(do func(thread int)) {
	var start []chan func(int)
	var done sync.WaitGroup
	for thread := range threads {
		c := make(chan func(int))
		start = append(start, c)
		go func() {
			runtime.LockOSThread()
			for do := range c {
				do(thread)
				done.Done()
			}
		}()
	}
	b.Cleanup(func() {
		for _, c := range start {
			close(c)
		}
	})
	return func(do func(int)) {
		done.Add(threads)
		for _, c := range start {
			c <- do
		}
		done.Wait()
	}
}

// against times limit and work alternately, in pairs, and reports the median of limit/work pair by pair with its
// quartiles: 1 means that work is as fast as the limit allows.
func against(b *testing.B, limit, work func()) {
	clock := func(f func()) float64 {
		start := time.Now()
		f()
		return time.Since(start).Seconds()
	}
	var ratios []float64
	work()
	limit()
	for i := 0; b.Loop(); i++ {
		if i%2 == 0 {
			l := clock(limit)
			ratios = append(ratios, l/clock(work))
		} else {
			w := clock(work)
			ratios = append(ratios, clock(limit)/w)
		}
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/4], "q1-of-limit")
	b.ReportMetric(ratios[len(ratios)/2], "median-of-limit")
	b.ReportMetric(ratios[len(ratios)*3/4], "q3-of-limit")
}

func isaOf(k kernels.Kernel) string { return k.Name[len("mul/"+string(k.Layout)+"/"):] }

// BenchmarkDecodeAgainstReadLoop reads more than 1 GB of distinct weights at M = 1, in the order of a model, and
// compares with a loop that only reads the same number of bytes.
func BenchmarkDecodeAgainstReadLoop(b *testing.B) {
	have := host()
	read := kernels.ReadLoop(have)
	rings := map[kernels.Layout]ring{}
	for _, k := range kernels.Usable(have) {
		if k.Needs == 0 {
			continue
		}
		if rings[k.Layout] == nil {
			rings[k.Layout] = newRing(b, k.Layout, 1<<30)
		}
		layers := rings[k.Layout]
		for threads := 1; threads <= min(2, runtime.GOMAXPROCS(0)); threads++ {
			b.Run(fmt.Sprintf("isa=%s/layout=%s/m=1/model=2b4t/threads=%d", isaOf(k), k.Layout, threads), func(b *testing.B) {
				run, next := team(b, threads), 0
				dst, x := make([]int32, 6912), inputs2B4T(1)
				choice, work := k.Default(1), workspaces(k, threads, 1)
				b.SetBytes(int64(layers.bytes(stretch)) * 2)
				against(b, layers.pass(run, threads, &next, func(_ int, w *kernels.Packed, rows kernels.Rows) {
					perRow := len(w.Data) / w.N
					read(w.Data[rows.From*perRow : rows.To*perRow])
				}), layers.pass(run, threads, &next, func(thread int, w *kernels.Packed, rows kernels.Rows) {
					k.Mul(dst, w, x[w.K], rows, work[thread], choice)
				}))
			})
		}
	}
}

// BenchmarkAgainstI2S multiplies more than 1 GB of distinct weights by few tokens, in the order of a model, and compares
// with the best kernel of layout i2s on as many weights: 1.2 is a fifth more weights a second.
func BenchmarkAgainstI2S(b *testing.B) {
	have := host()
	var i2s kernels.Kernel
	for _, k := range kernels.Usable(have) {
		if k.Layout == kernels.I2S && k.Needs >= i2s.Needs {
			i2s = k
		}
	}
	base := newRing(b, kernels.I2S, 1<<30)
	rings := map[kernels.Layout]ring{}
	for _, k := range kernels.Usable(have) {
		if k.Needs == 0 || k.Layout == kernels.I2S {
			continue
		}
		if rings[k.Layout] == nil {
			rings[k.Layout] = newRing(b, k.Layout, 1<<30)
		}
		layers := rings[k.Layout]
		for threads := 1; threads <= min(2, runtime.GOMAXPROCS(0)); threads++ {
			for _, m := range []int{1, 2, 3, 4, 8} {
				b.Run(fmt.Sprintf("isa=%s/layout=%s/m=%d/model=2b4t/threads=%d", isaOf(k), k.Layout, m, threads), func(b *testing.B) {
					run, at, atBase := team(b, threads), 0, 0
					dst, x := make([]int32, m*6912), inputs2B4T(m)
					multiply := func(k kernels.Kernel) func(int, *kernels.Packed, kernels.Rows) {
						choice, work := k.Default(m), workspaces(k, threads, m)
						return func(thread int, w *kernels.Packed, rows kernels.Rows) {
							k.Mul(dst, w, x[w.K], rows, work[thread], choice)
						}
					}
					against(b, base.pass(run, threads, &atBase, multiply(i2s)), layers.pass(run, threads, &at, multiply(k)))
				})
			}
		}
	}
}

// stretch is the number of layers per sample.
const stretch = 4

// pass returns a function that does the next stretch of layers, from *next, with the rows shared out to the threads.
func (r ring) pass(run func(func(thread int)), threads int, next *int, do func(thread int, w *kernels.Packed, rows kernels.Rows)) func() {
	return func() {
		first := *next
		*next += stretch
		run(func(thread int) {
			for i := range stretch {
				for _, w := range r[(first+i)%len(r)] {
					do(thread, w, share(w.N, thread, threads))
				}
			}
		})
	}
}

// inputs2B4T are m tokens for each K of the model.
func inputs2B4T(m int) map[int]*kernels.Activations {
	x := map[int]*kernels.Activations{}
	for _, s := range layer2B4T {
		x[s[1]] = kernels.NewActivations(m, s[1])
		x[s[1]].Random(1)
	}
	return x
}

// BenchmarkBatchAgainstPeakLoop multiplies a layer's matrices by M tokens and compares with a loop that only
// multiplies. The weights come from memory, as they do in a model.
func BenchmarkBatchAgainstPeakLoop(b *testing.B) {
	have := host()
	rings := map[kernels.Layout]ring{}
	for _, k := range kernels.Usable(have) {
		if k.Needs == 0 {
			continue
		}
		if rings[k.Layout] == nil {
			rings[k.Layout] = newRing(b, k.Layout, 1<<28)
		}
		layers := rings[k.Layout]
		peak, operations, name := kernels.PeakLoop(k.Needs)
		for _, m := range []int{2, 4, 6, 8, 12, 16, 32, 128, 512} {
			for _, s := range [][2]int{{2560, 2560}, {6912, 2560}, {2560, 6912}} {
				n, cols := s[0], s[1]
				b.Run(fmt.Sprintf("isa=%s/layout=%s/m=%d/n=%d/k=%d", isaOf(k), k.Layout, m, n, cols), func(b *testing.B) {
					var ws []*kernels.Packed
					for _, layer := range layers {
						for _, w := range layer {
							if w.N == n && w.K == cols {
								ws = append(ws, w)
							}
						}
					}
					x := kernels.NewActivations(m, cols)
					x.Random(1)
					dst := make([]int32, m*n)
					work := workspace(k, kernels.Shape{M: m, N: n, K: cols})
					choice := k.Default(m)
					perCall := max(1, 32/m)
					total := 2 * m * n * cols * perCall
					next := 0
					against(b, func() { peak(total / operations) }, func() {
						for range perCall {
							k.Mul(dst, ws[next%len(ws)], x, kernels.Rows{From: 0, To: n}, work, choice)
							next++
						}
					})
					b.Logf("limit: %s", name)
				})
			}
		}
	}
}

// BenchmarkMul multiplies one matrix again and again: its weights lie in a cache as far as they fit one.
func BenchmarkMul(b *testing.B) {
	for _, k := range kernels.Usable(host()) {
		format, _ := kernels.FormatOf(k.Layout)
		for _, m := range []int{1, 4, 32} {
			for _, s := range [][2]int{{640, 2560}, {2560, 2560}, {2560, 6912}} {
				n, cols := s[0], s[1]
				b.Run(fmt.Sprintf("isa=%s/layout=%s/m=%d/n=%d/k=%d", isaOf(k), k.Layout, m, n, cols), func(b *testing.B) {
					w := &kernels.Packed{Layout: k.Layout, N: n, K: cols, Data: make([]byte, format.Bytes(n, cols)), Scale: 1}
					format.Random(w.Data, n, cols, 1)
					x := kernels.NewActivations(m, cols)
					x.Random(1)
					dst := make([]int32, m*n)
					work := workspace(k, kernels.Shape{M: m, N: n, K: cols})
					b.SetBytes(int64(len(w.Data)))
					for b.Loop() {
						k.Mul(dst, w, x, kernels.Rows{From: 0, To: n}, work, kernels.Blocking{})
					}
					b.ReportMetric(float64(2*m*n*cols)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GOPS")
				})
			}
		}
	}
}

// workspaces are one for each thread, for m tokens of the model.
func workspaces(k kernels.Kernel, threads, m int) [][]byte {
	work := make([][]byte, threads)
	for i := range work {
		work[i] = workspace(k, kernels.Shape{M: m, N: 6912, K: 6912})
	}
	return work
}

// workspace is what one worker needs for a shape.
func workspace(k kernels.Kernel, shape kernels.Shape) []byte {
	if k.Work == nil {
		return nil
	}
	return make([]byte, k.Work(shape))
}

// hugePages returns memory backed by huge pages where the OS allows.
func hugePages(tb testing.TB, size int) []byte {
	tb.Helper()
	memory, err := kernels.Alloc(size)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := memory.Free(); err != nil {
			tb.Error(err)
		}
	})
	return memory.Bytes
}
