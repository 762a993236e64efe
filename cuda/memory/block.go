package memory

import "math/bits"

// block is a range of a device's addresses.
type block struct {
	addr, size uint64
	prev, next *block // its neighbours in the same segment or reservation
	up, down   *block // in the list of its class, while an index holds it
	state      state

	// of a block in use
	pool    *pool // nil: allocated directly
	serial  uint64
	bytes   uint64 // asked for, rounded up
	wanted  uint64 // asked for
	request string // the name it was asked for by
}

type state uint8

const (
	void state = iota // addresses without memory
	free
	used
)

func (b *block) end() uint64 { return b.addr + b.size }

// grain is what sizes of blocks are multiples of.
const grain = 256

// index finds blocks by size: lists of blocks by class, where classes are 16 to a power of two, and bits for the lists
// that are not empty. So it takes the same short time however many blocks there are (Masmano et al., TLSF: a new dynamic
// memory allocator for real-time systems, 2004).
type index struct {
	lists [rows][16]*block
	row   uint64       // which rows are not empty
	cell  [rows]uint16 // which lists of a row are
	bytes uint64       // of all blocks
}

const rows = 40 // up to 2^48 bytes, the addresses that a device has

// classOf returns the class of a size, a multiple of grain that is not 0.
func classOf(size uint64) (row, cell int) {
	n := size / grain
	row = bits.Len64(n) - 1
	return row, int(n<<4>>row) & 15
}

func (x *index) insert(b *block) {
	row, cell := classOf(b.size)
	head := &x.lists[row][cell]
	b.up, b.down = nil, *head
	if *head != nil {
		(*head).up = b
	}
	*head = b
	x.row |= 1 << row
	x.cell[row] |= 1 << cell
	x.bytes += b.size
}

func (x *index) remove(b *block) {
	row, cell := classOf(b.size)
	if b.down != nil {
		b.down.up = b.up
	}
	if b.up != nil {
		b.up.down = b.down
	} else if x.lists[row][cell] = b.down; b.down == nil {
		if x.cell[row] &^= 1 << cell; x.cell[row] == 0 {
			x.row &^= 1 << row
		}
	}
	b.up, b.down = nil, nil
	x.bytes -= b.size
}

// looks is how many blocks of the size's own class are looked at before the next class, in which every block fits.
const looks = 8

// find returns a block of at least size bytes, nearly the smallest; nil if there is none.
func (x *index) find(size uint64) *block {
	row, cell := classOf(size)
	var best *block
	b := x.lists[row][cell]
	for range looks {
		if b == nil {
			break
		}
		if b.size >= size && (best == nil || b.size < best.size) {
			best = b
		}
		b = b.down
	}
	if best != nil {
		return best
	}
	if rest := x.cell[row] &^ (1<<(cell+1) - 1); rest != 0 {
		return x.lists[row][bits.TrailingZeros16(rest)]
	}
	if rest := x.row &^ (1<<(row+1) - 1); rest != 0 {
		row = bits.TrailingZeros64(rest)
		return x.lists[row][bits.TrailingZeros16(x.cell[row])]
	}
	return nil
}

// each visits all blocks, those of the smallest class first, until visit returns false. visit may remove the block that
// it is given; what it inserts may be visited or not.
func (x *index) each(visit func(b *block) bool) {
	for row := range rows {
		for cell := 0; cell < 16 && x.cell[row] != 0; cell++ {
			for b := x.lists[row][cell]; b != nil; {
				next := b.down
				if !visit(b) {
					return
				}
				b = next
			}
		}
	}
}

// cut makes the part of b from size on a block of its own, in the same state, and returns it; nil if there is none.
func (b *block) cut(size uint64, spare *spares) *block {
	if size == b.size {
		return nil
	}
	rest := spare.get()
	*rest = block{addr: b.addr + size, size: b.size - size, prev: b, next: b.next, state: b.state}
	if b.next != nil {
		b.next.prev = rest
	}
	b.next, b.size = rest, size
	return rest
}

// join adds the next block to b.
func (b *block) join(spare *spares) {
	next := b.next
	b.size += next.size
	if b.next = next.next; b.next != nil {
		b.next.prev = b
	}
	spare.put(next)
}

// spares keeps descriptions of blocks for the next use.
type spares struct{ first *block }

func (s *spares) get() *block {
	b := s.first
	if b == nil {
		return new(block)
	}
	s.first, b.down = b.down, nil
	return b
}

func (s *spares) put(b *block) {
	*b = block{down: s.first}
	s.first = b
}
