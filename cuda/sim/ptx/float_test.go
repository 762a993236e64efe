package ptx

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// floats are single-precision numbers at which arithmetic goes wrong, and random ones of like and unlike size.
func floats() [][3]uint64 {
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 0.5, 1.5, 2.5, -2.5, 127, 127.5, -128.5, 1 << 23, 1<<24 + 2, 3.4e38, -3.4e38,
		1e-45, -1e-45, 1.1754944e-38, 1e-40, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
	of := func(v float32) uint64 { return uint64(math.Float32bits(v)) }
	var rows [][3]uint64
	for i, a := range special {
		for _, b := range special {
			rows = append(rows, [3]uint64{of(a), of(b), of(special[(i+5)%len(special)])})
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		a := float32(rng.NormFloat64())
		b := float32(rng.NormFloat64() * math.Ldexp(1, rng.IntN(40)-20))
		c := -a * b // so that the sum cancels
		if rng.IntN(2) == 0 {
			c = float32(rng.NormFloat64() * math.Ldexp(1, rng.IntN(80)-40))
		}
		rows = append(rows, [3]uint64{of(a), of(b), of(c)})
	}
	return rows
}

// exact rounds once from as many bits as it takes.
func exact(f func(z, a, b, c *big.Float)) func(a, b, c uint64) uint64 {
	return func(a, b, c uint64) uint64 {
		x, y, z := f32(a), f32(b), f32(c)
		n := func(v float32) *big.Float { return new(big.Float).SetPrec(1000).SetFloat64(float64(v)) }
		d := new(big.Float).SetPrec(1000)
		f(d, n(x), n(y), n(z))
		v, _ := d.Float32()
		return uint64(math.Float32bits(v))
	}
}

// finite leaves rows whose numbers and result are all finite and not zero, of which big.Float knows everything.
func finite(rows [][3]uint64, f func(a, b, c float64) float64) [][3]uint64 {
	var kept [][3]uint64
	for _, r := range rows {
		v := f(float64(f32(r[0])), float64(f32(r[1])), float64(f32(r[2])))
		ok := math.Abs(v) < math.MaxFloat32 && v != 0
		for _, x := range r {
			ok = ok && !math.IsInf(float64(f32(x)), 0) && f32(x) == f32(x)
		}
		if ok {
			kept = append(kept, r)
		}
	}
	return kept
}

func TestFloatArithmeticIsRoundedOnce(t *testing.T) {
	for _, tt := range []struct {
		instruction string
		plain       func(a, b, c float64) float64
		exact       func(z, a, b, c *big.Float)
	}{
		{"add.f32 d, a, b;", func(a, b, _ float64) float64 { return a + b }, func(z, a, b, _ *big.Float) { z.Add(a, b) }},
		{"sub.rn.f32 d, a, b;", func(a, b, _ float64) float64 { return a - b }, func(z, a, b, _ *big.Float) { z.Sub(a, b) }},
		{"mul.f32 d, a, b;", func(a, b, _ float64) float64 { return a * b }, func(z, a, b, _ *big.Float) { z.Mul(a, b) }},
		{"fma.rn.f32 d, a, b, c;", math.FMA, func(z, a, b, c *big.Float) { z.Add(z.Mul(a, b), c) }},
		{"div.rn.f32 d, a, b;", func(a, b, _ float64) float64 { return a / b }, func(z, a, b, _ *big.Float) { z.Quo(a, b) }},
	} {
		t.Run(tt.instruction, func(t *testing.T) {
			rows := finite(floats(), tt.plain)
			if len(rows) < 500 {
				t.Fatalf("only %d rows are left", len(rows))
			}
			compare(t, tt.instruction, "f32", "f32", "f32", "f32", rows, exact(tt.exact))
		})
	}
	// 2^0 + 2^-24 + 2^-60 rounds up; by way of a float64 it would round to even, down.
	got := evaluate(t, "fma.rn.f32 d, a, b, c;", "f32", "f32", "f32", "f32", [][3]uint64{{bits32(1 + 0x1p-23), bits32(0x1p-24), bits32(1)}})
	if want := bits32(1 + 0x1p-23); got[0] != want {
		t.Errorf("fma gave %#x, want %#x", got[0], want)
	}
}

func TestFloatValues(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	zero := float32(math.Copysign(0, -1))
	for _, tt := range []struct {
		instruction string
		a, b, want  float32
	}{
		{"add.f32 d, a, b;", inf, -inf, nan},
		{"mul.f32 d, a, b;", inf, 0, nan},
		{"add.f32 d, a, b;", 1e-40, 1e-40, 1.99999e-40},
		{"add.ftz.f32 d, a, b;", 1e-40, 1, 1},
		{"add.ftz.f32 d, a, b;", 1e-40, 1e-40, 0},
		{"add.sat.f32 d, a, b;", 1, 1, 1},
		{"add.sat.f32 d, a, b;", -1, 0.5, 0},
		{"add.sat.f32 d, a, b;", nan, 1, 0},
		{"div.rn.f32 d, a, b;", 1, 0, inf},
		{"div.rn.f32 d, a, b;", 0, 0, nan},
		{"min.f32 d, a, b;", nan, 3, 3},
		{"max.f32 d, a, b;", 3, nan, 3},
		{"max.NaN.f32 d, a, b;", 3, nan, nan},
		{"min.f32 d, a, b;", 0, zero, zero},
		{"max.f32 d, a, b;", zero, 0, 0},
		{"abs.f32 d, a;", -3, 0, 3},
		{"neg.f32 d, a;", 0, 0, zero},
		{"copysign.f32 d, a, b;", -1, 3, -3},
		{"rcp.rn.f32 d, a;", 3, 0, 1 / float32(3)},
		{"rcp.approx.ftz.f32 d, a;", 4, 0, 0.25},
		{"sqrt.rn.f32 d, a;", 2, 0, float32(math.Sqrt(2))},
		{"rsqrt.approx.f32 d, a;", 4, 0, 0.5},
		{"ex2.approx.ftz.f32 d, a;", 3, 0, 8},
		{"lg2.approx.f32 d, a;", 8, 0, 3},
		{"mov.f32 d, 0f3FC00000;", 0, 0, 1.5},
		{"mov.f32 d, 1.25;", 0, 0, 1.25},
	} {
		got := evaluate(t, tt.instruction, "f32", "f32", "f32", "f32", [][3]uint64{{bits32(tt.a), bits32(tt.b)}})
		if got[0] != bits32(tt.want) {
			t.Errorf("%s of %v and %v gave %v, want %v", tt.instruction, tt.a, tt.b, f32(got[0]), tt.want)
		}
	}
}

func TestDoubles(t *testing.T) {
	third := 1.0 / 3
	for instruction, want := range map[string]float64{
		"add.f64 d, a, b;":       third + 7,
		"mul.f64 d, a, b;":       third * 7,
		"fma.rn.f64 d, a, b, c;": math.FMA(third, 7, -2),
		"div.rn.f64 d, a, b;":    third / 7,
		"sqrt.rn.f64 d, a;":      math.Sqrt(third),
		"max.f64 d, a, c;":       third,
	} {
		got := evaluate(t, instruction, "f64", "f64", "f64", "f64", [][3]uint64{{math.Float64bits(third), math.Float64bits(7), math.Float64bits(-2)}})
		if got[0] != math.Float64bits(want) {
			t.Errorf("%s gave %v, want %v", instruction, math.Float64frombits(got[0]), want)
		}
	}
}

func TestConversions(t *testing.T) {
	f := func(v float64) uint64 { return bits32(float32(v)) }
	for _, tt := range []struct {
		instruction string
		d, a        Type
		from, want  uint64
	}{
		{"cvt.s32.s8 d, a;", "b32", "b32", 0x1ff, 0xffffffff},
		{"cvt.u32.u8 d, a;", "b32", "b16", 0xff, 0xff},
		{"cvt.u64.u32 d, a;", "b64", "b32", 0xffffffff, 0xffffffff},
		{"cvt.s64.s32 d, a;", "b64", "b32", 0xffffffff, 1<<64 - 1},
		{"cvt.u32.u64 d, a;", "b32", "b64", 0x123456789, 0x23456789},
		{"cvt.s8.s32 d, a;", "b32", "b32", 0x80, 0xffffff80},
		{"cvt.s8.s32 d, a;", "b16", "b32", 0x80, 0xff80},
		{"cvt.sat.s8.s32 d, a;", "b32", "b32", 200, 127},
		{"cvt.sat.s8.s32 d, a;", "b32", "b32", 0xffffff00, 0xffffff80},
		{"cvt.sat.u8.s32 d, a;", "b32", "b32", 0xffffffff, 0},
		{"cvt.sat.s32.u32 d, a;", "b32", "b32", 0xffffffff, 0x7fffffff},
		{"cvt.u16.u32 d, a;", "b16", "b32", 0x12345, 0x2345},

		{"cvt.rni.s32.f32 d, a;", "b32", "f32", f(2.5), 2},
		{"cvt.rni.s32.f32 d, a;", "b32", "f32", f(3.5), 4},
		{"cvt.rni.s32.f32 d, a;", "b32", "f32", f(-2.5), 0xfffffffe},
		{"cvt.rzi.s32.f32 d, a;", "b32", "f32", f(-2.9), 0xfffffffe},
		{"cvt.rmi.s32.f32 d, a;", "b32", "f32", f(-2.1), 0xfffffffd},
		{"cvt.rpi.s32.f32 d, a;", "b32", "f32", f(2.1), 3},
		{"cvt.rni.sat.s8.f32 d, a;", "b32", "f32", f(127.5), 127},
		{"cvt.rni.sat.s8.f32 d, a;", "b32", "f32", f(-1000), 0xffffff80},
		{"cvt.rni.sat.s8.f32 d, a;", "b16", "f32", f(-3.5), 0xfffc},
		{"cvt.rni.s32.f32 d, a;", "b32", "f32", f(3e9), 0x7fffffff},
		{"cvt.rni.s32.f32 d, a;", "b32", "f32", f(math.NaN()), 0},
		{"cvt.rzi.s64.f32 d, a;", "b64", "f32", f(math.NaN()), 1 << 63},
		{"cvt.rzi.u32.f32 d, a;", "b32", "f32", f(-5), 0},
		{"cvt.rzi.u64.f64 d, a;", "b64", "f64", math.Float64bits(1e30), 1<<64 - 1},

		{"cvt.rn.f32.s32 d, a;", "f32", "b32", 1<<24 + 1, f(1 << 24)},
		{"cvt.rn.f32.s32 d, a;", "f32", "b32", 0xffffffff, f(-1)},
		{"cvt.rn.f32.u32 d, a;", "f32", "b32", 0xffffffff, f(1 << 32)},
		{"cvt.rn.f32.s8 d, a;", "f32", "b16", 0x80, f(-128)},
		{"cvt.rn.f64.s64 d, a;", "f64", "b64", 1<<64 - 7, math.Float64bits(-7)},

		{"cvt.rn.f32.f64 d, a;", "f32", "f64", math.Float64bits(0.1), f(0.1)},
		{"cvt.f64.f32 d, a;", "f64", "f32", f(0.1), math.Float64bits(float64(float32(0.1)))},
		{"cvt.rni.f32.f32 d, a;", "f32", "f32", f(-0.5), f(math.Copysign(0, -1))},
		{"cvt.rmi.f32.f32 d, a;", "f32", "f32", f(2.7), f(2)},
		{"cvt.sat.f32.f32 d, a;", "f32", "f32", f(2.7), f(1)},

		{"cvt.f32.f16 d, a;", "f32", "b16", 0x3555, f(0.333251953125)},
		{"cvt.f32.f16 d, a;", "f32", "b16", 0x8001, f(-0x1p-24)},
		{"cvt.f32.f16 d, a;", "f32", "b16", 0x7c00, f(math.Inf(1))},
		{"cvt.rn.f16.f32 d, a;", "b16", "f32", f(1.0 / 3), 0x3555},
		{"cvt.rn.f16.f32 d, a;", "b16", "f32", f(65520), 0x7c00},
		{"cvt.rn.f16.f32 d, a;", "b16", "f32", f(65519), 0x7bff},
		{"cvt.rn.f16.f32 d, a;", "b16", "f32", f(0x1p-24), 1},
		{"cvt.rn.f16.f32 d, a;", "b16", "f32", f(0x1p-25), 0},
		{"cvt.rn.f16.f32 d, a;", "b16", "f32", f(-2049), 0xe800},
		{"cvt.rn.bf16.f32 d, a;", "b16", "f32", 0x3f808000, 0x3f80},
		{"cvt.rn.bf16.f32 d, a;", "b16", "f32", 0x3f818000, 0x3f82},
		{"cvt.f32.bf16 d, a;", "f32", "b16", 0x3fc0, f(1.5)},
	} {
		got := evaluate(t, tt.instruction, tt.d, tt.a, "b32", "b32", [][3]uint64{{tt.from}})
		if got[0] != tt.want {
			t.Errorf("%s into .%s of %#x gave %#x, want %#x", tt.instruction, tt.d, tt.from, got[0], tt.want)
		}
	}
}

// Every half survives the way to a single and back.
func TestHalvesRoundTrip(t *testing.T) {
	for v := range uint64(1 << 16) {
		back := floatToHalf(halfToFloat(v))
		if nan := v&0x7c00 == 0x7c00 && v&0x3ff != 0; !nan && back != v {
			t.Fatalf("%#x came back as %#x", v, back)
		}
	}
}

func TestComparisons(t *testing.T) {
	nan := uint64(nan32)
	one, two := bits32(1), bits32(2)
	minus := uint64(0xffffffff)
	for _, tt := range []struct {
		instruction string
		d, a        Type
		x, y, c     uint64
		want        uint64
	}{
		{"setp.lt.s32 d, a, b;", "pred", "b32", minus, 1, 0, 1},
		{"setp.lt.u32 d, a, b;", "pred", "b32", minus, 1, 0, 0},
		{"setp.lo.u32 d, a, b;", "pred", "b32", 1, minus, 0, 1},
		{"setp.hs.u32 d, a, b;", "pred", "b32", 1, 1, 0, 1},
		{"setp.ge.s16 d, a, b;", "pred", "b16", 0xffff, 0, 0, 0},
		{"setp.gt.s64 d, a, b;", "pred", "b64", 1, 1<<64 - 1, 0, 1},
		{"setp.eq.b16 d, a, b;", "pred", "b16", 7, 7, 0, 1},
		{"setp.ne.s32 d, a, b;", "pred", "b32", 7, 7, 0, 0},
		{"setp.lt.f32 d, a, b;", "pred", "f32", one, two, 0, 1},
		{"setp.lt.f32 d, a, b;", "pred", "f32", nan, two, 0, 0},
		{"setp.ltu.f32 d, a, b;", "pred", "f32", nan, two, 0, 1},
		{"setp.geu.f32 d, a, b;", "pred", "f32", one, two, 0, 0},
		{"setp.neu.f32 d, a, b;", "pred", "f32", nan, nan, 0, 1},
		{"setp.ne.f32 d, a, b;", "pred", "f32", nan, nan, 0, 0},
		{"setp.equ.f32 d, a, b;", "pred", "f32", nan, one, 0, 1},
		{"setp.num.f32 d, a, b;", "pred", "f32", nan, one, 0, 0},
		{"setp.nan.f32 d, a, b;", "pred", "f32", nan, one, 0, 1},
		{"setp.gt.ftz.f32 d, a, b;", "pred", "f32", 1, 0, 0, 0}, // the smallest subnormal
		{"setp.lt.and.s32 d, a, b, c;", "pred", "b32", 1, 2, 0, 0},
		{"setp.lt.or.s32 d, a, b, c;", "pred", "b32", 2, 1, 1, 1},
		{"setp.lt.xor.s32 d, a, b, !c;", "pred", "b32", 1, 2, 1, 1},
		{"set.lt.u32.s32 d, a, b;", "b32", "b32", 1, 2, 0, 0xffffffff},
		{"set.lt.f32.s32 d, a, b;", "f32", "b32", 1, 2, 0, one},
		{"selp.b32 d, a, b, c;", "b32", "b32", 1, 2, 1, 1},
		{"selp.b32 d, a, b, c;", "b32", "b32", 1, 2, 0, 2},
		{"slct.b32.s32 d, a, b, -1;", "b32", "b32", 1, 2, 0, 2},
		{"testp.finite.f32 d, a;", "pred", "f32", one, 0, 0, 1},
		{"testp.notanumber.f32 d, a;", "pred", "f32", nan, 0, 0, 1},
		{"testp.subnormal.f32 d, a;", "pred", "f32", 1, 0, 0, 1},
		{"and.pred d, c, c;", "pred", "b32", 0, 0, 1, 1},
		{"not.pred d, c;", "pred", "b32", 0, 0, 1, 0},
		{"mov.pred d, c;", "pred", "b32", 0, 0, 1, 1},
	} {
		got := evaluate(t, tt.instruction, tt.d, tt.a, tt.a, "pred", [][3]uint64{{tt.x, tt.y, tt.c}})
		if got[0] != tt.want {
			t.Errorf("%s of %#x, %#x and %d gave %#x, want %#x", tt.instruction, tt.x, tt.y, tt.c, got[0], tt.want)
		}
	}
}

// setp writes the comparison to the first predicate and its negation to the second.
func TestSetpOfTwoPredicates(t *testing.T) {
	got := words(t, 4, `setp.lt.u32 %p1|%p2, %r0, 2;
	selp.u32 %r1, 10, 0, %p1;
	selp.u32 %r2, 1, 0, %p2;
	add.u32 %r1, %r1, %r2;`+storeR)
	for i, want := range []uint32{10, 10, 1, 1} {
		if got[i] != want {
			t.Errorf("thread %d: %d, want %d", i, got[i], want)
		}
	}
}
