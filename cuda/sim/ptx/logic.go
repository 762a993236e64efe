package ptx

func buildLogic(b *builder) {
	t := b.typ("pred", "b16", "b32", "b64")
	if t == "pred" {
		b.predicateLogic()
		return
	}
	b.emit(b.dst(0, t), b.src(1, t), b.src(2, t), b.zero(), map[string]op{"and": andLoop, "or": orLoop, "xor": xorLoop}[b.name])
}

func andLoop(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

func orLoop(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

func xorLoop(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] ^ b[i]
	}
}

func (b *builder) predicateLogic() {
	d, x, y := b.predDst(0), b.pred(b.operand(1)), b.pred(b.operand(2))
	f := combine(b.name)
	b.emitPredicate(d, []int{x, y}, func(w *warp) uint32 { return f(w.p[x], w.p[y]) })
}

// combine is a function of two masks.
func combine(name string) func(a, b uint32) uint32 {
	switch name {
	case "and":
		return func(a, b uint32) uint32 { return a & b }
	case "or":
		return func(a, b uint32) uint32 { return a | b }
	}
	return func(a, b uint32) uint32 { return a ^ b }
}

// emitPredicate compiles an instruction on predicates: f computes all threads of a warp.
func (b *builder) emitPredicate(d int, from []int, f func(w *warp) uint32) {
	b.in.run = func(w *warp, m uint32) {
		if w.readyPredicates(m, from...) {
			w.setPredicate(d, m, f(w))
		}
	}
}

func (w *warp) setPredicate(d int, m, value uint32) {
	w.p[d] = w.p[d]&^m | value&m
	w.pdef[d] |= m
}

func (w *warp) readyPredicates(m uint32, predicates ...int) bool {
	for _, p := range predicates {
		if missing := m &^ w.pdef[p]; missing != 0 {
			w.fail(Uninitialised, first(missing), 0, "a predicate has no value")
			return false
		}
	}
	return true
}

func buildNot(b *builder) {
	if b.name == "not" && b.has("pred") {
		d, x := b.predDst(0), b.pred(b.operand(1))
		b.emitPredicate(d, []int{x}, func(w *warp) uint32 { return ^w.p[x] })
		return
	}
	t := b.typ("b16", "b32", "b64")
	mask := t.mask()
	f := func(a, _, _ uint64) uint64 { return ^a & mask }
	if b.name == "cnot" {
		f = func(a, _, _ uint64) uint64 {
			if a == 0 {
				return 1
			}
			return 0
		}
	}
	b.emit(b.dst(0, t), b.src(1, t), b.zero(), b.zero(), lift(f))
}

// buildLop3: any function of three bits; its table is what it makes of 0xf0, 0xcc and 0xaa.
func buildLop3(b *builder) {
	b.typ("b32")
	table := uint64(b.fixed(4, 0, 255))
	b.emit(b.dst(0, "b32"), b.src(1, "b32"), b.src(2, "b32"), b.src(3, "b32"), lop3(table))
}

func lop3(table uint64) op {
	// terms are those rows of the table that are 1.
	type term struct{ a, b, c uint64 } // ^0 where the bit has to be 0
	var terms []term
	for row := range uint64(8) {
		if table>>row&1 == 1 {
			terms = append(terms, term{(row>>2&1 - 1), (row>>1&1 - 1), (row&1 - 1)})
		}
	}
	return func(d, a, b, c *lanes) {
		for i := range d {
			x, y, z, v := a[i], b[i], c[i], uint64(0)
			for _, t := range terms {
				v |= (x ^ t.a) & (y ^ t.b) & (z ^ t.c)
			}
			d[i] = v & (1<<32 - 1)
		}
	}
}

func buildShift(b *builder) {
	var t Type
	if b.name == "shl" {
		t = b.typ("b16", "b32", "b64")
	} else {
		t = b.typ("b16", "b32", "b64", "s16", "u16", "s32", "u32", "s64", "u64")
	}
	b.emit(b.dst(0, t), b.src(1, t), b.src(2, "u32"), b.zero(), integerOp(t, b.name))
}

// buildFunnel shifts the 64 bits b:a and keeps one half.
func buildFunnel(b *builder) {
	left := b.need("l", "r") == "l"
	wrap := b.need("clamp", "wrap") == "wrap"
	b.typ("b32")
	b.emit(b.dst(0, "b32"), b.src(1, "b32"), b.src(2, "b32"), b.src(3, "u32"), lift(func(low, high, n uint64) uint64 {
		if wrap {
			n &= 31
		}
		n = min(n, 32)
		v := high<<32 | low
		if left {
			return v << n >> 32
		}
		return v >> n & (1<<32 - 1)
	}))
}

// buildPermute picks four of the eight bytes of b:a; a selector with bit 3 takes the sign of the byte instead.
func buildPermute(b *builder) {
	b.typ("b32")
	mode := b.take("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
	b.emit(b.dst(0, "b32"), b.src(1, "b32"), b.src(2, "b32"), b.src(3, "b32"), lift(func(low, high, c uint64) uint64 {
		v := high<<32 | low
		var d uint64
		for i := range uint64(4) {
			s := selector(mode, c, i)
			octet := v >> (8 * (s & 7)) & 0xff
			if s&8 != 0 {
				octet = octet >> 7 * 0xff
			}
			d |= octet << (8 * i)
		}
		return d
	}))
}

// selector is which byte prmt puts at place i.
func selector(mode string, c, i uint64) uint64 {
	n := c & 3
	switch mode {
	case "f4e":
		return n + i
	case "b4e":
		return (n - i) & 7
	case "rc8":
		return n
	case "ecl":
		return max(n, i)
	case "ecr":
		return min(n, i)
	case "rc16":
		return n&1*2 + i&1
	}
	return c >> (4 * i) & 15
}
