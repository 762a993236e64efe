package kerneltest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/kernels"
	cpu "github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// Quantizers tests every quantiser of the machine against that of the CPU.
func Quantizers(t *testing.T, m Machine, depth Depth) {
	columns := []int{1, 6, 129, 516}
	if depth == Full {
		columns = []int{1, 2, 3, 4, 5, 7, 8, 63, 127, 128, 129, 130, 132, 511, 512, 513, 2560, 6912, 8640}
	}
	for _, q := range kernels.Quantizers() {
		t.Run(strings.ReplaceAll(q.Name, "/", "_"), func(t *testing.T) {
			t.Parallel()
			for _, k := range columns {
				checkQuantizer(t, m, q, k)
			}
		})
	}
}

// tokens are floats of every kind that a quantiser can get wrong, a token of k of each.
func tokens(k int) []float32 {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	rng := rand.New(rand.NewPCG(1, uint64(k)))
	kinds := []func(i int) float32{
		func(int) float32 { return float32(rng.NormFloat64()) },
		func(int) float32 { return 0 },
		func(i int) float32 { return float32(i%255-127) / 2 }, // ties, where the largest is 63.5
		func(int) float32 { return float32(rng.NormFloat64()) * 1e-6 },
		func(int) float32 { return math.SmallestNonzeroFloat32 },
		func(i int) float32 { return math.MaxFloat32 * float32(1-i%3) },
		func(int) float32 { return inf },
		func(i int) float32 { return []float32{nan, 1, -inf, -3, inf, float32(math.Copysign(0, -1)), -nan}[i%7] },
		func(int) float32 { return nan },
		func(int) float32 { return float32(rng.NormFloat64()) * 1e30 },
	}
	x := make([]float32, 0, k*len(kinds))
	for _, kind := range kinds {
		for i := range k {
			x = append(x, kind(i))
		}
	}
	return x
}

func checkQuantizer(t *testing.T, m Machine, q kernels.Quantizer, k int) {
	t.Helper()
	x := tokens(k)
	count, stride := len(x)/k, kernels.Stride(k)
	var input []byte
	for _, v := range x {
		input = binary.LittleEndian.AppendUint32(input, math.Float32bits(v))
	}
	poisoned := func(n int) []byte { return bytes.Repeat([]byte{poison}, n) }
	out, sum, scale := poisoned(count*stride), poisoned(4*count), poisoned(4*count)
	if err := m.Run(t.Context(), q, q.Shape(count), [][]byte{out, sum, scale, input}, int32(k), int32(stride)); err != nil {
		t.Fatalf("k=%d: %v", k, err)
	}
	want := cpu.NewActivations(count, k)
	want.Quantize(x)
	for token := range count {
		values := make([]byte, stride)
		for i, v := range want.X[token*want.Stride:][:k] {
			values[i] = byte(v)
		}
		name := fmt.Sprintf("k=%d token %d", k, token)
		if got := out[token*stride:][:stride]; !bytes.Equal(got, values) {
			for i := range got {
				if got[i] != values[i] {
					t.Fatalf("%s: value %d is %d, want %d", name, i, int8(got[i]), int8(values[i]))
				}
			}
		}
		if got := int32(binary.LittleEndian.Uint32(sum[4*token:])); got != want.Sum[token] {
			t.Errorf("%s: sum %d, want %d", name, got, want.Sum[token])
		}
		if got := math.Float32frombits(binary.LittleEndian.Uint32(scale[4*token:])); math.Float32bits(got) != math.Float32bits(want.Scale[token]) {
			t.Errorf("%s: scale %g, want %g", name, got, want.Scale[token])
		}
	}
}
