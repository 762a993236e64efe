package ptx

import "fmt"

// buildBarrier compiles the barriers of a block (bar.sync, barrier.sync, bar.arrive) and of a warp (bar.warp.sync).
func buildBarrier(b *builder) {
	if b.name == "bar" && b.has("warp") {
		b.need("sync")
		b.emitCollective(b.src(0, "b32"), func(*warp, uint32) {})
		return
	}
	b.take("cta")
	what := b.need("sync", "arrive")
	aligned := b.name == "bar" || b.has("aligned")
	id := b.src(0, "u32")
	threads := -1
	if b.operands() > 1 {
		threads = b.src(1, "u32")
	} else if what == "arrive" {
		b.fail("arrive needs the number of threads")
	}
	b.in.flow, b.in.barrier = collect, true
	b.in.collective = func(w *warp, f *fragment, m uint32) bool {
		if aligned && !w.together(m, w.live) {
			return false
		}
		n, expected, ok := w.barrierOperands(m, id, threads)
		if !ok {
			return false
		}
		if what == "arrive" {
			w.arrive(n)
			return true
		}
		f.barrier, f.expected = n, expected
		return false
	}
}

// barrierOperands reads number and threads of a barrier, which are the same in all threads of a warp.
func (w *warp) barrierOperands(m uint32, id, threads int) (n, expected int, ok bool) {
	lane := first(m)
	if !w.ready(m, id) || threads >= 0 && !w.ready(m, threads) {
		return 0, 0, false
	}
	n = int(w.r[id][lane])
	if threads >= 0 {
		expected = int(w.r[threads][lane])
		if expected == 0 || expected%warpSize != 0 {
			w.fail(IllegalInstruction, lane, 0, fmt.Sprintf("a barrier of %d threads: a multiple of %d belongs here", expected, warpSize))
			return 0, 0, false
		}
	}
	if n >= barriers {
		w.fail(IllegalInstruction, lane, 0, fmt.Sprintf("barrier %d: a block has %d", n, barriers))
		return 0, 0, false
	}
	return n, expected, true
}

// arrive counts a warp at a barrier without waiting there: what it did before is known to those who wait.
func (w *warp) arrive(id int) {
	b := w.b
	b.arrived[id] += warpSize
	if b.known[id] == nil {
		b.known[id] = make([]uint32, len(b.warps))
	}
	merge(b.known[id], w.clock)
	w.clock[w.id]++
}
