package memory

import (
	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// page is what the driver maps physical memory by: 2 MiB on every device so far. It is checked when a manager is made.
const page = 2 * mib

// pages are physical pages, mapped where blocks need them. A page in which nothing is in use can go back to the driver or
// to another address, whatever is in use around it: only parts of pages are ever stuck.
type pages struct {
	m       *Manager
	pool    *pool
	voids   index                       // addresses without memory
	handles map[uint64]driver.MemHandle // by address of a page
	ranges  []reservation
}

// reservation is a range of addresses that was taken from the driver.
type reservation struct{ base, size uint64 }

// grow maps pages between and behind what is free already, where the fewest are missing.
func (g *pages) grow(size uint64) (*block, error) {
	v := g.cheapest(size)
	if v == nil {
		var err error
		if v, err = g.reserve(roundUp(size, page)); err != nil {
			return nil, err
		}
		g.voids.insert(v)
	}
	before, after := g.beside(v)
	g.voids.remove(v)
	v.state = used // so that nobody takes what is beside it meanwhile
	for _, b := range []*block{before, after} {
		if b != nil {
			g.pool.index.remove(b)
			b.state = used
		}
	}
	need := min(v.size, roundUp(size-min(size, reach(before)), page))
	err := g.mapped(v.addr, need)
	v.state = void
	for _, b := range []*block{before, after} {
		if b != nil {
			b.state = free
			g.pool.index.insert(b)
		}
	}
	if err != nil {
		g.voids.insert(v)
		return nil, err
	}
	if rest := v.cut(need, g.m.spare); rest != nil {
		g.voids.insert(rest)
	}
	v.state = free
	return g.pool.joined(v), nil
}

// cheapest returns the addresses without memory that need the fewest pages to make a block of size bytes, together with
// what is free before and behind them; nil if there are none.
func (g *pages) cheapest(size uint64) *block {
	var best *block
	var cost uint64
	g.voids.each(func(v *block) bool {
		before, after := g.beside(v)
		if reach(before)+v.size+reach(after) < size {
			return true
		}
		need := min(v.size, roundUp(size-min(size, reach(before)), page))
		if best == nil || need < cost || need == cost && v.size < best.size {
			best, cost = v, need
		}
		return true
	})
	return best
}

// beside returns the free blocks before and behind a block, nil where there is none.
func (g *pages) beside(b *block) (before, after *block) {
	if b.prev != nil && b.prev.state == free {
		before = b.prev
	}
	if b.next != nil && b.next.state == free {
		after = b.next
	}
	return before, after
}

// reach is the size of a block, 0 of none.
func reach(b *block) uint64 {
	if b == nil {
		return 0
	}
	return b.size
}

// reserve makes addresses without memory, as many as the device has bytes at least: they cost nothing.
func (g *pages) reserve(size uint64) (*block, error) {
	size = max(size, roundUp(g.m.total, page))
	var p driver.Ptr
	err := g.m.call("cuMemAddressReserve", func(t *driver.Table) driver.Result {
		return t.MemAddressReserve(&p, size, page, 0, 0)
	})
	if err != nil {
		return nil, err
	}
	g.ranges = append(g.ranges, reservation{uint64(p), size})
	b := g.m.spare.get()
	*b = block{addr: uint64(p), size: size}
	return b, nil
}

// mapped gives addresses memory. That are new pages as long as no more is taken than the most that ever was allocated,
// and a little over; pages that are free elsewhere after that, or where there is no other way.
func (g *pages) mapped(addr, size uint64) error {
	n := int(size / page)
	var have []driver.MemHandle
	var err error
	if limit := float64(g.m.counts.PeakBytes) * (1 + g.m.constants.IdleShare); float64(g.m.taken+size) > limit {
		have, err = g.steal(nil, n)
	}
	if err == nil && len(have) < n {
		var missing error
		have, missing = g.create(have, n)
		if missing != nil {
			if have, err = g.steal(have, n); err == nil && len(have) < n {
				err = missing
			}
		}
	}
	if err == nil {
		err = g.connect(addr, have)
	}
	if err != nil {
		for _, h := range have {
			g.release(h)
		}
	}
	return err
}

// create makes new pages, up to n in sum.
func (g *pages) create(have []driver.MemHandle, n int) ([]driver.MemHandle, error) {
	if err := g.m.room(uint64(n-len(have)) * page); err != nil {
		return have, err
	}
	prop := driver.MemProp{Type: pinned, LocationType: onDevice, LocationID: int32(g.m.id)}
	for len(have) < n {
		var h driver.MemHandle
		err := g.m.call("cuMemCreate", func(t *driver.Table) driver.Result { return t.MemCreate(&h, page, &prop, 0) })
		if err != nil {
			return have, err
		}
		have = append(have, h)
		g.pool.counts.HeldBytes += page
		g.m.took(page)
	}
	return have, nil
}

// Values of C's enumerations for MemProp and MemAccess.
const (
	pinned    = 1
	onDevice  = 1
	readWrite = 3
)

// steal takes pages out of free blocks, up to n in sum. The smallest blocks go first: the large ones are what the next
// allocations fit into. In the churn of the tests that halves the calls against the other order.
func (g *pages) steal(have []driver.MemHandle, n int) ([]driver.MemHandle, error) {
	var err error
	g.pool.index.each(func(b *block) bool {
		if len(have) == n {
			return false
		}
		var got []driver.MemHandle
		got, err = g.empty(b, n-len(have))
		have = append(have, got...)
		return err == nil
	})
	return have, err
}

// empty unmaps at most n whole pages of a free block, the last ones.
func (g *pages) empty(b *block, n int) ([]driver.MemHandle, error) {
	first, end := roundUp(b.addr, page), b.end()&^(page-1)
	if end <= first {
		return nil, nil
	}
	first = max(first, end-min(uint64(n)*page, end-first))
	err := g.m.call("cuMemUnmap", func(t *driver.Table) driver.Result { return t.MemUnmap(driver.Ptr(first), end-first) })
	if err != nil {
		return nil, err
	}
	var handles []driver.MemHandle
	for at := first; at < end; at += page {
		handles = append(handles, g.handles[at])
		delete(g.handles, at)
	}
	g.pool.index.remove(b)
	if behind := b.cut(end-b.addr, g.m.spare); behind != nil {
		g.pool.index.insert(behind)
	}
	hole := b
	if first > b.addr {
		hole = b.cut(first-b.addr, g.m.spare)
		g.pool.index.insert(b)
	}
	g.hollow(hole)
	return handles, nil
}

// hollow makes a block one without memory, together with such beside it.
func (g *pages) hollow(b *block) {
	b.state = void
	if b.next != nil && b.next.state == void {
		g.voids.remove(b.next)
		b.join(g.m.spare)
	}
	if b.prev != nil && b.prev.state == void {
		b = b.prev
		g.voids.remove(b)
		b.join(g.m.spare)
	}
	g.voids.insert(b)
}

// connect maps pages one behind the other and lets the device use them. If it fails, none of them stays mapped.
func (g *pages) connect(addr uint64, handles []driver.MemHandle) error {
	size := uint64(len(handles)) * page
	done := uint64(0)
	var err error
	for _, h := range handles {
		err = g.m.call("cuMemMap", func(t *driver.Table) driver.Result {
			return t.MemMap(driver.Ptr(addr+done), page, 0, h, 0)
		})
		if err != nil {
			break
		}
		done += page
	}
	if err == nil {
		access := driver.MemAccess{LocationType: onDevice, LocationID: int32(g.m.id), Access: readWrite}
		err = g.m.call("cuMemSetAccess", func(t *driver.Table) driver.Result {
			return t.MemSetAccess(driver.Ptr(addr), size, &access, 1)
		})
	}
	if err != nil {
		if done > 0 {
			g.m.warn(g.m.call("cuMemUnmap", func(t *driver.Table) driver.Result { return t.MemUnmap(driver.Ptr(addr), done) }))
		}
		return err
	}
	for i, h := range handles {
		g.handles[addr+uint64(i)*page] = h
	}
	return nil
}

// release gives a page that is mapped nowhere back to the driver.
func (g *pages) release(h driver.MemHandle) {
	g.m.warn(g.m.call("cuMemRelease", func(t *driver.Table) driver.Result { return t.MemRelease(h) }))
	g.pool.counts.HeldBytes -= page
	g.m.gave(page)
}

// reclaim gives back all whole pages that are free. They cost three calls each to get again, so they stay unless all is
// to go.
func (g *pages) reclaim(all bool) error {
	if !all {
		return nil
	}
	handles, err := g.steal(nil, int(g.pool.counts.HeldBytes/page)+1)
	for _, h := range handles {
		g.release(h)
	}
	return err
}

func (g *pages) releasable() uint64 {
	var bytes uint64
	g.pool.index.each(func(b *block) bool {
		if first, end := roundUp(b.addr, page), b.end()&^(page-1); end > first {
			bytes += end - first
		}
		return true
	})
	return bytes
}

// close gives the addresses back, when nothing is mapped into them any more.
func (g *pages) close() {
	for _, r := range g.ranges {
		g.m.warn(g.m.call("cuMemAddressFree", func(t *driver.Table) driver.Result {
			return t.MemAddressFree(driver.Ptr(r.base), r.size)
		}))
	}
}
