package ptx

// buildMov copies a register, the address of a variable, or packs and unpacks a vector.
func buildMov(b *builder) {
	t := b.typ("pred", "b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64")
	dst, src := b.operand(0), b.operand(1)
	switch {
	case t == "pred":
		d, x := b.predDst(0), b.pred(src)
		b.emitPredicate(d, []int{x}, func(w *warp) uint32 { return w.p[x] })
	case dst.kind == list:
		b.unpack(t)
	case src.kind == list:
		b.packed(t)
	case src.kind == symbol && src.name != "WARP_SZ":
		v := b.variable(src.name)
		if t.Bits() == 32 && v.space != shared && v.space != parameter || t.Bits() < 32 || t.float() {
			b.fail("an address in %s memory does not fit into .%s", v.space, t)
		}
		b.emit(b.dst(0, t), b.f.constant(v.address()+uint64(src.offset)), b.zero(), b.zero(), copyLoop)
	default:
		b.emit(b.dst(0, t), b.src(1, t), b.zero(), b.zero(), copyLoop)
	}
}

func copyLoop(d, a, _, _ *lanes) { *d = *a }

func (b *builder) variable(name string) *variable {
	v := b.f.variable(b.s.scope, name)
	if v == nil {
		b.fail("%s is not declared", name)
	}
	return v
}

// element is the type of one of n equal parts.
func (b *builder) element(t Type, n int) Type {
	e, ok := map[uint]Type{16: "b16", 32: "b32"}[t.Bits()/uint(n)]
	if !ok || t.Bits()%uint(n) != 0 {
		b.fail("a .%s has no %d parts", t, n)
	}
	return e
}

func (b *builder) unpack(t Type) {
	parts := b.operand(0).list
	e := b.element(t, len(parts))
	x := b.src(1, t)
	var to []int
	for i := range parts {
		to = append(to, b.into(&parts[i], e, false))
	}
	b.in.run = func(w *warp, m uint32) {
		if !w.ready(m, x) {
			return
		}
		from := w.r[x]
		for n, d := range to {
			for i := range from {
				w.scratch[i] = from[i] >> (uint(n) * e.Bits()) & e.mask()
			}
			blend(&w.r[d], &w.scratch, m)
			w.def[d] |= m
		}
	}
}

func (b *builder) packed(t Type) {
	parts := b.operand(1).list
	e := b.element(t, len(parts))
	d := b.dst(0, t)
	var from []int
	for i := range parts {
		from = append(from, b.from(&parts[i], e, false))
	}
	b.in.run = func(w *warp, m uint32) {
		if !w.ready(m, from...) {
			return
		}
		w.scratch = lanes{}
		for n, x := range from {
			for i := range w.scratch {
				w.scratch[i] |= w.r[x][i] << (uint(n) * e.Bits())
			}
		}
		blend(&w.r[d], &w.scratch, m)
		w.def[d] |= m
	}
}

// buildCvta turns an address of a space into a generic one, or back.
func buildCvta(b *builder) {
	back := b.has("to")
	in := spaceNames[b.need("global", "shared", "local", "const")]
	t := b.typ("u64")
	var window uint64
	switch in {
	case shared:
		window = sharedWindow
	case local:
		window = localWindow
	}
	if back {
		window = -window
	}
	var x int
	if o := b.operand(1); o.kind == symbol {
		x = b.f.constant(b.variable(o.name).address() + uint64(o.offset))
	} else {
		x = b.src(1, t)
	}
	b.emit(b.dst(0, t), x, b.f.constant(window), b.zero(), integerOp("u64", "add"))
}

func buildIsSpace(b *builder) {
	in := spaceNames[b.need("global", "shared", "local", "const")]
	d, x := b.predDst(0), b.src(1, "u64")
	b.in.run = func(w *warp, m uint32) {
		if !w.ready(m, x) {
			return
		}
		var v uint32
		for i, a := range w.r[x] {
			window := a / Windows * Windows
			is := in == global && window != sharedWindow && window != localWindow
			v |= bit(is || in == shared && window == sharedWindow || in == local && window == localWindow) << i
		}
		w.setPredicate(d, m, v)
	}
}
