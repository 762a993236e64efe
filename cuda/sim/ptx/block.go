package ptx

import "fmt"

const barriers = 16 // of a block, in hardware

// A block is a group of warps with shared memory and barriers.
type block struct {
	k      *Kernel
	worker *worker
	index  [3]int
	dims   [3]int // threads
	warps  []*warp
	shared []byte
	shadow shadow

	// What bar.arrive brought to each barrier.
	arrived [barriers]int
	known   [barriers][]uint32
}

func (b *block) thread(linear int) [3]int {
	return [3]int{linear % b.dims[0], linear / b.dims[0] % b.dims[1], linear / (b.dims[0] * b.dims[1])}
}

// run runs the block from its first to its last instruction.
func (b *block) run() *Fault {
	threads := b.dims[0] * b.dims[1] * b.dims[2]
	clear(b.shared)
	b.shadow.reset(len(b.shared))
	clear(b.arrived[:])
	clear(b.known[:])
	for _, w := range b.warps {
		w.reset(threads)
	}
	for {
		for i, w := range b.warps {
			if !w.run() {
				return b.blame(w.fault, b.warps[i+1:])
			}
		}
		if b.live() == 0 {
			return nil
		}
		if !b.release() {
			return b.stuck()
		}
	}
}

// blame turns the fault of a read that found nothing in shared memory into a race, when one of the warps that had not
// run yet writes there before its next barrier.
func (b *block) blame(fault *Fault, later []*warp) *Fault {
	if !fault.unwritten {
		return fault
	}
	for _, w := range later {
		w.run()
	}
	if c := b.shadow.at(fault.Address); c.writer != 0 {
		fault.Kind, fault.Other = Race, b.k.code[c.wline].line
		fault.Detail = "another warp writes here and no barrier lies between"
	}
	return fault
}

func (b *block) live() int {
	n := 0
	for _, w := range b.warps {
		n += count(w.live)
	}
	return n
}

// each calls f for every fragment that is at barrier id.
func (b *block) each(id int, f func(w *warp, at *fragment)) {
	for _, w := range b.warps {
		for i := range w.frags {
			if w.frags[i].barrier == id {
				f(w, &w.frags[i])
			}
		}
	}
}

// present counts the threads at a barrier and finds what they wait for; 0: all of the block.
func (b *block) present(id int) (threads, expected int, agree bool) {
	threads, expected, agree = b.arrived[id], -1, true
	b.each(id, func(w *warp, at *fragment) {
		if at.expected > 0 {
			threads += warpSize // a barrier that counts, counts whole warps
		} else {
			threads += count(at.mask)
		}
		if expected >= 0 && at.expected != expected {
			agree = false
		}
		expected = at.expected
	})
	return threads, expected, agree
}

// release opens the barriers at which everybody has arrived. It says whether there was one.
func (b *block) release() bool {
	any := false
	for id := range barriers {
		threads, expected, agree := b.present(id)
		if expected < 0 || !agree || expected > 0 && threads != expected || expected == 0 && threads != b.live() {
			continue
		}
		any = true
		b.worker.stats.Barriers++
		b.order(id)
		b.each(id, func(w *warp, at *fragment) {
			b.worker.counts[at.pc] += uint64(count(at.mask))
			b.worker.issued++
			at.barrier, at.waiting = -1, false
			at.pc++
		})
		b.arrived[id], b.known[id] = 0, nil
	}
	return any
}

// order lets every warp at a barrier know what all of them did before it, and starts a new stretch of time for each.
func (b *block) order(id int) {
	know := make([]uint32, len(b.warps))
	copy(know, b.known[id])
	b.each(id, func(w *warp, _ *fragment) { merge(know, w.clock) })
	b.each(id, func(w *warp, _ *fragment) {
		copy(w.clock, know)
		w.clock[w.id]++
	})
}

func merge(into, from []uint32) {
	for i := range into {
		into[i] = max(into[i], from[i])
	}
}

// stuck says why nothing goes on.
func (b *block) stuck() *Fault {
	for _, w := range b.warps {
		for _, f := range w.frags {
			if f.barrier >= 0 {
				continue
			}
			w.pc = f.pc
			kind := Deadlock
			if b.k.code[f.pc].barrier {
				kind = BarrierDivergence
			}
			w.fail(kind, first(f.mask), 0, fmt.Sprintf("lanes %#x of the warp wait for the others of %#x, which wait elsewhere", f.mask, w.live))
			return w.fault
		}
	}
	for id := range barriers {
		threads, expected, agree := b.present(id)
		if expected < 0 {
			continue
		}
		var fault *Fault
		b.each(id, func(w *warp, at *fragment) {
			if fault != nil {
				return
			}
			if expected == 0 {
				expected = b.live()
			}
			w.pc = at.pc
			why := fmt.Sprintf("barrier %d has %d of %d threads", id, threads, expected)
			if !agree {
				why = fmt.Sprintf("barrier %d is told different numbers of threads", id)
			}
			w.fail(Deadlock, first(at.mask), 0, why)
			fault = w.fault
		})
		return fault
	}
	return nil
}
