package ptx

import "math"

// buildCvt converts between types. Registers may be wider than an integer type.
func buildCvt(b *builder) {
	if b.has("pack") {
		b.pack()
		return
	}
	rounding := b.take("rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna")
	ftz := b.has("ftz")
	sat := b.has("sat")
	d := b.typ()
	s := b.typ()
	if d == "pred" || s == "pred" {
		b.fail("cvt has no predicates")
	}
	dst, src := b.operand(0), b.operand(1)
	to := b.into(dst, d, true)
	width := uint(32)
	if dst.kind == registerOperand {
		width = dst.reg.typ.Bits()
	}
	from := b.from(src, s, true)
	var f func(v uint64) uint64
	switch {
	case d.integer() && s.integer():
		if rounding != "" || ftz {
			b.fail("integers are not rounded")
		}
		f = integerToInteger(d, s, sat, width)
	case d.integer():
		f = floatToInteger(b, d, s, rounding, ftz, width)
	case s.integer():
		f = integerToFloat(b, d, s, rounding, sat)
	default:
		f = floatToFloat(b, d, s, rounding, ftz, sat)
	}
	b.emit(to, from, b.zero(), b.zero(), func(d, a, _, _ *lanes) {
		for i := range d {
			d[i] = f(a[i])
		}
	})
}

func integerToInteger(d, s Type, sat bool, width uint) func(uint64) uint64 {
	from, to := s.extender(64), d.extender(width)
	if !sat {
		return func(v uint64) uint64 { return to.of(from.of(v)) }
	}
	return func(v uint64) uint64 { return to.of(clamp(d, from.of(v), from.signed)) }
}

// clamp brings a number into the range of d.
func clamp(d Type, v uint64, isSigned bool) uint64 {
	negative := isSigned && int64(v) < 0
	switch {
	case !d.signed() && negative:
		return 0
	case !d.signed():
		return min(v, d.mask())
	case negative:
		return uint64(max(int64(v), -1<<(d.Bits()-1)))
	}
	return min(v, d.mask()>>1)
}

// floatToInteger always clamps. What a NaN becomes is in the section on cvt of the PTX ISA.
func floatToInteger(b *builder, d, s Type, rounding string, ftz bool, width uint) func(uint64) uint64 {
	round := roundings[rounding]
	if round == nil || rounding[2:] != "i" {
		b.fail("a float becomes an integer by .rni, .rzi, .rmi or .rpi")
	}
	toFloat := b.decode(s)
	notANumber := uint64(0)
	if s == "f64" || d.Bits() == 64 {
		notANumber = 1 << (d.Bits() - 1)
	}
	low, high := 0.0, math.Ldexp(1, int(d.Bits()))
	if d.signed() {
		low, high = -high/2, high/2
	}
	to := d.extender(width)
	return func(v uint64) uint64 {
		f := toFloat(v)
		if ftz {
			f = float64(flush(float32(f)))
		}
		f = round(f)
		switch {
		case f != f:
			return to.of(notANumber)
		case f < low:
			return to.of(uint64(int64(low)))
		case f >= high:
			return to.of(clamp(d, math.MaxUint64, false))
		case f < 0:
			return to.of(uint64(int64(f)))
		}
		return to.of(uint64(f))
	}
}

var roundings = map[string]func(float64) float64{
	"rn": math.RoundToEven, "rz": math.Trunc, "rm": math.Floor, "rp": math.Ceil,
	"rni": math.RoundToEven, "rzi": math.Trunc, "rmi": math.Floor, "rpi": math.Ceil,
}

func integerToFloat(b *builder, d, s Type, rounding string, sat bool) func(uint64) uint64 {
	if rounding != "rn" {
		b.fail("an integer becomes a float by .rn; other roundings are not simulated")
	}
	finish := func(v uint64) uint64 { return v }
	if sat && d == "f32" {
		finish = func(v uint64) uint64 { return bits32(saturate(f32(v))) }
	} else if sat || d == "f16" || d == "bf16" {
		b.fail("cvt to .%s from .%s is not simulated", d, s)
	}
	from := s.extender(64)
	switch {
	case d == "f32" && s.signed():
		return func(v uint64) uint64 { return finish(bits32(float32(int64(from.of(v))))) }
	case d == "f32":
		return func(v uint64) uint64 { return finish(bits32(float32(from.of(v)))) }
	case s.signed():
		return func(v uint64) uint64 { return bits64(float64(int64(from.of(v)))) }
	}
	return func(v uint64) uint64 { return bits64(float64(from.of(v))) }
}

// decode turns bits into a number; every type's values are float64s.
func (b *builder) decode(t Type) func(uint64) float64 {
	switch t {
	case "f16":
		return halfToFloat
	case "bf16":
		return func(v uint64) float64 { return float64(f32(v << 16)) }
	case "f32":
		return func(v uint64) float64 { return float64(f32(v)) }
	}
	return math.Float64frombits
}

func floatToFloat(b *builder, d, s Type, rounding string, ftz, sat bool) func(uint64) uint64 {
	toFloat := b.decode(s)
	integral := len(rounding) == 3
	narrower := d.Bits() < s.Bits() || d == "bf16" && s != "bf16"
	switch {
	case integral && d != s, narrower && rounding == "", !narrower && rounding != "" && !integral:
		b.fail("rounding and types of the conversion do not go together")
	case rounding == "rna" || narrower && rounding != "rn":
		b.fail("rounding .%s is not simulated here", rounding)
	}
	round := roundings[rounding]
	return func(v uint64) uint64 {
		f := toFloat(v)
		if ftz && s == "f32" {
			f = float64(flush(float32(f)))
		}
		if integral {
			f = round(f)
		}
		if sat {
			f = float64(saturate(float32(f)))
		}
		switch d {
		case "f16":
			return floatToHalf(f)
		case "bf16":
			return floatToBrain(f)
		case "f32":
			r := float32(f)
			if ftz {
				r = flush(r)
			}
			return bits32(r)
		}
		return bits64(f)
	}
}

func halfToFloat(v uint64) float64 {
	exponent, fraction := int(v>>10&31), float64(v&1023)
	f := math.Ldexp(fraction+1024, exponent-25)
	switch {
	case exponent == 31 && fraction == 0:
		f = math.Inf(1)
	case exponent == 31:
		f = math.NaN()
	case exponent == 0:
		f = math.Ldexp(fraction, -24)
	}
	if v>>15&1 == 1 {
		f = -f
	}
	return f
}

// floatToHalf rounds to the nearest, ties to even.
func floatToHalf(f float64) uint64 {
	sign := math.Float64bits(f) >> 63 << 15
	f = math.Abs(f)
	switch {
	case f != f:
		return 0x7fff
	case math.IsInf(f, 0):
		return sign | 0x7c00
	}
	_, exponent := math.Frexp(f) // f = 0.1… × 2^exponent
	exponent = max(exponent, -13)
	n := math.RoundToEven(math.Ldexp(f, 11-exponent)) // in units of the last place
	if n >= 2048 {
		n, exponent = n/2, exponent+1
	}
	if exponent > 16 {
		return sign | 0x7c00
	}
	if n < 1024 {
		return sign | uint64(n)
	}
	return sign | (uint64(exponent+14)<<10 + uint64(n) - 1024)
}

// floatToBrain rounds the upper half of a float32 to the nearest, ties to even. Every f here is a float32.
func floatToBrain(f float64) uint64 {
	v := uint64(math.Float32bits(float32(f)))
	if f != f {
		return 0x7fff
	}
	return (v + 0x7fff + v>>16&1) >> 16
}

// pack is cvt.pack.sat: two numbers clamped to bytes or halves, before what c holds already.
func (b *builder) pack() {
	b.need("sat")
	d := b.typ("s8", "u8", "s16", "u16")
	b.typ("s32")
	to, x, y := b.dst(0, "b32"), b.src(1, "s32"), b.src(2, "s32")
	z := b.zero()
	if d.Bits() == 8 {
		b.typ("b32")
		z = b.src(3, "b32")
	}
	n := d.Bits()
	b.emit(to, x, y, z, lift(func(a, b, c uint64) uint64 {
		one := func(v uint64) uint64 { return clamp(d, Type("s32").extend(v, 64), true) & d.mask() }
		return (one(b) | one(a)<<n | c<<(2*n)) & (1<<32 - 1)
	}))
}
