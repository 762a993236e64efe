package ptx

import "math/bits"

const (
	warpSize  = 32
	fullWarp  = ^uint32(0)
	maxBlock  = 1024
	maxWarps  = maxBlock / warpSize
	checkMask = 1<<14 - 1 // how often a warp looks whether the launch was cancelled
)

// lanes is a register of a warp: a value for each thread, the bits above its width zero.
type lanes [warpSize]uint64

// flow is how an instruction moves the warp on.
type flow uint8

const (
	plain   flow = iota
	branch       // to target
	exit         // of the threads
	collect      // a collective: it may have to wait for other threads
)

// An inst is a compiled instruction.
type inst struct {
	flow    flow
	negate  bool
	guard   int // predicate, or -1
	target  int
	line    int
	opcode  int
	barrier bool // it is one of the barriers of a block

	run func(w *warp, m uint32)
	// collective runs when it can, and says whether it did. It sees the fragment that arrived.
	collective func(w *warp, f *fragment, m uint32) bool
}

// A fragment is those threads of a warp that are at the same place. A warp is one fragment until threads diverge, and
// threads that meet again become one.
type fragment struct {
	pc      int
	mask    uint32
	waiting bool // for other threads of the warp, or at a barrier
	barrier int  // the barrier that it arrived at, or -1
	// The threads to wait for (0: all).
	expected int
}

// A warp is 32 threads with their registers.
type warp struct {
	b     *block
	id    int
	r     []lanes
	def   []uint32 // threads in which a register has a value
	p     []uint32 // predicates, a bit for each thread
	pdef  []uint32
	frags []fragment
	live  uint32
	pc    int      // of the instruction that runs
	clock []uint32 // what it knows of the other warps' progress: clock[v] barriers ago v did everything known here
	steps uint64

	local   []byte // of 32 threads, one behind the other
	pending []asyncCopy
	groups  [warpSize]int // of cp.async that a thread has committed
	scratch lanes
	fault   *Fault
}

// reset prepares a warp for a block: registers lose their values.
func (w *warp) reset(threads int) {
	k := w.b.k
	clear(w.def[:k.registers])
	clear(w.pdef)
	for _, c := range k.constants {
		w.def[c.register] = fullWarp
	}
	for _, s := range k.specials {
		s.fill(w, &w.r[s.register])
		w.def[s.register] = fullWarp
	}
	w.live, w.steps = fullWarp, 0
	if left := threads - w.id*warpSize; left < warpSize {
		w.live = 1<<left - 1
	}
	w.frags = append(w.frags[:0], fragment{mask: w.live, barrier: -1})
	w.pending = w.pending[:0]
	clear(w.groups[:])
	clear(w.clock)
	w.clock[w.id] = 1
}

// fail ends the launch: lane is the thread to blame.
func (w *warp) fail(kind FaultKind, lane int, address uint64, detail string) {
	if w.fault != nil {
		return
	}
	in := &w.b.k.code[w.pc]
	w.fault = &Fault{
		Kind: kind, Kernel: w.b.k.Name, Line: in.line, Text: w.b.k.module.text(in.line),
		Block: w.b.index, Thread: w.b.thread(w.id*warpSize + lane), Address: address, Detail: detail,
	}
}

// failRace is fail with the instruction on the other side.
func (w *warp) failRace(lane int, address uint64, other int32, detail string) {
	if w.fault == nil {
		w.fail(Race, lane, address, detail)
		w.fault.Other = w.b.k.code[other].line
	}
}

func first(m uint32) int { return bits.TrailingZeros32(m) }
func count(m uint32) int { return bits.OnesCount32(m) }

// run goes on until every thread has ended or waits. It returns false after a fault.
//
// The fragment that is furthest behind runs, up to the place of the next one, which it joins: threads that took
// different sides of a branch meet behind it. Whether they meet is a matter of speed only; what a program does must not
// depend on it, as on hardware.
func (w *warp) run() bool {
	for {
		at, limit := w.pick()
		if at < 0 {
			return true
		}
		if w.frags[at].pc == limit {
			w.join(at)
		} else if !w.advance(at, limit) {
			return false
		}
	}
}

// advance runs a fragment until it is at limit, waits, ends, splits, or jumps while there are others. It returns false
// after a fault.
func (w *warp) advance(at, limit int) bool {
	code, k := w.b.k.code, w.b.worker
	f := &w.frags[at]
	for f.pc != limit {
		in := &code[f.pc]
		w.pc = f.pc
		m, ok := w.guarded(in, f.mask)
		if !ok {
			return false
		}
		if w.steps++; w.steps&checkMask == 0 && !k.goOn(w) {
			return false
		}
		if in.flow == collect && m != 0 && !in.collective(w, f, m) {
			f.waiting = true
			return w.fault == nil
		}
		k.counts[f.pc] += uint64(bits.OnesCount32(m))
		k.issued++
		switch in.flow {
		case plain:
			if m != 0 {
				in.run(w, m)
			}
			f.pc++
		case collect:
			f.pc++
		case exit:
			f.pc++
			if m != 0 {
				w.exit(at, m)
				return true
			}
		case branch:
			if w.branch(at, in.target, m) {
				return true
			}
		}
		if w.fault != nil {
			return false
		}
	}
	return true
}

// guarded takes the threads away whose predicate says no.
func (w *warp) guarded(in *inst, m uint32) (uint32, bool) {
	if in.guard < 0 {
		return m, true
	}
	if missing := m &^ w.pdef[in.guard]; missing != 0 {
		w.fail(Uninitialised, first(missing), 0, "the guard")
		return 0, false
	}
	if in.negate {
		return m &^ w.p[in.guard], true
	}
	return m & w.p[in.guard], true
}

// exit ends threads, which may be those that others wait for.
func (w *warp) exit(at int, m uint32) {
	w.live &^= m
	for i := range w.frags {
		if f := &w.frags[i]; f.barrier < 0 {
			f.waiting = false
		}
	}
	if w.frags[at].mask &^= m; w.frags[at].mask == 0 {
		w.frags[at] = w.frags[len(w.frags)-1]
		w.frags = w.frags[:len(w.frags)-1]
	}
}

// branch moves the threads m of a fragment to target and the others to the next instruction. It says whether a fragment
// has to be picked anew.
func (w *warp) branch(at, target int, m uint32) bool {
	f := &w.frags[at]
	switch m {
	case f.mask:
		f.pc = target
		return len(w.frags) > 1
	case 0:
		f.pc++
		return false
	}
	w.b.worker.stats.DivergentBranches++
	f.mask &^= m
	f.pc++
	w.frags = append(w.frags, fragment{pc: target, mask: m, barrier: -1})
	return true
}

// pick finds the fragment that is furthest behind among those that can run, and where it meets the next one.
func (w *warp) pick() (at, limit int) {
	at, limit = -1, len(w.b.k.code)
	for i := range w.frags {
		if f := &w.frags[i]; !f.waiting && (at < 0 || f.pc < w.frags[at].pc) {
			at = i
		}
	}
	for i := range w.frags {
		if f := &w.frags[i]; i != at && at >= 0 && f.pc >= w.frags[at].pc && f.pc < limit && f.barrier < 0 {
			limit = f.pc
		}
	}
	return at, limit
}

// join makes one fragment of those that are where fragment at is. One that waited looks again.
func (w *warp) join(at int) {
	f := w.frags[at]
	kept := w.frags[:0]
	for i, g := range w.frags {
		switch {
		case i == at:
		case g.pc == f.pc && g.barrier < 0:
			f.mask |= g.mask
		default:
			kept = append(kept, g)
		}
	}
	w.frags = append(kept, f)
}
