package kernels

import (
	"fmt"
	"hash/fnv"
	"sort"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// Shape is the size of one matmul: M tokens times an N x K weight matrix (N outputs, K inputs).
type Shape struct{ M, N, K int }

// Layout is how ternary weights lie in memory at run time. Two kernels of one layout are drop-in replacements for
// each other; another layout needs a repack. The name is persistent and never reused.
type Layout string

// RowAlign is the number of rows on which every layout lets work be divided: Rows.From and Rows.To are multiples of
// it, but for a last To that equals N.
const RowAlign = 16

// ColAlign is the number of columns on which every token of activations starts; see Stride.
const ColAlign = 64

// Packed is an N x K ternary weight matrix in a run-time layout.
type Packed struct {
	Layout Layout
	N, K   int
	Data   []byte  // Format(Layout).Bytes(N, K) bytes, 64-byte aligned
	Scale  float32 // what a weight of 1 stands for; one per tensor
}

// Activations are M tokens of K int8 values, as Quantize makes them.
type Activations struct {
	M, K   int
	Stride int       // bytes from one token to the next, Stride(K)
	X      []int8    // M x Stride, zero beyond K
	Sum    []int32   // per token, the sum of its K values
	Scale  []float32 // per token, x = round(float * Scale); Scale = 127 / absmax
}

// Rows is a half-open range of output rows.
type Rows struct{ From, To int }

// Tile is the register tile of a kernel's inner loop: Groups of 16 rows times Tokens. Its text form is "4x8".
type Tile struct{ Groups, Tokens int }

// String returns "GROUPSxTOKENS".
func (t Tile) String() string { return fmt.Sprintf("%dx%d", t.Groups, t.Tokens) }

// MarshalText implements encoding.TextMarshaler.
func (t Tile) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Tile) UnmarshalText(text []byte) error {
	if _, err := fmt.Sscanf(string(text), "%dx%d", &t.Groups, &t.Tokens); err != nil || t.Groups < 0 || t.Tokens < 0 || t.String() != string(text) {
		return fmt.Errorf("kernels: tile %q: want GROUPSxTOKENS, such as 4x8", text)
	}
	return nil
}

// Blocking is what may be chosen at run time within one kernel. No choice changes a result. The zero value is
// the kernel's default for the batch.
type Blocking struct {
	Tile          Tile `json:"tile"`           // one of Kernel.Tiles; 0x0 = Kernel.Default(M)
	PrefetchBytes int  `json:"prefetch_bytes"` // how far ahead of the loads weights are prefetched; 0 = not at all, or the default with Tile 0x0
	ChunkRows     int  `json:"chunk_rows"`     // rows a worker takes at a time; 0 = one contiguous share each
}

// Kernel is one way to multiply.
type Kernel struct {
	Name     string        // "mul/i2s/avx512vnni": a path, stable, never reused
	Rev      int           // raised when speed or results may change
	Layout   Layout        // what w.Layout must be
	Needs    probe.Feature // what the host must have
	Tiles    []Tile        // the register tiles worth trying; the first is a sound choice for decode
	Prefetch []int         // the prefetch distances worth trying, in bytes; empty = it has no such knob
	// Default is the blocking used where the caller gives none, for a batch of m tokens.
	Default func(m int) Blocking
	// Work is the workspace in bytes that one worker needs; nil = none.
	Work func(Shape) int
	// Mul is, for the rows of one worker:
	//
	//	for m := range x.M { for n := rows.From; n < rows.To; n++ {
	//		dst[m*w.N+n] = Σ_k w[n][k] * x[m][k]
	//	} }
	//
	// in exact int32 arithmetic. It writes no other element of dst, does not allocate, and is safe for concurrent use
	// on disjoint rows. work has Work(Shape) bytes. dst must share no memory with w, x or work, nor work with w or x.
	Mul func(dst []int32, w *Packed, x *Activations, rows Rows, work []byte, opt Blocking)
}

var table []Kernel

// register adds a kernel to the table; each kernel's file calls it once, from init.
func register(k Kernel) { table = append(table, k) }

// All returns every kernel of this build, ordered by name.
func All() []Kernel {
	all := append([]Kernel(nil), table...)
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// Usable returns the kernels that a host with these features can run, ordered by name.
func Usable(have probe.Feature) []Kernel {
	var usable []Kernel
	for _, k := range All() {
		if have.Has(k.Needs) {
			usable = append(usable, k)
		}
	}
	return usable
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
