package kernels

import "math"

// MinAbsMax is the smallest absmax that Quantize takes a token to have, so that a token of zeros has a scale too.
// It is the clamp of the published BitNet b1.58 quantiser (activation_quant; Ma et al., 2024).
const MinAbsMax = 1e-5

func paddedCols(k int) int { return (k + ColAlign - 1) &^ (ColAlign - 1) }

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
	a.M, a.K, a.Stride = m, k, paddedCols(k)
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
func (a *Activations) Quantize(x []float32) {
	a.check(x)
	for m := range a.M {
		a.quantizeToken(m, x[m*a.K:(m+1)*a.K])
	}
}

func (a *Activations) check(x []float32) {
	if len(x) != a.M*a.K {
		panic("kernels: quantize: want M * K floats")
	}
}

func (a *Activations) quantizeToken(m int, x []float32) {
	absmax := float32(MinAbsMax)
	for _, v := range x {
		if v = abs32(v); v <= math.MaxFloat32 {
			absmax = max(absmax, v)
		}
	}
	scale := 127 / absmax
	out := a.X[m*a.Stride:]
	var sum int32
	for k, v := range x {
		q := quantized(v, scale)
		out[k] = q
		sum += int32(q)
	}
	a.Scale[m], a.Sum[m] = scale, sum
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
