package ptx

import "sort"

// A Region is an allocation of global memory.
type Region struct {
	Base  uint64
	Bytes []byte
}

// A Memory is the global memory of a device. Find returns the region that holds an address; during a launch it answers
// from several goroutines, always the same.
type Memory interface {
	Find(address uint64) (Region, bool)
}

// A Heap is a simple Memory: every allocation has a gap around it, so that no overrun reaches a neighbour.
type Heap struct {
	regions []Region
	next    uint64
}

var _ Memory = (*Heap)(nil)

// heapGap parts allocations by more than kernels plausibly overrun; the driver aligns to 256 as well.
const heapGap = 1 << 20

// Alloc makes a region of zeros and returns its address.
func (h *Heap) Alloc(bytes int) uint64 {
	h.next = alignUp(h.next, 256) + heapGap
	r := Region{Base: h.next, Bytes: make([]byte, bytes)}
	h.regions = append(h.regions, r)
	h.next += uint64(bytes)
	return r.Base
}

// Put makes a region of the given bytes, which stay shared with the caller.
func (h *Heap) Put(b []byte) uint64 {
	address := h.Alloc(0)
	h.regions[len(h.regions)-1].Bytes = b
	h.next += uint64(len(b))
	return address
}

// Find implements Memory.
func (h *Heap) Find(address uint64) (Region, bool) {
	i := sort.Search(len(h.regions), func(i int) bool { return h.regions[i].Base > address }) - 1
	if i < 0 || address-h.regions[i].Base >= uint64(len(h.regions[i].Bytes)) {
		return Region{}, false
	}
	return h.regions[i], true
}
