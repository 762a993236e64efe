package ptx

import "fmt"

// together says whether a collective can run: all threads of members have to be in m. If not, the fragment waits, or
// the launch fails, when some of them have ended.
func (w *warp) together(m, members uint32) bool {
	if gone := members &^ w.live; gone != 0 {
		w.fail(Deadlock, first(m), 0, fmt.Sprintf("lanes %#x are waited for and have ended", gone))
		return false
	}
	return members&^m == 0
}

// whole is together for instructions that all threads of a full warp must run at once.
func (w *warp) whole(m uint32) bool { return w.together(m, fullWarp) }

// members reads the mask operand of threads that run together. Parts of a warp may be at the same place with masks of
// their own.
func (w *warp) members(m uint32, mask int) bool {
	if !w.ready(m, mask) {
		return false
	}
	for rest := m; rest != 0; {
		lane := first(rest)
		group := uint32(w.r[mask][lane])
		if group>>lane&1 == 0 {
			w.fail(IllegalInstruction, lane, 0, fmt.Sprintf("the mask %#x does not name the thread itself", group))
			return false
		}
		if !w.together(m, group) {
			return false
		}
		for other := group; other != 0; other &= other - 1 {
			if uint32(w.r[mask][first(other)]) != group {
				w.fail(IllegalInstruction, lane, 0, "threads that run together have different masks")
				return false
			}
		}
		rest &^= group
	}
	return true
}

// emitCollective compiles an instruction of threads that are named by a mask: f runs when they are together.
func (b *builder) emitCollective(mask int, f func(w *warp, m uint32)) {
	b.in.flow = collect
	b.in.collective = func(w *warp, _ *fragment, m uint32) bool {
		if !w.members(m, mask) {
			return false
		}
		f(w, m)
		return true
	}
}

// buildShuffle: d|p = value of another lane; p says whether that was in range, otherwise d is the own value.
func buildShuffle(b *builder) {
	b.need("sync")
	mode := b.need("up", "down", "bfly", "idx")
	b.typ("b32")
	o := *b.operand(0)
	p := -1
	if o.second != nil {
		p, o.second = o.second.index, nil
	}
	d := b.into(&o, "b32", false)
	x, n, c, mask := b.src(1, "b32"), b.src(2, "b32"), b.src(3, "b32"), b.src(4, "b32")
	b.emitCollective(mask, func(w *warp, m uint32) {
		if !w.ready(m, x, n, c) {
			return
		}
		var inRange uint32
		from := w.r[x]
		for rest := m; rest != 0; rest &= rest - 1 {
			lane := first(rest)
			source, ok := shuffleSource(mode, lane, int(w.r[n][lane]&31), w.r[c][lane])
			if !ok {
				source = lane
			}
			if m>>source&1 == 0 {
				w.fail(Uninitialised, lane, 0, fmt.Sprintf("lane %d is read and takes no part", source))
				return
			}
			inRange |= bit(ok) << lane
			w.r[d][lane] = from[source]
		}
		w.def[d] |= m
		if p >= 0 {
			w.setPredicate(p, m, inRange)
		}
	})
}

// shuffleSource is the pseudo-code of shfl.sync in the PTX ISA.
func shuffleSource(mode string, lane, n int, c uint64) (source int, ok bool) {
	clamp, segment := int(c&31), int(c>>8&31)
	most := lane&segment | clamp&^segment
	least := lane & segment
	switch mode {
	case "up":
		source = lane - n
		return source, source >= most
	case "down":
		source = lane + n
	case "bfly":
		source = lane ^ n
	case "idx":
		source = least | n&^segment
	}
	return source, source <= most
}

func buildVote(b *builder) {
	b.need("sync")
	mode := b.need("all", "any", "uni", "ballot")
	o := b.operand(1)
	x, negate := b.pred(o), o.negate
	mask := b.src(2, "b32")
	var d int
	if mode == "ballot" {
		b.typ("b32")
		d = b.dst(0, "b32")
	} else {
		b.typ("pred")
		d = b.predDst(0)
	}
	b.emitCollective(mask, func(w *warp, m uint32) {
		if !w.readyPredicates(m, x) {
			return
		}
		v := w.p[x]
		if negate {
			v = ^v
		}
		w.groups32(mask, m, func(group uint32) {
			yes := v & group
			switch mode {
			case "ballot":
				w.spread(d, group, uint64(yes))
			case "all":
				w.setPredicate(d, group, -bit(yes == group))
			case "any":
				w.setPredicate(d, group, -bit(yes != 0))
			case "uni":
				w.setPredicate(d, group, -bit(yes == group || yes == 0))
			}
		})
	})
}

// groups32 calls f for each set of threads that share a mask.
func (w *warp) groups32(mask int, m uint32, f func(group uint32)) {
	for m != 0 {
		group := uint32(w.r[mask][first(m)])
		f(group)
		m &^= group
	}
}

// spread gives all threads of a group one value.
func (w *warp) spread(d int, group uint32, value uint64) {
	for rest := group; rest != 0; rest &= rest - 1 {
		w.r[d][first(rest)] = value
	}
	w.def[d] |= group
}

func buildMatch(b *builder) {
	mode := b.need("any", "all")
	b.need("sync")
	t := b.typ("b32", "b64")
	o := *b.operand(0)
	p := -1
	if mode == "all" && o.second != nil {
		p, o.second = o.second.index, nil
	}
	d := b.into(&o, "b32", false)
	x, mask := b.src(1, t), b.src(2, "b32")
	b.emitCollective(mask, func(w *warp, m uint32) {
		if !w.ready(m, x) {
			return
		}
		value := w.r[x]
		w.groups32(mask, m, func(group uint32) {
			for rest := group; rest != 0; rest &= rest - 1 {
				lane := first(rest)
				var same uint32
				for other := group; other != 0; other &= other - 1 {
					same |= bit(value[first(other)] == value[lane]) << first(other)
				}
				if mode == "all" && same != group {
					same = 0
				}
				w.r[d][lane] = uint64(same)
				if p >= 0 {
					w.setPredicate(p, 1<<lane, -bit(same != 0))
				}
			}
			w.def[d] |= group
		})
	})
}

func buildActive(b *builder) {
	b.typ("b32")
	d := b.dst(0, "b32")
	b.in.run = func(w *warp, m uint32) { w.spread(d, m, uint64(m)) }
}

// buildRedux reduces a value over the threads of a mask.
func buildRedux(b *builder) {
	b.need("sync")
	name := b.need("add", "min", "max", "and", "or", "xor")
	t := b.typ("s32", "u32", "b32")
	f := updateOf(name, t)
	if f == nil {
		b.fail("redux.%s has no type .%s", name, t)
	}
	d, x, mask := b.dst(0, t), b.src(1, t), b.src(2, "b32")
	b.emitCollective(mask, func(w *warp, m uint32) {
		if !w.ready(m, x) {
			return
		}
		w.groups32(mask, m, func(group uint32) {
			v := w.r[x][first(group)]
			for rest := group & (group - 1); rest != 0; rest &= rest - 1 {
				v = f(v, w.r[x][first(rest)], 0)
			}
			w.spread(d, group, v)
		})
	})
}
