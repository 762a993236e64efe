package ptx

// An asyncCopy is a cp.async on its way: it reads when it is issued and writes when it is waited for, so that a kernel
// which does not wait meets what was there before, which is a fault.
type asyncCopy struct {
	lane  int
	group int // of those that the lane has committed, or will
	to    uint64
	n     int
	data  [16]byte
	pc    int
}

// buildAsync compiles cp.async, its groups and its waits.
func buildAsync(b *builder) {
	b.need("async")
	switch b.need("ca", "cg", "commit_group", "wait_group", "wait_all") {
	case "commit_group":
		b.in.run = func(w *warp, m uint32) {
			for ; m != 0; m &= m - 1 {
				w.groups[first(m)]++
			}
		}
	case "wait_group":
		left := int(b.fixed(0, 0, 1<<20))
		b.in.run = func(w *warp, m uint32) { w.await(m, left) }
	case "wait_all":
		b.in.run = func(w *warp, m uint32) { w.await(m, -1) }
	case "ca":
		b.copyAsync(4, 8, 16)
	case "cg":
		b.copyAsync(16)
	}
}

func (b *builder) copyAsync(sizes ...int64) {
	b.need("shared", "shared::cta")
	b.need("global")
	hint := b.has("L2::cache_hint")
	b.take("L2::64B", "L2::128B", "L2::256B")
	to, from := b.addressOf(0), b.addressOf(1)
	n := int(b.fixed(2, 4, 16))
	if int64(n) != sizes[0] && (len(sizes) < 3 || int64(n) != sizes[1] && int64(n) != sizes[2]) {
		b.fail("cp.async cannot copy %d bytes here", n)
	}
	size, operands := -1, 3
	if b.operands() > 3 && !(hint && b.operands() == 4) {
		size, operands = b.src(3, "u32"), 4
	}
	if hint {
		b.src(operands, "b64")
	}
	slot := b.f.k.cacheSlots
	b.f.k.cacheSlots++
	b.in.run = func(w *warp, m uint32) {
		if !w.ready(m, to.base, from.base) || size >= 0 && !w.ready(m, size) {
			return
		}
		k := w.b.worker
		for rest := m; rest != 0; rest &= rest - 1 {
			lane := first(rest)
			read := n
			if size >= 0 {
				read = min(n, int(w.r[size][lane]))
			}
			if !w.issue(lane, w.r[to.base][lane]+to.offset, w.r[from.base][lane]+from.offset, n, read, slot) {
				return
			}
		}
		k.request.count(k, &k.stats.GlobalLoads, n, m)
	}
}

// issue begins a copy of n bytes, of which those beyond read are zeros.
func (w *warp) issue(lane int, to, from uint64, n, read, slot int) bool {
	c := asyncCopy{lane: lane, group: w.groups[lane], to: to, n: n, pc: w.pc}
	if read > 0 {
		if from%uint64(n) != 0 {
			w.fail(Misaligned, lane, from, "the source of cp.async")
			return false
		}
		b := w.global(from, read, slot)
		if b == nil {
			w.fail(OutOfBounds, lane, from, "the source of cp.async")
			return false
		}
		copy(c.data[:], b)
		w.b.worker.request.sectors.add(from)
	}
	p := w.resolve(shared, lane, to, n, slot)
	if p.bytes == nil || !w.b.shadow.touch(w, lane, to, n, promised) {
		return false
	}
	w.pending = append(w.pending, c)
	return true
}

// await completes the copies of threads but those of the last left groups; -1: also those of no group.
func (w *warp) await(m uint32, left int) {
	kept := w.pending[:0]
	for _, c := range w.pending {
		if m>>c.lane&1 == 0 || c.group >= w.groups[c.lane]-left {
			kept = append(kept, c)
			continue
		}
		copy(w.b.shared[c.to:], c.data[:c.n])
		at := w.pc
		w.pc = c.pc
		if !w.b.shadow.touch(w, c.lane, c.to, c.n, arriving) {
			return
		}
		w.pc = at
	}
	w.pending = kept
}
