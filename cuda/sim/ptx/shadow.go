package ptx

// shadow knows for every byte of shared memory who wrote and read it last, and when. Time is a vector clock: a warp
// counts the barriers that it has passed, and learns at each what the others have done. A write that the reader's warp
// knows nothing of, or a read that the writer's does not, is a race, whether or not this run went well.
//
// The scheme is that of FastTrack (Flanagan and Freund, PLDI 2009) with one difference: of the readers of a byte only
// those of the latest stretch are kept, which can miss a race where barriers take a part of the block, and never
// invents one.
type shadow struct {
	words []cell    // for each four bytes
	bytes [][4]cell // of the words that were met in parts
}

// A cell is the history of bytes that were always used together.
type cell struct {
	writer  uint8 // warp + 1, 0: nobody wrote
	atomic  bool  // it was an atomic operation
	split   bool  // the four bytes have histories of their own, in bytes[part]
	part    int32
	wclock  uint32 // of the writer
	wline   int32  // instruction
	readers uint32 // warps, at rclock
	rclock  uint32
	rline   int32 // of one of them
	pending int32 // instruction + 1 of a cp.async that was not waited for
}

type access uint8

const (
	reading access = iota
	writing
	updating // an atomic operation
	promised // a cp.async begins
	arriving // and is waited for
)

func (s *shadow) reset(n int) {
	if words := (n + 3) / 4; len(s.words) != words {
		s.words = make([]cell, words)
	} else {
		clear(s.words)
	}
	s.bytes = s.bytes[:0]
}

// touch notes an access of a warp to n bytes. It returns false after a fault.
func (s *shadow) touch(w *warp, lane int, offset uint64, n int, how access) bool {
	for i := offset / 4; i < (offset+uint64(n)+3)/4; i++ {
		c := &s.words[i]
		if !c.split && n >= 4 {
			if !c.touch(w, lane, 4*i, how) {
				return false
			}
			continue
		}
		if !c.split {
			s.divide(c)
		}
		for j := range uint64(4) {
			if at := 4*i + j; at >= offset && at < offset+uint64(n) && !s.bytes[c.part][j].touch(w, lane, at, how) {
				return false
			}
		}
		if n >= 4 && (how == writing || how == arriving) { // all four have one history again
			*c = s.bytes[c.part][0]
		}
	}
	return true
}

// at is the history of a byte.
func (s *shadow) at(offset uint64) *cell {
	if c := &s.words[offset/4]; !c.split {
		return c
	}
	return &s.bytes[s.words[offset/4].part][offset%4]
}

func (s *shadow) divide(c *cell) {
	whole := *c
	c.split, c.part = true, int32(len(s.bytes))
	s.bytes = append(s.bytes, [4]cell{whole, whole, whole, whole})
}

func (c *cell) touch(w *warp, lane int, offset uint64, how access) bool {
	if c.pending != 0 && how != arriving {
		w.failRace(lane, offset, c.pending-1, "cp.async has not been waited for")
		return false
	}
	if c.writer == 0 && (how == reading || how == updating) {
		w.fail(Uninitialised, lane, offset, "shared memory that nobody wrote")
		w.fault.unwritten = true
		return false
	}
	if v := int(c.writer) - 1; v >= 0 && v != w.id && w.clock[v] < c.wclock && !(c.atomic && how == updating) {
		w.failRace(lane, offset, c.wline, "another warp wrote here and no barrier lies between")
		return false
	}
	if how == reading {
		c.read(w)
		return true
	}
	for others := c.readers &^ (1 << w.id); others != 0; others &= others - 1 {
		if w.clock[first(others)] < c.rclock {
			w.failRace(lane, offset, c.rline, "another warp read here and no barrier lies between")
			return false
		}
	}
	if how == promised {
		c.pending = int32(w.pc) + 1
		return true
	}
	c.writer, c.wclock, c.wline, c.atomic = uint8(w.id)+1, w.clock[w.id], int32(w.pc), how == updating
	c.readers, c.pending = 0, 0
	return true
}

func (c *cell) read(w *warp) {
	now := w.clock[w.id]
	if now > c.rclock {
		c.readers, c.rclock = 0, now
	}
	if now == c.rclock {
		c.readers |= 1 << w.id
		c.rline = int32(w.pc)
	}
}
