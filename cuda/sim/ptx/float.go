package ptx

import "math"

// nan is the one that devices produce.
const (
	nan32 = 0x7fffffff
	nan64 = 0x7fffffffffffffff
)

func f32(v uint64) float32 { return math.Float32frombits(uint32(v)) }

// bits32 gives every NaN the same bits, as devices do.
func bits32(v float32) uint64 {
	if v != v {
		return nan32
	}
	return uint64(math.Float32bits(v))
}

func bits64(v float64) uint64 {
	if v != v {
		return nan64
	}
	return math.Float64bits(v)
}

// flush makes a subnormal number zero, of the same sign.
func flush(v float32) float32 {
	if math.Float32bits(v)&0x7f800000 == 0 {
		return math.Float32frombits(math.Float32bits(v) & (1 << 31))
	}
	return v
}

func saturate(v float32) float32 {
	if !(v > 0) { // a NaN too
		return 0
	}
	return min(v, 1)
}

// arithmetic compiles add, sub, mul and fma: n operands, rounded once to the nearest.
func (b *builder) arithmetic(name string, n int) {
	rounding := b.take("rn", "rz", "rm", "rp")
	if rounding != "" && rounding != "rn" {
		b.fail("rounding .%s is not simulated for arithmetic", rounding)
	}
	if name == "fma" && rounding == "" {
		b.fail("%s lacks its rounding", b.name)
	}
	ftz, sat := b.has("ftz"), b.has("sat")
	t := b.typ("f32", "f64")
	var f op
	if t == "f32" {
		f = float32Op(name)
		if ftz || sat {
			f = modified(f, ftz, sat)
		}
	} else {
		if ftz || sat {
			b.fail("only .f32 has .ftz and .sat")
		}
		f = lift(float64Op[name])
	}
	z := b.zero()
	if n == 3 {
		z = b.src(3, t)
	}
	b.emit(b.dst(0, t), b.src(1, t), b.src(2, t), z, f)
}

func float32Op(name string) op {
	switch name {
	case "add":
		return func(d, a, b, _ *lanes) {
			for i := range d {
				d[i] = bits32(f32(a[i]) + f32(b[i]))
			}
		}
	case "sub":
		return func(d, a, b, _ *lanes) {
			for i := range d {
				d[i] = bits32(f32(a[i]) - f32(b[i]))
			}
		}
	case "mul":
		return func(d, a, b, _ *lanes) {
			for i := range d {
				d[i] = bits32(f32(a[i]) * f32(b[i]))
			}
		}
	}
	return func(d, a, b, c *lanes) {
		for i := range d {
			d[i] = bits32(fma32(f32(a[i]), f32(b[i]), f32(c[i])))
		}
	}
}

var float64Op = map[string]func(a, b, c uint64) uint64{
	"add": func(a, b, _ uint64) uint64 { return bits64(math.Float64frombits(a) + math.Float64frombits(b)) },
	"sub": func(a, b, _ uint64) uint64 { return bits64(math.Float64frombits(a) - math.Float64frombits(b)) },
	"mul": func(a, b, _ uint64) uint64 { return bits64(math.Float64frombits(a) * math.Float64frombits(b)) },
	"fma": func(a, b, c uint64) uint64 {
		return bits64(math.FMA(math.Float64frombits(a), math.Float64frombits(b), math.Float64frombits(c)))
	},
}

// modified flushes operands and result, and clamps it to 0 to 1.
func modified(f op, ftz, sat bool) op {
	return func(d, a, b, c *lanes) {
		in := [3]lanes{*a, *b, *c}
		if ftz {
			for i := range in {
				flushAll(&in[i])
			}
		}
		f(d, &in[0], &in[1], &in[2])
		if ftz {
			flushAll(d)
		}
		if sat {
			for i := range d {
				d[i] = bits32(saturate(f32(d[i])))
			}
		}
	}
}

func flushAll(r *lanes) {
	for i := range r {
		r[i] = uint64(math.Float32bits(flush(f32(r[i]))))
	}
}

// fma32 rounds once. The product is exact as a float64; the sum is rounded to odd there, so that rounding it again to
// 24 bits gives what one rounding would have given (Boldo and Melquiond, IEEE TC 2008).
func fma32(a, b, c float32) float32 {
	p, z := float64(a)*float64(b), float64(c)
	s := p + z
	if math.IsInf(s, 0) || s != s {
		return float32(s)
	}
	// What the sum has lost (Knuth's TwoSum).
	v := s - p
	lost := (p - (s - v)) + (z - v)
	if lost != 0 && math.Float64bits(s)&1 == 0 {
		if (lost > 0) == (s > 0) {
			s = math.Float64frombits(math.Float64bits(s) + 1)
		} else {
			s = math.Float64frombits(math.Float64bits(s) - 1)
		}
	}
	return float32(s)
}

// buildFma is fma, which differs from mad only in that it is never about integers.
func buildFma(b *builder) { b.arithmetic("fma", 3) }

func buildDiv(b *builder) {
	if !b.real() {
		t := b.typ(wholeTypes...)
		b.emit(b.dst(0, t), b.src(1, t), b.src(2, t), b.zero(), integerOp(t, "div"))
		return
	}
	b.need("rn", "approx", "full")
	b.quotient(2, func(a, b float64) float64 { return a / b })
}

// quotient compiles a function of floats that Go rounds correctly: of float32 too, as 53 bits are more than twice 24
// and two (Figueroa, 1995).
func (b *builder) quotient(n int, f func(a, b float64) float64) {
	ftz := b.has("ftz")
	t := b.typ("f32", "f64")
	y := b.zero()
	if n == 2 {
		y = b.src(2, t)
	}
	g := lift(func(a, b, _ uint64) uint64 { return bits32(float32(f(float64(f32(a)), float64(f32(b))))) })
	if t == "f64" {
		g = lift(func(a, b, _ uint64) uint64 { return bits64(f(math.Float64frombits(a), math.Float64frombits(b))) })
	}
	if ftz {
		g = modified(g, true, false)
	}
	b.emit(b.dst(0, t), b.src(1, t), y, b.zero(), g)
}

func buildReciprocal(b *builder) {
	b.need("rn", "approx")
	b.quotient(1, func(a, _ float64) float64 { return 1 / a })
}

func buildRoot(b *builder) {
	b.need("rn", "approx")
	b.quotient(1, func(a, _ float64) float64 { return math.Sqrt(a) })
}

// buildApprox: devices compute these to some 22 bits; here they are exact but for the last rounding.
func buildApprox(b *builder) {
	b.need("approx")
	f := map[string]func(float64) float64{
		"rsqrt": func(a float64) float64 { return 1 / math.Sqrt(a) },
		"ex2":   math.Exp2, "lg2": math.Log2, "sin": math.Sin, "cos": math.Cos, "tanh": math.Tanh,
	}[b.name]
	b.quotient(1, func(a, _ float64) float64 { return f(a) })
}

func (b *builder) floatMinMax() {
	ftz := b.has("ftz")
	keepNaN := b.has("NaN")
	t := b.typ("f32", "f64")
	choose := math.Min
	if b.name == "max" {
		choose = math.Max
	}
	f := func(x, y float64) float64 {
		switch {
		case keepNaN || x == x && y == y:
			return choose(x, y)
		case x != x:
			return y
		}
		return x
	}
	g := lift(func(a, b, _ uint64) uint64 { return bits32(float32(f(float64(f32(a)), float64(f32(b))))) })
	if t == "f64" {
		g = lift(func(a, b, _ uint64) uint64 { return bits64(f(math.Float64frombits(a), math.Float64frombits(b))) })
	}
	if ftz {
		g = modified(g, true, false)
	}
	b.emit(b.dst(0, t), b.src(1, t), b.src(2, t), b.zero(), g)
}

// floatSign is abs and neg, which touch the sign alone.
func (b *builder) floatSign() {
	ftz := b.has("ftz")
	t := b.typ("f32", "f64")
	sign := uint64(1) << (t.Bits() - 1)
	f := lift(func(a, _, _ uint64) uint64 { return a ^ sign })
	if b.name == "abs" {
		f = lift(func(a, _, _ uint64) uint64 { return a &^ sign })
	}
	if ftz {
		f = modified(f, true, false)
	}
	b.emit(b.dst(0, t), b.src(1, t), b.zero(), b.zero(), f)
}

func buildCopysign(b *builder) {
	t := b.typ("f32", "f64")
	sign := uint64(1) << (t.Bits() - 1)
	b.emit(b.dst(0, t), b.src(1, t), b.src(2, t), b.zero(), lift(func(a, b, _ uint64) uint64 { return a&sign | b&^sign }))
}

func buildTestp(b *builder) {
	what := b.need("finite", "infinite", "number", "notanumber", "normal", "subnormal")
	t := b.typ("f32", "f64")
	d, x := b.predDst(0), b.src(1, t)
	b.in.run = func(w *warp, m uint32) {
		if !w.ready(m, x) {
			return
		}
		var v uint32
		for i, a := range w.r[x] {
			v |= bit(classify(what, t, a)) << i
		}
		w.setPredicate(d, m, v)
	}
}

func classify(what string, t Type, a uint64) bool {
	exponent, fraction := a>>23&0xff, a&(1<<23-1)
	top := uint64(0xff)
	if t == "f64" {
		exponent, fraction, top = a>>52&0x7ff, a&(1<<52-1), 0x7ff
	}
	switch what {
	case "finite":
		return exponent < top
	case "infinite":
		return exponent == top && fraction == 0
	case "number":
		return exponent < top || fraction == 0
	case "notanumber":
		return exponent == top && fraction != 0
	case "normal":
		return exponent > 0 && exponent < top
	}
	return exponent == 0 && fraction != 0
}
