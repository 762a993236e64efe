package memory

import "math/bits"

// pool is a class of sizes: it keeps what is freed for the next allocation.
type pool struct {
	name  string
	upTo  uint64 // the largest size; 0: any
	least uint64 // the smallest block
	// whole blocks are not cut, and taken only if at most this share of them is wasted.
	whole bool
	waste float64

	spare  *spares
	index  index // of what is free
	source source
	counts PoolStats
}

// source is where a pool has its memory from.
type source interface {
	// grow returns a free block of at least size bytes that no index holds.
	grow(size uint64) (*block, error)
	// reclaim gives back to the driver what can be given: all, or only what is cheap to get again.
	reclaim(all bool) error
	// releasable is how much that would be.
	releasable() uint64
}

// PoolStats is what a pool did and holds.
type PoolStats struct {
	Name           string `json:"name"`
	HeldBytes      uint64 `json:"held_bytes"`      // taken from the driver
	UsedBytes      uint64 `json:"used_bytes"`      // in blocks that are in use
	RequestedBytes uint64 `json:"requested_bytes"` // of them, what was asked for
	StuckBytes     uint64 `json:"stuck_bytes"`     // free, but not to be given back: parts of pages and segments
	Blocks         int    `json:"blocks"`          // in use
	Hits           uint64 `json:"hits"`            // allocations without a call of the driver
	Misses         uint64 `json:"misses"`          // allocations that needed one
}

// fits says whether the pool is for a size.
func (p *pool) fits(size uint64) bool { return p.upTo == 0 || size <= p.upTo }

// alloc returns a block in use whose address is a multiple of alignment.
func (p *pool) alloc(wanted, bytes, alignment uint64) (*block, error) {
	size := p.room(bytes, alignment)
	b := p.find(size)
	if b != nil {
		p.index.remove(b)
		p.counts.Hits++
	} else {
		var err error
		if b, err = p.source.grow(size); err != nil {
			return nil, err
		}
		p.counts.Misses++
	}
	if !p.whole {
		b = p.fit(b, roundUp(max(bytes, p.least), grain), alignment)
	}
	b.state, b.pool, b.wanted, b.bytes = used, p, wanted, bytes
	p.counts.Blocks++
	p.counts.UsedBytes += b.size
	p.counts.RequestedBytes += wanted
	return b, nil
}

// room is what a block has to have for bytes at any aligned address in it.
func (p *pool) room(bytes, alignment uint64) uint64 {
	return roundUp(max(bytes, p.least), grain) + max(alignment, grain) - grain
}

// find returns a free block, unless too much of it would be wasted.
func (p *pool) find(size uint64) *block {
	b := p.index.find(size)
	if b != nil && p.whole && b.size-size > share(b.size, p.waste) {
		return nil
	}
	return b
}

// fit cuts a block to size at the first aligned address, and keeps what is before and behind.
func (p *pool) fit(b *block, size, alignment uint64) *block {
	b.state = free
	if lead := roundUp(b.addr, alignment) - b.addr; lead > 0 {
		front := b
		b = front.cut(lead, p.spare)
		p.index.insert(front)
	}
	if rest := b.cut(size, p.spare); rest != nil {
		p.index.insert(rest)
	}
	return b
}

// free takes a block back, together with what is free beside it.
func (p *pool) free(b *block) {
	p.counts.Blocks--
	p.counts.UsedBytes -= b.size
	p.counts.RequestedBytes -= b.wanted
	*b = block{addr: b.addr, size: b.size, prev: b.prev, next: b.next, state: free}
	p.keep(b)
}

// keep puts a free block into the index, together with what is free beside it.
func (p *pool) keep(b *block) { p.index.insert(p.joined(b)) }

// joined joins a free block with what is free beside it, and takes that out of the index.
func (p *pool) joined(b *block) *block {
	if b.next != nil && b.next.state == free {
		p.index.remove(b.next)
		b.join(p.spare)
	}
	if b.prev != nil && b.prev.state == free {
		b = b.prev
		p.index.remove(b)
		b.join(p.spare)
	}
	return b
}

// roundUp rounds n up to a multiple of step, a power of two.
func roundUp(n, step uint64) uint64 { return (n + step - 1) &^ (step - 1) }

// powerOfTwo says whether n is one.
func powerOfTwo(n uint64) bool { return bits.OnesCount64(n) == 1 }
