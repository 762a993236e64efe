package kernels

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	cpu "github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// Capability is the compute capability of a card, as 10 * major + minor.
type Capability int

// The capabilities that kernels ask for; there is a PTX file for each.
const (
	DP4A       Capability = 61 // sums of four products of bytes
	TensorCore Capability = 80 // mma of int8, asynchronous copies
)

// Method is how a kernel multiplies.
type Method string

// The methods.
const (
	NoShift Method = "noshift" // dp4a on codes where they are in the word
	Shift   Method = "shift"   // dp4a on codes brought down
	Decode  Method = "decode"  // dp4a on codes taken out of indices
	MMA     Method = "mma"     // tensor cores, few tokens, warps share columns
	GEMM    Method = "gemm"    // tensor cores, many tokens in shared memory
)

// Geometry is what one variant of a method is compiled with. No choice changes a result.
type Geometry struct {
	Warps    int // that share the columns of a row; with GEMM, each with rows of its own
	RowTiles int // tiles of 16 rows of a warp
	Tokens   int // of a block
	Unroll   int // tiles read ahead in one step; 0 with GEMM
	Stages   int // of activations under way or in use in shared memory; 0 but with GEMM
}

// Kernel is one way to multiply.
type Kernel struct {
	Name     string // "mul/i2s/noshift/kw4-rt1-m1-u2": a path, stable, never reused
	Rev      int    // raised when speed or results may change
	Layout   cpu.Layout
	Needs    Capability
	Method   Method
	Geometry Geometry

	body string // in CUDA C++
}

// MulParams are the parameters of every Kernel, as driver.Params packs them.
type MulParams struct {
	Dst    driver.Ptr // M x N int32
	W      driver.Ptr // Weights.Data
	X      driver.Ptr // M x Stride int8, zero from column K on
	Sum    driver.Ptr // M int32: per token, the sum of its K values
	M      int32
	N      int32
	K      int32
	Stride int32 // Stride(K)
}

// groups is how many groups of Geometry.Warps a block has: a small group is not left alone, as a multiprocessor holds
// only so many blocks.
func (k Kernel) groups() int {
	if k.Method == GEMM {
		return 1
	}
	return max(1, 4/k.Geometry.Warps)
}

// Threads is the size of a block.
func (k Kernel) Threads() int { return 32 * k.Geometry.Warps * k.groups() }

// Rows is how many rows a block computes.
func (k Kernel) Rows() int {
	rows := 16 * k.Geometry.RowTiles * k.groups()
	if k.Method == GEMM {
		rows *= k.Geometry.Warps
	}
	return rows
}

// SharedBytes is the dynamic shared memory of a block: the sums of the warps that share columns, or the activations.
func (k Kernel) SharedBytes() int {
	g := k.Geometry
	switch {
	case k.Method == GEMM:
		return g.Stages * g.Tokens * tileCols
	case g.Warps == 1:
		return 0
	}
	return 4 * g.Warps * g.Tokens * k.Rows()
}

// Splits is the largest number of parts that columns can be split into.
func (k Kernel) Splits(cols int) int { return min(maxGrid, tilesOf(k.Layout, cols).most()) }

// Workspace is the device memory in bytes that a product needs besides weights, floats and dst: the int8 tokens with
// their sums and scales. No kernel of this table needs any of its own.
func (k Kernel) Workspace(s cpu.Shape) int { return s.M * (Stride(s.K) + 4 + 4) }

// maxGrid is the largest y and z of a grid.
const maxGrid = 65535

// Shape is the launch of a product whose columns are split into so many parts, 1 for none. With more than one, dst must be
// zero.
func (k Kernel) Shape(s cpu.Shape, split int) (driver.Launch, error) {
	switch {
	case s.M < 1 || s.N < 1 || s.K < 1 || s.K > cpu.MaxCols:
		return driver.Launch{}, fmt.Errorf("kernels: %s on %dx%dx%d: want at least 1 token, row and column and at most %d columns", k.Name, s.M, s.N, s.K, cpu.MaxCols)
	case ceilDiv(s.M, k.Geometry.Tokens) > maxGrid:
		return driver.Launch{}, fmt.Errorf("kernels: %s: %d tokens: at most %d", k.Name, s.M, maxGrid*k.Geometry.Tokens)
	case split < 1 || split > k.Splits(s.K):
		return driver.Launch{}, fmt.Errorf("kernels: %s: %d columns in %d parts: want 1 to %d", k.Name, s.K, split, k.Splits(s.K))
	}
	return driver.Launch{
		Grid:        [3]uint32{uint32(ceilDiv(s.N, k.Rows())), uint32(ceilDiv(s.M, k.Geometry.Tokens)), uint32(split)},
		Block:       [3]uint32{uint32(k.Threads()), 1, 1},
		SharedBytes: uint32(k.SharedBytes()),
	}, nil
}

// Symbol is the name of the kernel in its PTX.
func (k Kernel) Symbol() string { return symbol(k.Name) }

func (k Kernel) unit() string { return "mul_" + string(k.Layout) }

func (k Kernel) needs() Capability { return k.Needs }

func (k Kernel) declaration() string {
	return fmt.Sprintf("MUL(%s, %d, %s)", k.Symbol(), k.Threads(), k.body)
}

func symbol(name string) string { return strings.NewReplacer("/", "_", "-", "_").Replace(name) }

func ceilDiv(a, b int) int { return (a + b - 1) / b }

var table []Kernel

// register adds a kernel to the table; each method's file does it for its variants, from init.
func register(k Kernel) { table = append(table, k) }

// All returns every kernel, ordered by name.
func All() []Kernel {
	all := slices.Clone(table)
	slices.SortFunc(all, func(a, b Kernel) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Usable returns the kernels that a card can run, ordered by name.
func Usable(have Capability) []Kernel {
	return slices.DeleteFunc(All(), func(k Kernel) bool { return k.Needs > have })
}

// ByName returns the kernel of that name.
func ByName(name string) (Kernel, bool) {
	for _, k := range table {
		if k.Name == name {
			return k, true
		}
	}
	return Kernel{}, false
}

// Signature identifies the table: it changes when a kernel is added, removed or revised, so that what was learned
// from another table can be told apart.
func Signature() string {
	h := fnv.New64a()
	for _, k := range All() {
		fmt.Fprintf(h, "%s@%d\n", k.Name, k.Rev)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// Suits reports whether the kernel is worth trying for a batch of m tokens; it computes any. Left out are blocks of which
// more than half would idle, but for tensor cores on few tokens, which decode what dp4a must mask; and batches that would
// read the weights more than four times where a kernel of the layout reads them less often.
func (k Kernel) Suits(m int) bool {
	tokens := k.Geometry.Tokens
	switch k.Method {
	case GEMM:
		return m > 8 && 2*m > tokens
	case MMA:
		return m <= 4*tokens || tokens == 16
	}
	return m >= tokens && (m <= 4*tokens || tokens == 4)
}
