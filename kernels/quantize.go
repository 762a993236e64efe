package kernels

import (
	"math"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// MinAbsMax is the smallest absmax that Quantize takes a token to have, so that a token of zeros has a scale too.
// It is the clamp of the published BitNet b1.58 quantiser (activation_quant; Ma et al., 2024).
const MinAbsMax = 1e-5

// Stride returns the bytes from one token of k columns to the next: a multiple of ColAlign with at least ColAlign zeros
// behind the token, as the last step of a layout may reach beyond K.
func Stride(k int) int { return (k + 2*ColAlign - 1) &^ (ColAlign - 1) }

// NewActivations returns m tokens of k zeros.
func NewActivations(m, k int) *Activations {
	a := new(Activations)
	a.Resize(m, k)
	return a
}

// Resize makes a hold m tokens of k zeros, in the memory it has where that is enough.
func (a *Activations) Resize(m, k int) {
	if m < 0 || k < 1 {
		panic("kernels: activations of a negative number of tokens or without columns")
	}
	a.M, a.K, a.Stride = m, k, Stride(k)
	a.X = zeroed(a.X, m*a.Stride)
	a.Sum = zeroed(a.Sum, m)
	a.Scale = zeroed(a.Scale, m)
	for i := range a.Scale {
		a.Scale[i] = 127 / float32(MinAbsMax)
	}
}

// zeroed returns n zero elements, in the memory of s where that is enough.
func zeroed[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// Quantize sets the tokens to x, M rows of K floats. It is, for each token:
//
//	Scale = 127 / max(MinAbsMax, max_k |x[k]|)
//	X[k]  = round to nearest, ties to even (x[k] * Scale)
//	Sum   = Σ_k X[k]
//
// Values that are not finite do not take part in the maximum; an infinity becomes 127 with its sign, a NaN 0.
// X is therefore never below -127. It is the reference of the faster ones that Quantizer returns.
func (a *Activations) Quantize(x []float32) { quantizers[0].all(a, x) }

// Quantizer returns the fastest way to do what Activations.Quantize does, with the same result bit for bit, on a host
// with these features.
func Quantizer(have probe.Feature) func(a *Activations, x []float32) {
	best := quantizers[0]
	for _, q := range quantizers[1:] {
		if have.Has(q.needs) {
			best = q
		}
	}
	return best.all
}

// quantizer is a way to do most of a token fast; what is no multiple of unit, and every token with a value that is
// not finite, is done in Go.
type quantizer struct {
	needs probe.Feature
	unit  int
	// absMax returns the largest of the bits of |x[i]|; n is a positive multiple of unit.
	absMax func(x *float32, n int) uint32
	// round sets out[i] to round(x[i] * scale) and returns the sum.
	round func(out *int8, x *float32, n int, scale float32) int32
}

// quantizers are ordered from the slowest to the fastest; the first does everything in Go.
var quantizers = []quantizer{{}}

func (q quantizer) all(a *Activations, x []float32) {
	if len(x) != a.M*a.K {
		panic("kernels: quantize: want M * K floats")
	}
	for m := range a.M {
		a.Scale[m], a.Sum[m] = q.token(a.X[m*a.Stride:][:a.K], x[m*a.K:][:a.K])
	}
}

func (q quantizer) token(out []int8, x []float32) (scale float32, sum int32) {
	fast, absmax := 0, float32(MinAbsMax)
	if q.unit > 0 && len(x) >= q.unit {
		n := len(x) / q.unit * q.unit
		if v := math.Float32frombits(q.absMax(&x[0], n)); v <= math.MaxFloat32 {
			fast, absmax = n, max(absmax, v)
		}
	}
	for _, v := range x[fast:] {
		if v = abs32(v); v <= math.MaxFloat32 {
			absmax = max(absmax, v)
		}
	}
	scale = 127 / absmax
	if fast > 0 {
		sum = q.round(&out[0], &x[0], fast, scale)
	}
	for k, v := range x[fast:] {
		out[fast+k] = quantized(v, scale)
		sum += int32(out[fast+k])
	}
	return scale, sum
}

func quantized(v, scale float32) int8 {
	switch {
	case v != v:
		return 0
	case v > math.MaxFloat32:
		return 127
	case v < -math.MaxFloat32:
		return -127
	}
	return int8(math.RoundToEven(float64(v * scale)))
}

func abs32(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }

// Random sets the tokens to values drawn evenly from -127..127, the same for the same seed. Scale becomes 1.
func (a *Activations) Random(seed uint64) {
	rng := splitMix(seed)
	for m := range a.M {
		var sum int32
		token := a.X[m*a.Stride:][:a.K]
		for k := range token {
			token[k] = int8(int(rng.next()>>32*255>>32) - 127)
			sum += int32(token[k])
		}
		a.Scale[m], a.Sum[m] = 1, sum
	}
}
