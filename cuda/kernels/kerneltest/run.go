package kerneltest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/kernels"
	cpu "github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// Depth is how much of the grid of cases is run.
type Depth int

// The depths.
const (
	Quick  Depth = iota // every kernel on one product with a tail of each kind, for the race detector
	Normal              // and on few others, one of them deep
	Full                // every tail, batch, number of parts and column count
)

// Run tests every kernel that the machine can run against the reference of the CPU.
func Run(t *testing.T, m Machine, depth Depth) {
	for _, k := range kernels.Usable(m.Capability()) {
		t.Run(strings.ReplaceAll(k.Name, "/", "_"), func(t *testing.T) {
			t.Parallel()
			for _, c := range cases(k, depth) {
				if err := Check(t.Context(), m, k, c); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Case is one product.
type Case struct {
	cpu.Shape
	Split int
	Fill  Fill
}

// String names the case in messages.
func (c Case) String() string {
	return fmt.Sprintf("m=%d n=%d k=%d split=%d %s", c.M, c.N, c.K, c.Split, c.Fill)
}

// Fill is what weights and activations hold.
type Fill string

// The fills. All but Random drive every sum to a bound.
const (
	Random   Fill = "random" // and a -128 in each token
	Least    Fill = "least"  // weights 1, activations -128: the most negative sum of codes
	Most     Fill = "most"   // weights 1, activations 127
	Opposite Fill = "opposite"
)

// cases are the products that a kernel is tested on: around the edges of its own blocks, and of the tiles.
func cases(k kernels.Kernel, depth Depth) []Case {
	rows, tokens := k.Rows(), k.Geometry.Tokens
	add := func(all []Case, m, n, cols, split int, fill Fill) []Case {
		return append(all, Case{cpu.Shape{M: m, N: n, K: cols}, min(split, k.Splits(cols)), fill})
	}
	var all []Case
	if k.Method == kernels.GEMM { // its blocks are large, and have no more to get wrong in a deep matrix
		all = add(all, 3, 17, 320, 2, Random)
		if depth > Quick {
			all = add(all, tokens+1, rows+1, 129, 1, Random) // a row and a token of the next block
		}
	} else {
		all = add(all, tokens+1, rows+1, 320, 2, Random) // and a rest of TL2
		if depth > Quick {
			all = add(all, 1, 1, 1, 1, Random)
			all = add(all, tokens, rows, 128, 1, Random)
			all = add(all, 3, 17, 1409, 3, Random) // not every warp of a block has as many tiles
			all = add(all, 2, 15, 2560, 1, Least)
			all = add(all, 1, 16, 6912, 7, Random)
		}
	}
	if depth < Full {
		return all
	}
	for _, n := range []int{1, 8, 15, 16, 17, 31, 33, rows - 1, rows, rows + 1, 2*rows + 9} {
		all = add(all, tokens, n, 200, 1, Random)
	}
	edges := []int{1, 2, 3, 4, 5, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257, 319, 320, 321, 383, 384, 385, 640, 1000, 1280, 1536, 1664}
	if k.Method == kernels.GEMM {
		edges = []int{1, 4, 127, 128, 129, 256, 257, 640} // it has no rest of TL2, and shares no columns among warps
	}
	for _, cols := range edges {
		all = add(all, 1, 17, cols, 1, Random)
		all = add(all, 2, 16, cols, 2, Random)
	}
	for _, batch := range []int{1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 65, tokens, tokens + 1, 2*tokens + 1} {
		all = add(all, batch, 18, 193, 1, Random)
	}
	for split := 1; split <= 12; split++ {
		all = add(all, 2, 33, 1500, split, Random)
	}
	all = add(all, 1, 16, 8640, 1<<20, Random) // as many parts as there are tiles
	for _, cols := range []int{2560, 6912} {   // of all matrices of 2B-4T
		all = add(all, tokens, rows+5, cols, 1, Random)
		all = add(all, 1, 40, cols, 4, Random)
	}
	for _, fill := range []Fill{Least, Most, Opposite} {
		all = add(all, 1, 16, 14336, 1, fill)
		all = add(all, 2, 16, 192, 1, fill)
		all = add(all, 2, 16, 6912, 2, fill)
	}
	if k.Method == kernels.GEMM {
		return all
	}
	all = add(all, 1, 16, cpu.MaxCols, 1, Least)
	return add(all, 1, 3, cpu.MaxCols, 1, Opposite)
}

// product is a case with its operands and its result by the reference.
type product struct {
	weights *kernels.Weights
	x, sum  []byte
	want    []byte // M x N int32
}

type productKey struct {
	layout cpu.Layout
	shape  cpu.Shape
	fill   Fill
}

// products are kept, as many kernels share a case.
var products sync.Map // productKey: func() *product

func productOf(layout cpu.Layout, c Case) *product {
	key := productKey{layout, c.Shape, c.Fill}
	made, _ := products.LoadOrStore(key, sync.OnceValue(func() *product { return newProduct(key) }))
	return made.(func() *product)()
}

func newProduct(key productKey) *product {
	s := key.shape
	rng := rand.New(rand.NewPCG(uint64(s.M*s.N), uint64(s.K)))
	w := make([]int8, s.N*s.K)
	x := cpu.NewActivations(s.M, s.K)
	for m := range s.M {
		token := x.X[m*x.Stride:][:s.K]
		for k := range token {
			token[k] = key.fill.activation(rng, k)
			x.Sum[m] += int32(token[k])
		}
	}
	for i := range w {
		w[i] = key.fill.weight(rng, i%s.K)
	}
	packed, err := cpu.Pack(key.layout, w, s.N, s.K, nil)
	if err != nil {
		panic("kerneltest: " + err.Error())
	}
	weights, err := kernels.Convert(key.layout, packed)
	if err != nil {
		panic("kerneltest: " + err.Error())
	}
	reference, ok := cpu.ByName("mul/" + string(key.layout) + "/generic")
	if !ok {
		panic("kerneltest: a layout without a reference")
	}
	dst := make([]int32, s.M*s.N)
	reference.Mul(dst, packed, x, cpu.Rows{From: 0, To: s.N}, nil, cpu.Blocking{})
	p := &product{weights: weights, want: words(dst), sum: words(x.Sum), x: make([]byte, s.M*kernels.Stride(s.K))}
	for m := range s.M {
		for k, v := range x.X[m*x.Stride:][:s.K] {
			p.x[m*kernels.Stride(s.K)+k] = byte(v)
		}
	}
	return p
}

func (f Fill) weight(rng *rand.Rand, k int) int8 {
	switch f {
	case Random:
		return int8(rng.IntN(3) - 1)
	case Opposite:
		return int8(1 - 2*(k%2))
	}
	return 1
}

func (f Fill) activation(rng *rand.Rand, k int) int8 {
	switch f {
	case Least:
		return -128
	case Most:
		return 127
	case Opposite:
		return int8(127 - 255*(k%2))
	}
	if k == 0 {
		return -128
	}
	return int8(rng.IntN(255) - 127)
}

// words is the little-endian memory of 32-bit numbers.
func words(values []int32) []byte {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// poison is what dst holds where it need not be cleared.
const poison = 0x5a

// Check runs one product and tells how it differs from the reference.
func Check(ctx context.Context, m Machine, k kernels.Kernel, c Case) error {
	p := productOf(k.Layout, c)
	shape, err := k.Shape(c.Shape, c.Split)
	if err != nil {
		return err
	}
	fill := []byte{poison}
	if c.Split > 1 {
		fill[0] = 0
	}
	dst := bytes.Repeat(fill, 4*c.M*c.N)
	inputs := [][]byte{p.weights.Data, p.x, p.sum}
	buffers := [][]byte{dst}
	for _, b := range inputs {
		buffers = append(buffers, bytes.Clone(b))
	}
	err = m.Run(ctx, k, shape, buffers, int32(c.M), int32(c.N), int32(c.K), int32(kernels.Stride(c.K)))
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	for i, b := range inputs {
		if !bytes.Equal(b, buffers[i+1]) {
			return fmt.Errorf("%s: wrote to input %d", c, i)
		}
	}
	for i := 0; i < len(dst); i += 4 {
		if got, want := dst[i:i+4], p.want[i:i+4]; !bytes.Equal(got, want) {
			return fmt.Errorf("%s: differs from the reference: token %d, row %d is %d, want %d", c, i/4/c.N, i/4%c.N, number(got), number(want))
		}
	}
	return nil
}

func number(b []byte) int32 { return int32(binary.LittleEndian.Uint32(b)) }
