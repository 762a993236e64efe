package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

func TestQuantizeByHand(t *testing.T) {
	const smallest = 127 / float32(kernels.MinAbsMax)
	tests := map[string]struct {
		x     []float32
		want  []int8
		scale float32
	}{
		"plain":                  {[]float32{1, -2, 0.5, 0}, []int8{64, -127, 32, 0}, 63.5},
		"ties go to even":        {[]float32{127, 0.5, 1.5, 2.5, -0.5, -1.5}, []int8{127, 0, 2, 2, 0, -2}, 1},
		"all zero":               {[]float32{0, 0}, []int8{0, 0}, smallest},
		"below the least absmax": {[]float32{1e-6, -1e-9}, []int8{13, 0}, smallest},
		"subnormal":              {[]float32{math.SmallestNonzeroFloat32}, []int8{0}, smallest},
		"largest finite":         {[]float32{math.MaxFloat32, -math.MaxFloat32 / 2}, []int8{127, -64}, 127 / float32(math.MaxFloat32)},
		"NaN":                    {[]float32{nan, 1}, []int8{0, 127}, 127},
		"infinities":             {[]float32{inf, -inf, 2}, []int8{127, -127, 127}, 63.5},
		"nothing finite":         {[]float32{inf, nan}, []int8{127, 0}, smallest},
		"negative zero":          {[]float32{float32(math.Copysign(0, -1)), 1}, []int8{0, 127}, 127},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := kernels.NewActivations(1, len(tt.x))
			a.Quantize(tt.x)
			if diff := cmp.Diff(tt.want, a.X[:a.K]); diff != "" {
				t.Errorf("X (-want +got):\n%s", diff)
			}
			if a.Scale[0] != tt.scale {
				t.Errorf("Scale %g, want %g", a.Scale[0], tt.scale)
			}
			checkSums(t, a)
		})
	}
}

func checkSums(t *testing.T, a *kernels.Activations) {
	t.Helper()
	for m := range a.M {
		var sum int32
		for i, v := range a.X[m*a.Stride:][:a.Stride] {
			if i >= a.K && v != 0 {
				t.Fatalf("token %d: padding at %d is %d", m, i, v)
			}
			sum += int32(v)
		}
		if a.Sum[m] != sum {
			t.Errorf("token %d: Sum %d, want %d", m, a.Sum[m], sum)
		}
	}
}

// quantizerSets are the sets of extensions between which Quantizer distinguishes.
var quantizerSets = []probe.Feature{0, probe.AVX2}

func TestQuantizersEqualTheReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	values := func(m, k int) []float32 {
		x := make([]float32, m*k)
		for i := range x {
			x[i] = float32(rng.NormFloat64() * math.Exp2(float64(rng.IntN(20)-10)))
		}
		return x
	}
	forEach(t, quantizerSets, func(t *testing.T, set probe.Feature) {
		quantize := kernels.Quantizer(set)
		for _, k := range []int{1, 2, 15, 16, 31, 32, 33, 63, 64, 65, 95, 96, 127, 128, 129, 191, 192, 1000, 2560, 6912} {
			for name, spoil := range map[string]func([]float32){
				"plain":         func([]float32) {},
				"NaN first":     func(x []float32) { x[0] = nan },
				"Inf last":      func(x []float32) { x[len(x)-1] = -inf },
				"tie":           func(x []float32) { clear(x); x[0], x[len(x)/2], x[len(x)-1] = 127, 2.5, -3.5 },
				"zeros":         func(x []float32) { clear(x) },
				"tiny":          func(x []float32) { clear(x); x[len(x)-1] = 1e-7 },
				"largest float": func(x []float32) { x[len(x)/3] = -math.MaxFloat32 },
			} {
				const m = 3
				x := values(m, k)
				for token := range m {
					spoil(x[token*k:][:k])
				}
				before := slices.Clone(x)
				want, got := kernels.NewActivations(m, k), kernels.NewActivations(m, k)
				want.Quantize(x)
				quantize(got, x)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("k=%d %s (-want +got):\n%s", k, name, diff)
				}
				checkSums(t, got)
				for i := range x {
					if math.Float32bits(x[i]) != math.Float32bits(before[i]) {
						t.Fatalf("k=%d %s: the input changed", k, name)
					}
				}
			}
		}
	})
}

func TestResizeReusesMemory(t *testing.T) {
	a := kernels.NewActivations(4, 256)
	a.Random(1)
	x := make([]float32, 2*100)
	quantize := kernels.Quantizer(host())
	if n := testing.AllocsPerRun(10, func() { a.Resize(2, 100); quantize(a, x) }); n != 0 {
		t.Errorf("%v allocations in Resize and quantise, want 0", n)
	}
	a.Resize(3, 70)
	if diff := cmp.Diff(kernels.NewActivations(3, 70), a); diff != "" {
		t.Errorf("resized differs from new (-new +resized):\n%s", diff)
	}
}

func TestQuantizePanicsOnWrongLength(t *testing.T) {
	defer func() {
		if got := recover(); got != "kernels: quantize: want M * K floats" {
			t.Errorf("recovered %v", got)
		}
	}()
	kernels.NewActivations(1, 4).Quantize(make([]float32, 3))
}

func BenchmarkQuantize(b *testing.B) {
	for _, set := range quantizerSets {
		quantize := kernels.Quantizer(set)
		for _, k := range []int{2560, 6912} {
			b.Run(fmt.Sprintf("isa=%s/m=1/k=%d", set, k), func(b *testing.B) {
				needs(b, set)
				a, x := kernels.NewActivations(1, k), make([]float32, k)
				for i := range x {
					x[i] = float32(i%251) - 125
				}
				b.SetBytes(int64(4 * k))
				for b.Loop() {
					quantize(a, x)
				}
			})
		}
	}
}
