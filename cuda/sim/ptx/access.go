package ptx

import "encoding/binary"

// A target of loads and stores: space, base register and offset.
type addressOperand struct {
	base   int
	offset uint64
}

// addressOf is the address in operand i.
func (b *builder) addressOf(i int) addressOperand {
	o := b.operand(i)
	if o.kind != address {
		b.fail("operand %d of %s is an address in brackets", i+1, b.name)
	}
	switch {
	case o.absolute:
		return addressOperand{b.zero(), uint64(o.offset)}
	case o.isSymbol:
		return addressOperand{b.f.constant(b.variable(o.name).address()), uint64(o.offset)}
	case o.reg.typ != "b64" && o.reg.typ != "u64" && o.reg.typ != "s64" && o.reg.typ != "b32" && o.reg.typ != "u32" && o.reg.typ != "s32":
		b.fail("%s, a .%s, is no address", o.name, o.reg.typ)
	}
	return addressOperand{o.reg.index, uint64(o.offset)}
}

// ordering takes the modifiers that say when others see an access, and where caches keep it: all the same here.
func (b *builder) ordering() {
	if !b.has("volatile") {
		if b.take("weak", "relaxed", "acquire", "release") != "" {
			b.take("cta", "cluster", "gpu", "sys")
		}
	}
}

func (b *builder) caching() (hint bool) {
	b.take("ca", "cg", "cs", "lu", "cv", "wb", "wt")
	b.take("L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate")
	hint = b.has("L2::cache_hint")
	b.take("L2::64B", "L2::128B", "L2::256B")
	return hint
}

// transfer is what load and store share.
type transfer struct {
	in   space
	at   addressOperand
	t    Type
	size int // of all elements together
	slot int
	each int // of one
	reg  []int
	wide []extender // of each register
}

func (b *builder) transfer(value, place int) transfer {
	b.ordering()
	x := transfer{in: spaceNames[b.take("global", "shared", "shared::cta", "local", "const", "param")]}
	if x.in == global {
		b.has("nc")
	}
	hint := b.caching()
	n := map[string]int{"": 1, "v2": 2, "v4": 4}[b.take("v2", "v4")]
	x.t = b.typ("b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64")
	x.each = x.t.Size()
	if x.size = n * x.each; x.size > 16 {
		b.fail("one instruction moves up to 16 bytes")
	}
	x.at = b.addressOf(place)
	x.slot = b.f.k.cacheSlots
	b.f.k.cacheSlots++
	parts := b.vector(value, n)
	for i := range parts {
		o := &parts[i]
		if b.name == "st" {
			x.reg = append(x.reg, b.from(o, x.t, true))
		} else {
			x.reg = append(x.reg, b.into(o, x.t, true))
		}
		width := uint(64)
		if o.kind == registerOperand {
			width = o.reg.typ.Bits()
		}
		x.wide = append(x.wide, x.t.extender(width))
	}
	if hint {
		b.src(2, "b64")
	}
	return x
}

func buildLoad(b *builder) {
	x := b.transfer(0, 1)
	b.in.run = func(w *warp, m uint32) { x.load(w, m) }
}

func buildStore(b *builder) {
	x := b.transfer(1, 0)
	if x.in == constantSpace || x.in == parameter {
		b.fail("nothing is stored to %s memory", x.in)
	}
	b.in.run = func(w *warp, m uint32) { x.store(w, m) }
}

func (x *transfer) load(w *warp, m uint32) {
	if !w.ready(m, x.at.base) {
		return
	}
	r := &w.b.worker.request
	for rest := m; rest != 0; rest &= rest - 1 {
		lane := first(rest)
		addr := w.r[x.at.base][lane] + x.at.offset
		p := w.resolve(x.in, lane, addr, x.size, x.slot)
		if p.bytes == nil || !r.note(w, p, lane, addr, x.size, reading) {
			return
		}
		for i, d := range x.reg {
			w.r[d][lane] = x.wide[i].of(fetch(p.bytes[i*x.each:], x.each))
		}
	}
	for _, d := range x.reg {
		w.def[d] |= m
	}
	r.count(w.b.worker, &w.b.worker.stats.GlobalLoads, x.size, m)
}

func (x *transfer) store(w *warp, m uint32) {
	if !w.ready(m, x.at.base) || !w.ready(m, x.reg...) {
		return
	}
	r := &w.b.worker.request
	for rest := m; rest != 0; rest &= rest - 1 {
		lane := first(rest)
		addr := w.r[x.at.base][lane] + x.at.offset
		p := w.resolve(x.in, lane, addr, x.size, x.slot)
		if p.bytes == nil || !r.note(w, p, lane, addr, x.size, writing) {
			return
		}
		var fresh [16]byte
		for i, s := range x.reg {
			deposit(fresh[i*x.each:], x.each, w.r[s][lane])
		}
		if p.space != global {
			copy(p.bytes, fresh[:x.size])
		} else if !w.storeGlobal(lane, addr, p.bytes, fresh[:x.size]) {
			return
		}
	}
	r.count(w.b.worker, &w.b.worker.stats.GlobalStores, x.size, m)
}

func fetch(b []byte, size int) uint64 {
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

func deposit(b []byte, size int, v uint64) {
	switch size {
	case 1:
		b[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		binary.LittleEndian.PutUint64(b, v)
	}
}

// A request is one memory instruction of a warp, as the hardware sees it.
type request struct {
	sectors sectors
	banks   banks
	addrs   lanes  // in shared memory
	shared  uint32 // threads that go there
}

// note takes in the access of one thread. It returns false after a fault.
func (r *request) note(w *warp, p place, lane int, addr uint64, n int, how access) bool {
	switch p.space {
	case global:
		r.sectors.add(addr)
	case shared:
		r.addrs[lane] = p.offset
		r.shared |= 1 << lane
		return w.b.shadow.touch(w, lane, p.offset, n, how)
	}
	return true
}

// count adds the request to the statistics, and makes ready for the next one.
func (r *request) count(k *worker, t *Traffic, n int, m uint32) {
	if r.sectors.n > 0 {
		t.Requests++
		t.Sectors += uint64(r.sectors.n)
		t.Bytes += uint64(n * count(m&^r.shared))
	}
	if r.shared != 0 {
		k.stats.SharedRequests++
		k.stats.SharedConflictCycles += r.banks.conflicts(&r.addrs, r.shared, n)
	}
	r.sectors.n, r.shared = 0, 0
}
