package ptx

import "math"

// update is what an atomic operation makes of the old value.
type update func(old, x, compare uint64) uint64

// buildAtomic compiles atom, which returns the old value, and red, which does not.
func buildAtomic(b *builder) {
	b.take("relaxed", "acquire", "release", "acq_rel")
	b.take("cta", "cluster", "gpu", "sys")
	in := spaceNames[b.take("global", "shared", "shared::cta")]
	name := b.need("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
	t := b.typ("b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64")
	f := updateOf(name, t)
	if f == nil || b.name == "red" && (name == "exch" || name == "cas") {
		b.fail("%s.%s has no type .%s", b.name, name, t)
	}
	d, next := -1, 0
	if b.name == "atom" {
		d, next = b.dst(0, t), 1
	}
	at := b.addressOf(next)
	x := b.src(next+1, t)
	y := b.zero()
	if name == "cas" { // atom.cas d, [a], compare, value
		x, y = b.src(next+2, t), x
	}
	slot := b.f.k.cacheSlots
	b.f.k.cacheSlots++
	b.in.run = func(w *warp, m uint32) {
		if !w.ready(m, at.base, x, y) {
			return
		}
		k := w.b.worker
		k.run.atomics.Lock()
		defer k.run.atomics.Unlock()
		for rest := m; rest != 0; rest &= rest - 1 {
			lane := first(rest)
			addr := w.r[at.base][lane] + at.offset
			p := w.resolve(in, lane, addr, t.Size(), slot)
			if p.bytes == nil || !k.request.note(w, p, lane, addr, t.Size(), updating) {
				return
			}
			old := fetch(p.bytes, t.Size())
			deposit(p.bytes, t.Size(), f(old, w.r[x][lane], w.r[y][lane]))
			if d >= 0 {
				w.r[d][lane] = old
				w.def[d] |= 1 << lane
			}
		}
		k.request.count(k, &k.stats.GlobalStores, t.Size(), m)
	}
}

func updateOf(name string, t Type) update {
	switch {
	case name == "exch" && scalars[t].kind == untyped:
		return func(_, x, _ uint64) uint64 { return x }
	case name == "cas" && scalars[t].kind == untyped:
		return func(old, x, compare uint64) uint64 {
			if old == compare {
				return x
			}
			return old
		}
	case t == "f32" && name == "add": // devices flush subnormals here
		return func(old, x, _ uint64) uint64 { return bits32(flush(flush(f32(old)) + flush(f32(x)))) }
	case t == "f64" && name == "add":
		return func(old, x, _ uint64) uint64 { return bits64(math.Float64frombits(old) + math.Float64frombits(x)) }
	case t.float():
		return nil
	case scalars[t].kind == untyped:
		f := map[string]update{
			"and": func(old, x, _ uint64) uint64 { return old & x },
			"or":  func(old, x, _ uint64) uint64 { return old | x },
			"xor": func(old, x, _ uint64) uint64 { return old ^ x },
		}
		return f[name]
	case name == "add":
		return func(old, x, _ uint64) uint64 { return (old + x) & t.mask() }
	case name == "min" || name == "max":
		return func(old, x, _ uint64) uint64 {
			less := old < x
			if t.signed() {
				less = int64(t.extend(old, 64)) < int64(t.extend(x, 64))
			}
			if less == (name == "min") {
				return old
			}
			return x
		}
	case name == "inc" && t == "u32":
		return func(old, x, _ uint64) uint64 {
			if old >= x {
				return 0
			}
			return old + 1
		}
	case name == "dec" && t == "u32":
		return func(old, x, _ uint64) uint64 {
			if old == 0 || old > x {
				return x
			}
			return old - 1
		}
	}
	return nil
}
