package sim

import (
	"slices"
	"sort"
	"sync"
	"syscall"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

const (
	firstAddress = 0x7f00_0000_0000
	guard        = 2 * mib // between any two regions no address is valid
	poison       = 0xc5    // fresh memory reads as this, where there is little of it
	poisonUpTo   = 16 * mib
)

// space is the address space that all devices and their streams share. No address is given twice, so that what is used
// after it was freed is found out.
type space struct {
	next    uint64
	regions []*region // by address
}

// region is a range of addresses: an allocation, or a reservation into which physical memory is mapped.
type region struct {
	base, size uint64
	ctx        *context
	by         string // the function that made it
	store      store
	reserved   bool
	maps       []*mapping // by offset
}

// store is memory of a device. The host has room for it only where it was touched.
type store struct {
	size  uint64
	mu    sync.Mutex // kernels touch it from several goroutines
	bytes []byte
}

// slice returns the bytes of the store.
func (s *store) slice() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes == nil {
		bytes, err := syscall.Mmap(-1, 0, int(s.size), syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
		if err != nil {
			panic("sim: the host has no addresses left for simulated memory")
		}
		if s.size <= poisonUpTo {
			for i := range bytes {
				bytes[i] = poison
			}
		}
		s.bytes = bytes
	}
	return s.bytes
}

func (s *store) drop() {
	if s.bytes != nil {
		_ = syscall.Munmap(s.bytes) // it was mapped with these bounds, and there is nobody to tell
		s.bytes = nil
	}
}

// add makes a region.
func (s *space) add(r *region, alignment uint64) {
	r.base = roundUp(s.next, max(alignment, 512))
	s.next = r.base + r.size + guard
	s.regions = append(s.regions, r)
}

// find returns the region in which an address lies.
func (s *space) find(p driver.Ptr) *region {
	i := sort.Search(len(s.regions), func(i int) bool { return s.regions[i].base > uint64(p) })
	if i == 0 || uint64(p)-s.regions[i-1].base >= s.regions[i-1].size {
		return nil
	}
	return s.regions[i-1]
}

// at returns the region that begins at an address.
func (s *space) at(p driver.Ptr) *region {
	if r := s.find(p); r != nil && r.base == uint64(p) {
		return r
	}
	return nil
}

func (s *space) remove(r *region) {
	i := sort.Search(len(s.regions), func(i int) bool { return s.regions[i].base >= r.base })
	s.regions = slices.Delete(s.regions, i, i+1)
	r.store.drop()
}

// drop removes all regions of a context.
func (s *space) drop(c *context) {
	for _, r := range slices.Clone(s.regions) {
		if r.ctx == c {
			r.free()
		}
	}
}

// resolve returns the bytes from an address on, as many of n as lie in one piece, for use by a device. It returns nil
// where the address is not valid or the device may not use it.
func (s *space) resolve(p driver.Ptr, n uint64, d *device) []byte {
	r := s.find(p)
	if r == nil {
		return nil
	}
	offset := uint64(p) - r.base
	if !r.reserved {
		if !d.reads(r.ctx.device) {
			return nil
		}
		return r.store.slice()[offset:][:min(n, r.size-offset)]
	}
	m := r.mapped(offset)
	if m == nil || !m.access[d] {
		return nil
	}
	offset -= m.offset
	return m.memory.store.slice()[offset:][:min(n, m.size-offset)]
}

// pieces calls visit with all bytes of a range, piece by piece, and returns InvalidValue if any of it is not valid,
// before the first visit.
func (s *space) pieces(p driver.Ptr, n uint64, d *device, visit func(at uint64, piece []byte)) driver.Result {
	for pass := range 2 {
		for at := uint64(0); at < n; {
			piece := s.resolve(p+driver.Ptr(at), n-at, d)
			if len(piece) == 0 {
				return driver.InvalidValue
			}
			if pass == 1 {
				visit(at, piece)
			}
			at += uint64(len(piece))
		}
	}
	return driver.Success
}
