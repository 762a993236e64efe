package ptx

import "math"

var comparable = []string{"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}

// A comparison gives a bit for each thread.
type comparison func(a, b *lanes) uint32

// compare reads the comparison and its type: setp.lt.and.s32.
func (b *builder) compare() (name, combination string, ftz bool) {
	name = b.need(comparable...)
	combination = b.take("and", "or", "xor")
	return name, combination, b.has("ftz")
}

func (b *builder) comparison(name string, t Type, ftz bool) comparison {
	var f comparison
	switch t {
	case "f32":
		f = floatComparison(name, func(v uint64) float64 { return float64(f32(v)) })
		if ftz {
			f = floatComparison(name, func(v uint64) float64 { return float64(flush(f32(v))) })
		}
	case "f64":
		f = floatComparison(name, math.Float64frombits)
	case "s16":
		f = integerComparison[int16](name)
	case "s32":
		f = integerComparison[int32](name)
	case "s64":
		f = integerComparison[int64](name)
	case "b16", "b32", "b64":
		if name == "eq" || name == "ne" {
			f = integerComparison[uint64](name)
		}
	default:
		f = integerComparison[uint64](name)
	}
	if f == nil || ftz && t != "f32" {
		b.fail(".%s values have no comparison %s", t, name)
	}
	return f
}

func integerComparison[T integer](name string) comparison {
	switch name {
	case "eq":
		return func(a, b *lanes) (m uint32) {
			for i := range a {
				m |= bit(T(a[i]) == T(b[i])) << i
			}
			return m
		}
	case "ne":
		return func(a, b *lanes) (m uint32) {
			for i := range a {
				m |= bit(T(a[i]) != T(b[i])) << i
			}
			return m
		}
	case "lt", "lo":
		return func(a, b *lanes) (m uint32) {
			for i := range a {
				m |= bit(T(a[i]) < T(b[i])) << i
			}
			return m
		}
	case "le", "ls":
		return func(a, b *lanes) (m uint32) {
			for i := range a {
				m |= bit(T(a[i]) <= T(b[i])) << i
			}
			return m
		}
	case "gt", "hi":
		return func(a, b *lanes) (m uint32) {
			for i := range a {
				m |= bit(T(a[i]) > T(b[i])) << i
			}
			return m
		}
	case "ge", "hs":
		return func(a, b *lanes) (m uint32) {
			for i := range a {
				m |= bit(T(a[i]) >= T(b[i])) << i
			}
			return m
		}
	}
	return nil
}

func bit(v bool) uint32 {
	if v {
		return 1
	}
	return 0
}

// floatComparison: those with u hold for a NaN, the others do not.
func floatComparison(name string, value func(uint64) float64) comparison {
	test, ok := map[string]func(a, b float64) bool{
		"eq":  func(a, b float64) bool { return a == b },
		"ne":  func(a, b float64) bool { return a < b || a > b },
		"lt":  func(a, b float64) bool { return a < b },
		"le":  func(a, b float64) bool { return a <= b },
		"gt":  func(a, b float64) bool { return a > b },
		"ge":  func(a, b float64) bool { return a >= b },
		"equ": func(a, b float64) bool { return !(a < b || a > b) },
		"neu": func(a, b float64) bool { return a != b },
		"ltu": func(a, b float64) bool { return !(a >= b) },
		"leu": func(a, b float64) bool { return !(a > b) },
		"gtu": func(a, b float64) bool { return !(a <= b) },
		"geu": func(a, b float64) bool { return !(a < b) },
		"num": func(a, b float64) bool { return a == a && b == b },
		"nan": func(a, b float64) bool { return a != a || b != b },
	}[name]
	if !ok {
		return nil
	}
	return func(a, b *lanes) (m uint32) {
		for i := range a {
			m |= bit(test(value(a[i]), value(b[i]))) << i
		}
		return m
	}
}

// buildSetp: p|q = comparison, and its negation, each combined with a predicate c if there is one.
func buildSetp(b *builder) {
	name, combination, ftz := b.compare()
	t := b.typ("b16", "b32", "b64", "s16", "u16", "s32", "u32", "s64", "u64", "f32", "f64")
	f := b.comparison(name, t, ftz)
	o := *b.operand(0)
	q := -1
	if o.second != nil {
		if o.second.typ != "pred" {
			b.fail("setp writes predicates")
		}
		q, o.second = o.second.index, nil
	}
	p, x, y := b.pred(&o), b.src(1, t), b.src(2, t)
	with, negate := -1, false
	if combination != "" {
		c := b.operand(3)
		with, negate = b.pred(c), c.negate
	}
	join := combine(combination)
	b.in.run = func(w *warp, m uint32) {
		if !w.ready(m, x, y) {
			return
		}
		v := f(&w.r[x], &w.r[y])
		other := ^v
		if with >= 0 {
			if !w.readyPredicates(m, with) {
				return
			}
			c := w.p[with]
			if negate {
				c = ^c
			}
			v, other = join(v, c), join(other, c)
		}
		w.setPredicate(p, m, v)
		if q >= 0 {
			w.setPredicate(q, m, other)
		}
	}
}

// buildSet: a register that is all ones, or 1.0, where the comparison holds.
func buildSet(b *builder) {
	name, combination, ftz := b.compare()
	if combination != "" {
		b.fail("set.%s is not simulated", combination)
	}
	d := b.typ("u32", "s32", "f32")
	t := b.typ("b16", "b32", "b64", "s16", "u16", "s32", "u32", "s64", "u64", "f32", "f64")
	f := b.comparison(name, t, ftz)
	yes := uint64(1<<32 - 1)
	if d == "f32" {
		yes = uint64(math.Float32bits(1))
	}
	b.emit(b.dst(0, d), b.src(1, t), b.src(2, t), b.zero(), func(d, a, b, _ *lanes) {
		v := f(a, b)
		for i := range d {
			d[i] = uint64(v>>i&1) * yes
		}
	})
}

func buildSelp(b *builder) {
	t := b.typ("b16", "b32", "b64", "s16", "u16", "s32", "u32", "s64", "u64", "f32", "f64")
	d, x, y, p := b.dst(0, t), b.src(1, t), b.src(2, t), b.pred(b.operand(3))
	if b.operand(3).negate {
		b.fail("selp has no !")
	}
	b.in.run = func(w *warp, m uint32) {
		if !w.readyPredicates(m, p) || !w.ready(m&w.p[p], x) || !w.ready(m&^w.p[p], y) {
			return
		}
		c := w.p[p]
		rd, rx, ry := &w.r[d], &w.r[x], &w.r[y]
		for i := range rd {
			if m>>i&1 == 1 {
				rd[i] = ry[i]
				if c>>i&1 == 1 {
					rd[i] = rx[i]
				}
			}
		}
		w.def[d] |= m
	}
}

// buildSlct: a where c is not negative, otherwise b.
func buildSlct(b *builder) {
	b.has("ftz")
	t := b.typ("b16", "b32", "b64", "s16", "u16", "s32", "u32", "s64", "u64", "f32", "f64")
	by := b.typ("s32", "f32")
	b.emit(b.dst(0, t), b.src(1, t), b.src(2, t), b.src(3, by), lift(func(x, y, c uint64) uint64 {
		if by == "s32" && int32(c) >= 0 || by == "f32" && f32(c) >= 0 {
			return x
		}
		return y
	}))
}
