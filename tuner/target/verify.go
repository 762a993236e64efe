package target

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// reference tells right outputs of one matrix from wrong ones. It decodes the packed weights by Format.Unpack and
// multiplies in plain Go, once; after that a check costs one multiplication per output, not K.
//
// It checks twice. The outputs of some rows are compared value by value. All outputs are checked by Freivalds (1977),
// "Probabilistic machines can use less running time": for random 64-bit words r and c = rᵀW,
//
//	Σ_n r[n] * out[m][n] = Σ_k c[k] * x[m][k]   mod 2^64
//
// holds for every token m if out = W x. If out is wrong in row n by e, then 0 < |e| < 2^32, so e is an odd number times
// at most 2^31, and of the 2^64 values of r[n] at most 2^31 hide it: a wrong token passes with probability 2^-33 or
// less, whatever the other rows hold. The kernel does not know r.
type reference struct {
	format  kernels.Format
	w       *kernels.Packed
	sampled []int    // rows that are compared value by value
	decoded []int8   // the weights of those rows
	r       []uint64 // per row
	c       []uint64 // per column
	exact   []int32  // per token the outputs of the sampled rows
	sums    []uint64 // per token the right side
}

// sampleRows is how many rows are sampled at each of three places.
const sampleRows = 16

// sampled returns the first rows of n, those around the middle, and the last, without repetition.
func sampled(n int) []int {
	var rows []int
	for _, from := range []int{0, n/2 - sampleRows/2, n - sampleRows} {
		for row := max(0, from); row < min(n, max(0, from)+sampleRows); row++ {
			rows = append(rows, row)
		}
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}

// newReference decodes w. rng draws the words r; rows are those to be compared value by value.
func newReference(format kernels.Format, w *kernels.Packed, rows []int, rng *rand.Rand) *reference {
	v := &reference{format: format, w: w, sampled: rows, r: make([]uint64, w.N), c: make([]uint64, w.K)}
	for n, row := range v.rows() {
		v.r[n] = rng.Uint64()
		for k, weight := range row {
			v.c[k] += v.r[n] * uint64(int64(weight))
		}
		if slices.Contains(rows, n) {
			v.decoded = append(v.decoded, row...)
		}
	}
	return v
}

// rows decodes the weights row by row, each valid until the next. It holds one block of rows at a time: all of them
// would be four times the packed matrix.
func (v *reference) rows() iter.Seq2[int, []int8] {
	return func(yield func(int, []int8) bool) {
		n, k := v.w.N, v.w.K
		block := make([]int8, min(v.format.BlockRows, n)*k)
		data := v.w.Data
		for from := 0; from < n; from += v.format.BlockRows {
			count := min(v.format.BlockRows, n-from)
			v.format.Unpack(block[:count*k], data, count, k)
			data = data[v.format.Bytes(count, k):]
			for i := range count {
				if !yield(from+i, block[i*k:(i+1)*k]) {
					return
				}
			}
		}
	}
}

// extend computes what is right for the tokens of x beyond those it knows.
func (v *reference) extend(x *kernels.Activations) {
	for m := len(v.sums); m < x.M; m++ {
		token := tokenOf(x, m)
		var sum uint64
		for k, value := range token {
			sum += v.c[k] * uint64(int64(value))
		}
		v.sums = append(v.sums, sum)
		for i := range v.sampled {
			v.exact = append(v.exact, dot(v.decoded[i*v.w.K:(i+1)*v.w.K], token))
		}
	}
}

func tokenOf(x *kernels.Activations, m int) []int8 { return x.X[m*x.Stride:][:x.K] }

// dot is the product of a row of weights and a token, in exact int32 arithmetic.
func dot(weights, token []int8) (sum int32) {
	token = token[:len(weights)]
	for k, weight := range weights {
		sum += int32(weight) * int32(token[k])
	}
	return sum
}

// compare returns nil if dst is W x, and else an error that wraps ErrMismatch and names a wrong output.
func (v *reference) compare(dst []int32, x *kernels.Activations) error {
	v.extend(x)
	for m := range x.M {
		out := dst[m*v.w.N : (m+1)*v.w.N]
		exact := v.exact[m*len(v.sampled):]
		for i, n := range v.sampled {
			if out[n] != exact[i] {
				return v.mismatch(m, n, out[n], exact[i])
			}
		}
		var sum uint64
		for n, value := range out {
			sum += v.r[n] * uint64(int64(value))
		}
		if sum != v.sums[m] {
			return v.locate(out, x, m)
		}
	}
	return nil
}

// locate finds the wrong row of a token that failed the check, the slow way.
func (v *reference) locate(out []int32, x *kernels.Activations, m int) error {
	for n, row := range v.rows() {
		if want := dot(row, tokenOf(x, m)); out[n] != want {
			return v.mismatch(m, n, out[n], want)
		}
	}
	return fmt.Errorf("matmul %d x %d, token %d: the weights have changed: %w", v.w.N, v.w.K, m, ErrMismatch)
}

func (v *reference) mismatch(token, row int, got, want int32) error {
	return fmt.Errorf("matmul %d x %d, token %d, row %d: got %d, want %d: %w", v.w.N, v.w.K, token, row, got, want, ErrMismatch)
}

// poison is what outputs hold before a kernel writes them: more than any product can be.
const poison = -0x5afebabe

func poisonAll(dst []int32) {
	for i := range dst {
		dst[i] = poison
	}
}
