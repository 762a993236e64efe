package kerneltest

import (
	"bytes"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// The sizes that a kernel of 16-row groups, 64-row blocks and 16-column steps can get wrong, and their neighbours.
var (
	rowTails = []int{1, 15, 16, 17, 33, 48, 63, 64, 65, 79, 80, 112, 127, 128, 129}
	colTails = []int{1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 257, 300}
	batches  = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}
	prefill  = []int{23, 24, 25, 31, 32, 33, 64, 65, 128, 129}
)

// sizes is the grid all, or the few under -short: that is for an emulated CPU, a hundred times slower than the
// machine it is on. Every tile, every batch of a tail and every guard page is in both.
func sizes(all []int, few ...int) []int {
	if testing.Short() {
		return few
	}
	return all
}

// Run tests k against ref, a kernel of the same layout, and ref itself against the definition of Kernel.Mul.
func Run(t *testing.T, ref, k kernels.Kernel) {
	if ref.Layout != k.Layout {
		t.Fatalf("%s has layout %s, the reference %s", k.Name, k.Layout, ref.Layout)
	}
	s := suite{ref, k}
	if k.Name == ref.Name {
		t.Run("Definition", s.definition)
	} else {
		t.Run("Tails", s.tails)
		t.Run("Prefill", s.prefill)
	}
	t.Run("Deep", s.deep)
	t.Run("RowRanges", s.rowRanges)
	t.Run("NoTokens", s.noTokens)
	t.Run("Concurrent", s.concurrent)
	t.Run("Extremes", s.extremes)
	t.Run("Offsets", s.offsets)
	t.Run("GuardPages", s.guardPages)
	t.Run("Default", s.defaults)
	t.Run("Allocations", s.allocations)
	t.Run("Misuse", s.misuse)
}

type suite struct{ ref, kernel kernels.Kernel }

// blockings are all choices worth trying, the default, and prefetch distances that nobody would choose.
func (s suite) blockings() []kernels.Blocking {
	all := []kernels.Blocking{{}}
	for _, tile := range s.kernel.Tiles {
		for _, distance := range append([]int{0, 1, 1 << 40}, s.kernel.Prefetch...) {
			all = append(all, kernels.Blocking{Tile: tile, PrefetchBytes: distance})
		}
	}
	return all
}

// canary is what dst holds where nothing was computed.
const canary = 0x5a5a5a5a

func canaries(n int) []int32 {
	dst := make([]int32, n)
	for i := range dst {
		dst[i] = canary
	}
	return dst
}

func mul(k kernels.Kernel, dst []int32, w *kernels.Packed, x *kernels.Activations, rows kernels.Rows, choice kernels.Blocking) {
	work := workspace(k, kernels.Shape{M: x.M, N: w.N, K: w.K})
	k.Mul(dst, w, x, rows, work, choice)
	if !bytes.Equal(work[len(work):cap(work)], behindWork) {
		panic("kerneltest: a write behind the workspace")
	}
}

// behindWork is what lies behind every workspace.
var behindWork = bytes.Repeat([]byte{0xa5}, 256)

// workspace is as large as the kernel asks, and full of what another call may have left there.
func workspace(k kernels.Kernel, shape kernels.Shape) []byte {
	size := 0
	if k.Work != nil {
		size = k.Work(shape)
	}
	memory := bytes.Repeat([]byte{0xa5}, size+len(behindWork))
	return memory[: size : size+len(behindWork)]
}

func all(w *kernels.Packed) kernels.Rows { return kernels.Rows{From: 0, To: w.N} }

// want computes the reference result.
func (s suite) want(w *kernels.Packed, x *kernels.Activations) []int32 {
	dst := canaries(x.M * w.N)
	mul(s.ref, dst, w, x, all(w), kernels.Blocking{})
	return dst
}

// compare runs the kernel with one blocking and reports the first difference.
func (s suite) compare(t *testing.T, w *kernels.Packed, x *kernels.Activations, want []int32, choice kernels.Blocking) {
	t.Helper()
	got := canaries(x.M * w.N)
	mul(s.kernel, got, w, x, all(w), choice)
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("m=%d n=%d k=%d tile=%s prefetch=%d: token %d, row %d is %d, want %d",
				x.M, w.N, w.K, choice.Tile, choice.PrefetchBytes, i/w.N, i%w.N, got[i], want[i])
		}
	}
}

func (s suite) weights(n, k int, seed uint64) *kernels.Packed {
	format, _ := kernels.FormatOf(s.kernel.Layout)
	p, err := kernels.Pack(s.kernel.Layout, make([]int8, n*k), n, k, nil)
	if err != nil {
		panic("kerneltest: " + err.Error())
	}
	format.Random(p.Data, n, k, seed)
	return p
}

// activations are random values with a -128 in each token: Quantize never makes one, but a kernel must bear it.
func activations(m, k int, seed uint64) *kernels.Activations {
	x := kernels.NewActivations(m, k)
	x.Random(seed)
	for token := range m {
		at := token * x.Stride
		x.Sum[token] += -128 - int32(x.X[at])
		x.X[at] = -128
	}
	return x
}

// first returns the first m tokens of x.
func first(x *kernels.Activations, m int) *kernels.Activations {
	return &kernels.Activations{M: m, K: x.K, Stride: x.Stride, X: x.X[:m*x.Stride], Sum: x.Sum[:m], Scale: x.Scale[:m]}
}

// product multiplies unpacked weights.
func (s suite) product(w *kernels.Packed, x *kernels.Activations) []int32 {
	format, _ := kernels.FormatOf(s.kernel.Layout)
	values := make([]int8, w.N*w.K)
	format.Unpack(values, w.Data, w.N, w.K)
	dst := make([]int32, x.M*w.N)
	for i := range dst {
		dst[i] = dot(values[i%w.N*w.K:][:w.K], x.X[i/w.N*x.Stride:])
	}
	return dst
}

func (s suite) definition(t *testing.T) {
	const m = 3
	for _, n := range sizes(rowTails, 16, 65, 129) {
		for _, k := range sizes(colTails, 1, 17, 100, 257) {
			w, x := s.weights(n, k, uint64(n*k)), activations(m, k, uint64(k))
			s.compare(t, w, x, s.product(w, x), kernels.Blocking{})
		}
	}
}

// deep sums over as many columns as models have, and as a matrix may have, with weights that differ everywhere.
func (s suite) deep(t *testing.T) {
	const n = 81
	for _, k := range sizes([]int{6912, kernels.MaxCols}, 6912) {
		m := s.wholeTiles()
		w, x := s.weights(n, k, uint64(k)), activations(m, k, uint64(k))
		want := s.product(w, x)
		for _, tile := range s.kernel.Tiles {
			s.compare(t, w, x, want, kernels.Blocking{Tile: tile})
		}
	}
}

// wholeTiles is a batch with at least one whole tile of each kind, and a tail.
func (s suite) wholeTiles() int {
	m := 1
	for _, tile := range s.kernel.Tiles {
		m = max(m, 2*tile.Tokens+1)
	}
	return m
}

func (s suite) tails(t *testing.T) {
	most := slices.Max(batches)
	for _, n := range sizes(rowTails, 16, 65, 129) {
		for _, k := range sizes(colTails, 1, 17, 100, 257) {
			w, x := s.weights(n, k, uint64(n*k)), activations(most, k, uint64(k))
			want := s.want(w, x)
			for _, m := range batches {
				for _, tile := range s.kernel.Tiles {
					s.compare(t, w, first(x, m), want, kernels.Blocking{Tile: tile})
				}
			}
		}
	}
}

func (s suite) prefill(t *testing.T) {
	const n, k = 144, 520
	w, x := s.weights(n, k, 1), activations(slices.Max(prefill), k, 2)
	want := s.want(w, x)
	for _, m := range sizes(prefill, 33, 65) {
		for _, choice := range s.blockings() {
			s.compare(t, w, first(x, m), want, choice)
		}
	}
}

// rowRanges computes every range of rows that a caller may ask for and looks at every element outside.
func (s suite) rowRanges(t *testing.T) {
	for _, n := range sizes([]int{192, 199}, 135) {
		const m, k = 6, 70
		w, x := s.weights(n, k, 3), activations(m, k, 4)
		want := s.want(w, x)
		for from := 0; from < n; from += kernels.RowAlign {
			for to := from; to <= n; to = nextEnd(to, n) {
				for _, tile := range s.kernel.Tiles {
					got := canaries(m * n)
					mul(s.kernel, got, w, x, kernels.Rows{From: from, To: to}, kernels.Blocking{Tile: tile})
					for i, v := range got {
						inside := i%n >= from && i%n < to
						if inside && v != want[i] || !inside && v != canary {
							t.Fatalf("n=%d rows %d..%d tile=%s: token %d, row %d is %d", n, from, to, tile, i/n, i%n, v)
						}
					}
				}
			}
		}
	}
}

// noTokens is a batch that is empty, and so is dst.
func (s suite) noTokens(t *testing.T) {
	w, x := s.weights(129, 70, 15), activations(0, 70, 16)
	for _, choice := range s.blockings() {
		mul(s.kernel, nil, w, x, all(w), choice)
	}
}

// nextEnd steps through the allowed values of Rows.To and then past n.
func nextEnd(to, n int) int {
	if to == n {
		return n + 1
	}
	return min(n, to+kernels.RowAlign)
}

func (s suite) concurrent(t *testing.T) {
	const m, n, k = 5, 640, 100
	w, x := s.weights(n, k, 5), activations(m, k, 6)
	got := canaries(m * n)
	var workers sync.WaitGroup
	for from := 0; from < n; from += 80 {
		workers.Go(func() {
			mul(s.kernel, got, w, x, kernels.Rows{From: from, To: from + 80}, kernels.Blocking{})
		})
	}
	workers.Wait()
	if !slices.Equal(got, s.want(w, x)) {
		t.Error("eight workers on disjoint rows differ from the reference")
	}
}

// extremes uses weights and activations that alternate at most, and so drives every intermediate sum
// to its bounds: that is where an int16 or a scaled int32 would overflow.
func (s suite) extremes(t *testing.T) {
	sign := func(even, odd int8) func(int) int8 {
		return func(i int) int8 {
			if i%2 == 0 {
				return even
			}
			return odd
		}
	}
	patterns := []func(int) int8{sign(-128, -128), sign(127, 127), sign(127, -128), sign(-128, 127), sign(1, 0)}
	weights := []func(int) int8{sign(-1, -1), sign(1, 1), sign(0, 0), sign(1, -1), sign(-1, 1)}
	if testing.Short() {
		weights = weights[:2]
	}
	m := max(len(patterns), s.wholeTiles())
	for _, k := range sizes([]int{16, 256, 6912, kernels.MaxCols}, 256, kernels.MaxCols) {
		const n = 81
		for _, weight := range weights {
			values := make([]int8, n*k)
			for i := range values {
				values[i] = weight(i)
			}
			w, err := kernels.Pack(s.kernel.Layout, values, n, k, nil)
			if err != nil {
				t.Fatal(err)
			}
			x := kernels.NewActivations(m, k)
			for token := range m {
				fill(x, token, patterns[token%len(patterns)])
			}
			want := make([]int32, m*n)
			for token := range m {
				each := dot(values[:k], x.X[token*x.Stride:]) // k is even, so all rows are equal
				for row := range n {
					want[token*n+row] = each
				}
			}
			for _, tile := range s.kernel.Tiles {
				s.compare(t, w, x, want, kernels.Blocking{Tile: tile})
			}
		}
	}
}

func fill(x *kernels.Activations, token int, value func(int) int8) {
	x.Sum[token] = 0
	for i := range x.K {
		x.X[token*x.Stride+i] = value(i)
		x.Sum[token] += int32(value(i))
	}
}

// dot is the definition itself, apart from every layout.
func dot(w, x []int8) (sum int32) {
	for i, v := range w {
		sum += int32(v) * int32(x[i])
	}
	return sum
}

// offsets moves activations and sums to every alignment.
func (s suite) offsets(t *testing.T) {
	const m, n, k = 7, 80, 130
	w, x := s.weights(n, k, 7), activations(m, k, 8)
	want := s.want(w, x)
	room := make([]int8, len(x.X)+64)
	for offset := range 64 {
		moved := *x
		moved.X = room[offset : offset+len(x.X)]
		copy(moved.X, x.X)
		for _, tile := range s.kernel.Tiles {
			s.compare(t, w, &moved, want, kernels.Blocking{Tile: tile})
		}
	}
}

// guardPages puts each buffer against an unmapped page, once at its end and once at its start, and makes the inputs
// read-only: one byte too far, or one write too many, is a fault.
func (s suite) guardPages(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			t.Fatalf("a read or write outside the buffers, or a write to an input: %v", fault)
		}
	}()
	for _, n := range sizes([]int{16, 41, 64, 80, 128, 129}, 16, 41, 129) {
		for _, k := range sizes([]int{1, 16, 64, 100, 256, 272}, 1, 100, 256) {
			for _, m := range sizes([]int{1, 2, 3, 4, 5, 9, 13}, 1, 5, 13) {
				w, x := s.weights(n, k, 9), activations(m, k, 10)
				want := s.want(w, x)
				for _, side := range []side{guardAfter, guardBefore} {
					var a arena
					gw := &kernels.Packed{Layout: w.Layout, N: n, K: k, Data: guarded(&a, side, w.Data), Scale: 1}
					gx := &kernels.Activations{M: m, K: k, Stride: x.Stride, X: guarded(&a, side, x.X), Sum: guarded(&a, side, x.Sum), Scale: x.Scale}
					a.freeze(t)
					dst := guarded(&a, side, canaries(m*n))
					work := guarded(&a, side, workspace(s.kernel, kernels.Shape{M: m, N: n, K: k}))
					for _, choice := range s.blockings() {
						s.kernel.Mul(dst, gw, gx, all(gw), work, choice)
						if !slices.Equal(dst, want) {
							t.Fatalf("m=%d n=%d k=%d tile=%s: differs from the reference", m, n, k, choice.Tile)
						}
					}
					a.free(t)
				}
			}
		}
	}
}

// defaults checks that the blocking a kernel proposes is one of those it offers.
func (s suite) defaults(t *testing.T) {
	for m := range 600 {
		choice := s.kernel.Default(m)
		if !slices.Contains(s.kernel.Tiles, choice.Tile) {
			t.Errorf("Default(%d) is tile %s, not one of %v", m, choice.Tile, s.kernel.Tiles)
		}
		if d := choice.PrefetchBytes; d != 0 && !slices.Contains(s.kernel.Prefetch, d) {
			t.Errorf("Default(%d) prefetches %d bytes ahead, not one of %v", m, d, s.kernel.Prefetch)
		}
	}
}

func (s suite) allocations(t *testing.T) {
	const n, k = 129, 100
	for _, m := range []int{1, 13} {
		w, x, dst := s.weights(n, k, 11), activations(m, k, 12), make([]int32, m*n)
		work := workspace(s.kernel, kernels.Shape{M: m, N: n, K: k})
		if got := testing.AllocsPerRun(20, func() { s.kernel.Mul(dst, w, x, all(w), work, kernels.Blocking{}) }); got != 0 {
			t.Errorf("m=%d: %v allocations per call, want 0", m, got)
		}
	}
}

// misuse checks that arguments which would make a kernel leave its buffers panic instead.
func (s suite) misuse(t *testing.T) {
	const m, n, k = 2, 72, 100
	const half = math.MaxInt/2 + 1 // of what an int counts: 4 times as much is 0
	type call struct {
		dst    []int32
		w      kernels.Packed
		x      kernels.Activations
		rows   kernels.Rows
		work   []byte
		choice kernels.Blocking
	}
	cases := map[string]func(*call){
		"other layout":          func(c *call) { c.w.Layout = "other" },
		"short weights":         func(c *call) { c.w.Data = c.w.Data[:len(c.w.Data)-1] },
		"too many columns":      func(c *call) { c.w.K = kernels.MaxCols + 1 },
		"columns differ":        func(c *call) { c.x.K++ },
		"short activations":     func(c *call) { c.x.X = c.x.X[:len(c.x.X)-1] },
		"narrow stride":         func(c *call) { c.x.Stride -= kernels.ColAlign },
		"short sums":            func(c *call) { c.x.Sum = c.x.Sum[:1] },
		"short dst":             func(c *call) { c.dst = c.dst[:len(c.dst)-1] },
		"rows beyond the end":   func(c *call) { c.rows.To = n + kernels.RowAlign },
		"negative first row":    func(c *call) { c.rows.From = -kernels.RowAlign },
		"rows backwards":        func(c *call) { c.rows = kernels.Rows{From: 32, To: 16} },
		"first row not aligned": func(c *call) { c.rows.From = 8 },
		"last row not aligned":  func(c *call) { c.rows.To = 39 },
		"negative token count":  func(c *call) { c.x.M = -1 },
		"tokens overflow": func(c *call) {
			c.x.M, c.x.Stride = 4, half // M * Stride is 0
			c.x.Sum, c.dst = make([]int32, 4), make([]int32, 4*n)
		},
		"matrix overflows":       func(c *call) { c.w.N, c.rows.To = half, 32 }, // so does M * N
		"matrix without rows":    func(c *call) { c.w.N = 0 },
		"matrix without columns": func(c *call) { c.w.K, c.x.K = 0, 0 },
	}
	if s.kernel.Work != nil {
		cases["short workspace"] = func(c *call) { c.work = c.work[:len(c.work)-1] }
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			c := call{dst: make([]int32, m*n), w: *s.weights(n, k, 13), x: *activations(m, k, 14), rows: kernels.Rows{From: 0, To: n}}
			c.work = workspace(s.kernel, kernels.Shape{M: m, N: n, K: k})
			spoil(&c)
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			defer func() {
				if message := fmt.Sprint(recover()); !strings.HasPrefix(message, "kernels: ") {
					t.Errorf(`recovered %q, want a panic "kernels: …"`, message)
				}
			}()
			s.kernel.Mul(c.dst, &c.w, &c.x, c.rows, c.work, c.choice)
		})
	}
}
