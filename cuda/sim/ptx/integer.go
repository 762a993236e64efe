package ptx

import "math/bits"

type integer interface {
	int16 | uint16 | int32 | uint32 | int64 | uint64
}

// integerOp is an operation on integers of type t; 32-bit types stand for .b32 as well.
func integerOp(t Type, name string) op {
	switch t {
	case "s16":
		return integerLoop[int16](name, 1<<16-1)
	case "u16", "b16":
		return integerLoop[uint16](name, 1<<16-1)
	case "s32":
		return integerLoop[int32](name, 1<<32-1)
	case "u32", "b32":
		return integerLoop[uint32](name, 1<<32-1)
	case "s64":
		return integerLoop[int64](name, 1<<64-1)
	default:
		return integerLoop[uint64](name, 1<<64-1)
	}
}

// integerLoop is the loop over a warp for each operation: kernels spend their time here.
func integerLoop[T integer](name string, mask uint64) op {
	switch name {
	case "add":
		return func(d, a, b, _ *lanes) {
			for i := range d {
				d[i] = uint64(T(a[i])+T(b[i])) & mask
			}
		}
	case "sub":
		return func(d, a, b, _ *lanes) {
			for i := range d {
				d[i] = uint64(T(a[i])-T(b[i])) & mask
			}
		}
	case "mul":
		return func(d, a, b, _ *lanes) {
			for i := range d {
				d[i] = uint64(T(a[i])*T(b[i])) & mask
			}
		}
	case "mad":
		return func(d, a, b, c *lanes) {
			for i := range d {
				d[i] = uint64(T(a[i])*T(b[i])+T(c[i])) & mask
			}
		}
	case "min":
		return func(d, a, b, _ *lanes) {
			for i := range d {
				d[i] = uint64(min(T(a[i]), T(b[i]))) & mask
			}
		}
	case "max":
		return func(d, a, b, _ *lanes) {
			for i := range d {
				d[i] = uint64(max(T(a[i]), T(b[i]))) & mask
			}
		}
	case "div": // by zero: all ones, as devices give
		return func(d, a, b, _ *lanes) {
			for i := range d {
				if y := T(b[i]); y == 0 {
					d[i] = mask
				} else {
					d[i] = uint64(T(a[i])/y) & mask
				}
			}
		}
	case "rem": // by zero: the dividend
		return func(d, a, b, _ *lanes) {
			for i := range d {
				if y := T(b[i]); y == 0 {
					d[i] = uint64(T(a[i])) & mask
				} else {
					d[i] = uint64(T(a[i])%y) & mask
				}
			}
		}
	case "abs":
		return func(d, a, _, _ *lanes) {
			for i := range d {
				d[i] = uint64(max(T(a[i]), -T(a[i]))) & mask
			}
		}
	case "neg":
		return func(d, a, _, _ *lanes) {
			for i := range d {
				d[i] = uint64(-T(a[i])) & mask
			}
		}
	case "shr": // counts beyond the width shift everything out
		return func(d, a, b, _ *lanes) {
			for i := range d {
				d[i] = uint64(T(a[i])>>uint32(b[i])) & mask
			}
		}
	case "shl":
		return func(d, a, b, _ *lanes) {
			for i := range d {
				d[i] = uint64(T(a[i])<<uint32(b[i])) & mask
			}
		}
	}
	panic("ptx: no such operation on integers")
}

var wholeTypes = []Type{"s16", "u16", "s32", "u32", "s64", "u64"}

// real says whether the last modifier is a floating-point type.
func (b *builder) real() bool {
	return len(b.mods) > 0 && Type(b.mods[len(b.mods)-1]).float()
}

func buildAddSub(b *builder) {
	if b.real() {
		b.arithmetic(b.name, 2)
		return
	}
	saturate := b.has("sat")
	t := b.typ(wholeTypes...)
	f := integerOp(t, b.name)
	if saturate {
		if t != "s32" {
			b.fail("only .s32 saturates")
		}
		f = lift(saturated[b.name])
	}
	b.emit(b.dst(0, t), b.src(1, t), b.src(2, t), b.zero(), f)
}

var saturated = map[string]func(a, b, c uint64) uint64{
	"add": func(a, b, _ uint64) uint64 { return clampS32(int64(int32(a)) + int64(int32(b))) },
	"sub": func(a, b, _ uint64) uint64 { return clampS32(int64(int32(a)) - int64(int32(b))) },
}

func clampS32(v int64) uint64 {
	return uint64(uint32(min(max(v, -1<<31), 1<<31-1)))
}

// wide is the type of twice the width.
var wide = map[Type]Type{"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}

func buildMul(b *builder) {
	if b.real() {
		b.arithmetic("mul", 2)
		return
	}
	part := b.need("lo", "hi", "wide")
	t := b.typ(wholeTypes...)
	d, f := b.product(part, t)
	b.emit(b.dst(0, d), b.src(1, t), b.src(2, t), b.zero(), f)
}

func buildMad(b *builder) {
	if b.real() {
		b.arithmetic("fma", 3)
		return
	}
	part := b.need("lo", "hi", "wide")
	saturate := part == "hi" && b.has("sat")
	t := b.typ(wholeTypes...)
	d, f := b.product(part, t)
	if saturate {
		if t != "s32" {
			b.fail("only .s32 saturates")
		}
		f = lift(func(a, b, c uint64) uint64 { return clampS32(highS32(a, b) + int64(int32(c))) })
	}
	b.emit(b.dst(0, d), b.src(1, t), b.src(2, t), b.src(3, d), f)
}

func highS32(a, b uint64) int64 { return int64(int32(a)) * int64(int32(b)) >> 32 }

// product is a*b + c, of the low half, the high half, or all of the product, with the type of the sum.
func (b *builder) product(part string, t Type) (Type, op) {
	switch {
	case part == "lo":
		return t, integerOp(t, "mad")
	case part == "wide" && t.Bits() == 64:
		b.fail("a product of 64 bits has no register")
	case part == "wide":
		return wide[t], wideOp(t, 0)
	case t == "s64":
		return t, lift(func(a, b, c uint64) uint64 {
			hi, _ := bits.Mul64(a, b)
			return hi - uint64(int64(a)>>63)&b - uint64(int64(b)>>63)&a + c
		})
	case t == "u64":
		return t, lift(func(a, b, c uint64) uint64 {
			hi, _ := bits.Mul64(a, b)
			return hi + c
		})
	}
	return t, wideOp(t, t.Bits())
}

// wideOp multiplies numbers of up to 32 bits, shifts the product right and adds.
func wideOp(t Type, shift uint) op {
	mask := wide[t].mask() >> shift
	if t.signed() {
		unused := 64 - t.Bits()
		return func(d, a, b, c *lanes) {
			for i := range d {
				d[i] = (uint64((int64(a[i]<<unused)>>unused)*(int64(b[i]<<unused)>>unused)>>shift) + c[i]) & mask
			}
		}
	}
	return func(d, a, b, c *lanes) {
		for i := range d {
			d[i] = (a[i]*b[i]>>shift + c[i]) & mask
		}
	}
}

func buildRem(b *builder) {
	t := b.typ(wholeTypes...)
	b.emit(b.dst(0, t), b.src(1, t), b.src(2, t), b.zero(), integerOp(t, "rem"))
}

func buildMinMax(b *builder) {
	if b.real() {
		b.floatMinMax()
		return
	}
	t := b.typ(wholeTypes...)
	b.emit(b.dst(0, t), b.src(1, t), b.src(2, t), b.zero(), integerOp(t, b.name))
}

func buildAbs(b *builder) { b.sign("s16", "s32", "s64") }

func buildNeg(b *builder) { b.sign("s16", "s32", "s64") }

func (b *builder) sign(types ...Type) {
	if b.real() {
		b.floatSign()
		return
	}
	t := b.typ(types...)
	b.emit(b.dst(0, t), b.src(1, t), b.zero(), b.zero(), integerOp(t, b.name))
}

func buildCount(b *builder) {
	t := b.typ("b32", "b64")
	f := func(a, _, _ uint64) uint64 { return uint64(bits.OnesCount64(a)) }
	if b.name == "clz" {
		unused := 64 - t.Bits()
		f = func(a, _, _ uint64) uint64 { return uint64(bits.LeadingZeros64(a)) - uint64(unused) }
	}
	b.emit(b.dst(0, "u32"), b.src(1, t), b.zero(), b.zero(), lift(f))
}

// buildFind: the highest bit that differs from the sign; none is all ones.
func buildFind(b *builder) {
	amount := b.has("shiftamt")
	t := b.typ("s32", "u32", "s64", "u64")
	b.emit(b.dst(0, "u32"), b.src(1, t), b.zero(), b.zero(), lift(func(a, _, _ uint64) uint64 {
		if t.signed() && a>>(t.Bits()-1) == 1 {
			a = ^a & t.mask()
		}
		switch {
		case a == 0:
			return 1<<32 - 1
		case amount:
			return uint64(t.Bits()) - uint64(bits.Len64(a))
		}
		return uint64(bits.Len64(a)) - 1
	}))
}

func buildReverse(b *builder) {
	t := b.typ("b32", "b64")
	b.emit(b.dst(0, t), b.src(1, t), b.zero(), b.zero(), lift(func(a, _, _ uint64) uint64 {
		return bits.Reverse64(a) >> (64 - t.Bits())
	}))
}

func buildSad(b *builder) {
	t := b.typ(wholeTypes...)
	b.emit(b.dst(0, t), b.src(1, t), b.src(2, t), b.src(3, t), lift(func(a, b, c uint64) uint64 {
		less := a < b
		if t.signed() {
			less = int64(t.extend(a, 64)) < int64(t.extend(b, 64))
		}
		if less {
			a, b = b, a
		}
		return (a - b + c) & t.mask()
	}))
}

// buildExtract: a field of a, from bit b and c bits long; beyond the end of a its sign goes on.
func buildExtract(b *builder) {
	t := b.typ("s32", "u32", "s64", "u64")
	whole, mask, last := t.extender(64), t.mask(), uint64(t.Bits())-1
	b.emit(b.dst(0, t), b.src(1, t), b.src(2, "u32"), b.src(3, "u32"), lift(func(a, pos, length uint64) uint64 {
		pos, length = pos&0xff, length&0xff
		if length == 0 {
			return 0
		}
		a = whole.of(a)
		v := a >> pos
		if whole.signed {
			v = uint64(int64(a) >> pos)
		}
		if length < 64 {
			v &= 1<<length - 1
			// The sign is the field's highest bit, or the last one there is.
			if top := min(pos+length-1, last); whole.signed && a>>top&1 == 1 {
				v |= ^uint64(0) << length
			}
		}
		return v & mask
	}))
}

// buildInsert puts the low d bits of a into b from bit c on.
func buildInsert(b *builder) {
	t := b.typ("b32", "b64")
	d, x, y, z, n := b.dst(0, t), b.src(1, t), b.src(2, t), b.src(3, "u32"), b.src(4, "u32")
	mask := t.mask()
	b.in.run = func(w *warp, m uint32) {
		if !w.ready(m, x, y, z, n) {
			return
		}
		for ; m != 0; m &= m - 1 {
			i := first(m)
			pos, length := w.r[z][i]&0xff, w.r[n][i]&0xff
			field := (uint64(1)<<length - 1) << pos & mask
			w.r[d][i] = w.r[y][i]&^field | w.r[x][i]<<pos&field
			w.def[d] |= 1 << i
		}
	}
}

func buildMask(b *builder) {
	wrap := b.need("clamp", "wrap") == "wrap"
	b.typ("b32")
	b.emit(b.dst(0, "b32"), b.src(1, "b32"), b.src(2, "b32"), b.zero(), lift(func(pos, length, _ uint64) uint64 {
		if wrap {
			pos, length = pos&31, length&31
		}
		return (uint64(1)<<min(length, 32) - 1) << min(pos, 32) & (1<<32 - 1)
	}))
}

func buildSignExtend(b *builder) {
	wrap := b.need("clamp", "wrap") == "wrap"
	t := b.typ("u32", "s32")
	b.emit(b.dst(0, t), b.src(1, t), b.src(2, "u32"), b.zero(), lift(func(a, n, _ uint64) uint64 {
		if wrap {
			n &= 31
		}
		if n = min(n, 32); n == 0 {
			return 0
		}
		unused := 64 - n
		if t.signed() {
			return uint64(int64(a<<unused)>>unused) & t.mask()
		}
		return a << unused >> unused
	}))
}

// buildDot4: d = c + the sum of the products of four bytes each, signed or unsigned on either side.
func buildDot4(b *builder) {
	x, y := b.typ("s32", "u32"), b.typ("s32", "u32")
	sum := Type("s32")
	if x == "u32" && y == "u32" {
		sum = "u32"
	}
	b.emit(b.dst(0, sum), b.src(1, "b32"), b.src(2, "b32"), b.src(3, sum), dot4(x.signed(), y.signed()))
}

func dot4(signedA, signedB bool) op {
	switch {
	case signedA && signedB:
		return dot4Loop[int8, int8]
	case signedA:
		return dot4Loop[int8, uint8]
	case signedB:
		return dot4Loop[uint8, int8]
	}
	return dot4Loop[uint8, uint8]
}

func dot4Loop[A, B int8 | uint8](d, a, b, c *lanes) {
	for i := range d {
		x, y := uint32(a[i]), uint32(b[i])
		sum := int32(A(x))*int32(B(y)) + int32(A(x>>8))*int32(B(y>>8)) +
			int32(A(x>>16))*int32(B(y>>16)) + int32(A(x>>24))*int32(B(y>>24))
		d[i] = uint64(uint32(c[i]) + uint32(sum))
	}
}

// buildDot2: two halves of a times two bytes of b, the lower or the upper ones.
func buildDot2(b *builder) {
	shift := 0
	if b.need("lo", "hi") == "hi" {
		shift = 16
	}
	x, y := b.typ("s32", "u32"), b.typ("s32", "u32")
	sum := Type("s32")
	if x == "u32" && y == "u32" {
		sum = "u32"
	}
	half, octet := Type("u16"), Type("u8")
	if x.signed() {
		half = "s16"
	}
	if y.signed() {
		octet = "s8"
	}
	b.emit(b.dst(0, sum), b.src(1, "b32"), b.src(2, "b32"), b.src(3, sum), lift(func(a, v, c uint64) uint64 {
		v >>= shift
		c += half.extend(a, 64)*octet.extend(v, 64) + half.extend(a>>16, 64)*octet.extend(v>>8, 64)
		return c & (1<<32 - 1)
	}))
}
