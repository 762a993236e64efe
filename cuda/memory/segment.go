package memory

import "github.com/bitnet-autotune/bitnet-autotune/cuda/driver"

// segments are allocations of the driver from which blocks are cut.
type segments struct {
	m    *Manager
	pool *pool
	size uint64 // at least; 0: as large as what is asked for
}

func (s *segments) grow(size uint64) (*block, error) {
	n := roundUp(max(size, s.size), page)
	p, err := s.m.take(n)
	if err != nil {
		return nil, err
	}
	s.pool.counts.HeldBytes += n
	b := s.m.spare.get()
	*b = block{addr: uint64(p), size: n, state: free}
	return b, nil
}

// reclaim frees the segments in which nothing is in use. They cost one call to get again, so all go always.
func (s *segments) reclaim(bool) error {
	var failed error
	s.pool.index.each(func(b *block) bool {
		if !alone(b) {
			return true
		}
		s.pool.index.remove(b)
		s.pool.counts.HeldBytes -= b.size
		if err := s.m.giveBack(driver.Ptr(b.addr), b.size); err != nil {
			failed = err
		}
		s.m.spare.put(b)
		return true
	})
	return failed
}

func (s *segments) releasable() uint64 {
	var bytes uint64
	s.pool.index.each(func(b *block) bool {
		if alone(b) {
			bytes += b.size
		}
		return true
	})
	return bytes
}

// alone says whether a block is its whole segment.
func alone(b *block) bool { return b.prev == nil && b.next == nil }
