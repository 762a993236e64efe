package ptx

import "fmt"

// place is where the bytes of an access are: a slice of them, and for shared memory the offset for its shadow.
type place struct {
	bytes  []byte
	space  space // global, shared, local, constantSpace or parameter
	offset uint64
}

// resolve finds n bytes for a thread. slot is the memory instruction's own entry of the cache of regions. After a fault
// bytes is nil.
func (w *warp) resolve(in space, lane int, addr uint64, n int, slot int) place {
	if addr&uint64(n-1) != 0 {
		w.fail(Misaligned, lane, addr, fmt.Sprintf("%d bytes at once need an address that %d divides", n, n))
		return place{}
	}
	if in == generic {
		switch addr / Windows * Windows {
		case sharedWindow:
			in, addr = shared, addr&windowMask
		case localWindow:
			in, addr = local, addr&windowMask
		default:
			in = global
		}
	}
	var from []byte
	switch in {
	case global, constantSpace:
		if b := w.global(addr, n, slot); b != nil {
			return place{bytes: b, space: in}
		}
		w.fail(OutOfBounds, lane, addr, fmt.Sprintf("%d bytes of global memory", n))
		return place{}
	case shared:
		from = w.b.shared
	case local:
		size := w.b.k.LocalBytes
		from = w.local[lane*size : (lane+1)*size]
	case parameter:
		from = w.b.worker.run.Launch.Params
	}
	if addr > uint64(len(from)) || uint64(len(from))-addr < uint64(n) {
		w.fail(OutOfBounds, lane, addr, fmt.Sprintf("%d bytes of %s memory, which has %d", n, in, len(from)))
		return place{}
	}
	return place{bytes: from[addr : addr+uint64(n)], space: in, offset: addr}
}

// global finds bytes of global memory, first where the instruction found some before.
func (w *warp) global(addr uint64, n int, slot int) []byte {
	r := &w.b.worker.cache[slot]
	if off := addr - r.Base; off < uint64(len(r.Bytes)) && uint64(len(r.Bytes))-off >= uint64(n) {
		return r.Bytes[off : off+uint64(n) : off+uint64(n)]
	}
	found, ok := Region{Base: dataWindow, Bytes: w.b.k.module.data}, true
	if addr < dataWindow {
		found, ok = w.b.worker.run.memory.Find(addr)
	}
	if off := addr - found.Base; !ok || off >= uint64(len(found.Bytes)) || uint64(len(found.Bytes))-off < uint64(n) {
		return nil
	}
	*r = found
	off := addr - found.Base
	return found.Bytes[off : off+uint64(n) : off+uint64(n)]
}

// sectors counts the 32-byte sectors of one request.
type sectors struct {
	seen [4 * warpSize]uint64
	n    int
}

// add notes an access that lies inside one sector, as every aligned one does.
func (s *sectors) add(addr uint64) {
	sector := addr / 32
	for i := s.n - 1; i >= 0; i-- {
		if s.seen[i] == sector {
			return
		}
	}
	s.seen[s.n] = sector
	s.n++
}

// banks counts the passes beyond the first that a request on shared memory needs: 32 banks give a word of four bytes
// each in a pass. Requests of 8 and 16 bytes a thread take 2 and 4 passes anyway, a half or a quarter of the warp at a
// time.
type banks struct {
	words [warpSize][warpSize]uint64
	n     [warpSize]int
}

func (k *banks) conflicts(addrs *lanes, m uint32, n int) uint64 {
	group := warpSize
	if n > 4 {
		group = warpSize * 4 / n
	}
	extra := 0
	for from := 0; from < warpSize; from += group {
		clear(k.n[:])
		worst := 1
		for lane := from; lane < from+group; lane++ {
			if m>>lane&1 == 0 {
				continue
			}
			for b := 0; b < n; b += 4 {
				worst = max(worst, k.add((addrs[lane]+uint64(b))/4))
			}
		}
		extra += worst - 1
	}
	return uint64(extra)
}

// add notes a word and returns how many its bank has.
func (k *banks) add(word uint64) int {
	bank := word % warpSize
	for _, w := range k.words[bank][:k.n[bank]] {
		if w == word {
			return k.n[bank]
		}
	}
	k.words[bank][k.n[bank]] = word
	k.n[bank]++
	return k.n[bank]
}
