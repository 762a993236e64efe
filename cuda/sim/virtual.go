package sim

import (
	"slices"
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// page is the granularity of physical memory.
const page = 2 * mib

// physical is memory of a device without an address.
type physical struct {
	ctx      *context
	device   *device
	store    store
	maps     int
	released bool
}

// mapping is physical memory in a reservation.
type mapping struct {
	offset, size uint64
	memory       *physical
	access       map[*device]bool
}

func (p *physical) owner() *context { return p.ctx }

// release gives the memory back, as soon as it is mapped nowhere.
func (p *physical) release() {
	p.released = true
	if p.maps == 0 {
		p.device.giveBack(p.store.size)
		p.store.drop()
	}
}

func (p *physical) unmap() {
	if p.maps--; p.maps == 0 && p.released {
		p.release()
	}
}

// mapped returns the mapping in which an offset of the reservation lies.
func (r *region) mapped(offset uint64) *mapping {
	i, found := slices.BinarySearchFunc(r.maps, offset, func(m *mapping, offset uint64) int {
		switch {
		case m.offset+m.size <= offset:
			return -1
		case m.offset > offset:
			return 1
		}
		return 0
	})
	if !found {
		return nil
	}
	return r.maps[i]
}

// location is the device that prop means.
func (m *Machine) location(prop *driver.MemProp) (*device, driver.Result) {
	switch {
	case prop == nil || prop.Type != 1 || prop.LocationType != 1:
		return nil, driver.InvalidValue
	case prop.LocationID < 0 || int(prop.LocationID) >= len(m.devices):
		return nil, driver.InvalidDevice
	}
	d := m.devices[prop.LocationID]
	if d.NoVirtual {
		return nil, driver.NotSupported
	}
	return d, driver.Success
}

func (m *Machine) memGetAllocationGranularity(bytes *uint64, prop *driver.MemProp, option uint32) driver.Result {
	return m.within("MemGetAllocationGranularity", callTime, func(c *context) driver.Result {
		if _, r := m.location(prop); r != driver.Success {
			return r
		}
		return put(bytes, page)
	})
}

func (m *Machine) memAddressReserve(p *driver.Ptr, bytes, alignment uint64, hint driver.Ptr, flags uint64) driver.Result {
	return m.within("MemAddressReserve", callTime, func(c *context) driver.Result {
		if p == nil || bytes == 0 || bytes%page != 0 || alignment&(alignment-1) != 0 || flags != 0 {
			return driver.InvalidValue
		}
		if bytes > 1<<46 {
			return driver.OutOfMemory
		}
		r := &region{size: bytes, ctx: c, by: "MemAddressReserve", reserved: true}
		m.space.add(r, max(page, alignment))
		return put(p, driver.Ptr(r.base))
	})
}

func (m *Machine) memAddressFree(p driver.Ptr, bytes uint64) driver.Result {
	return m.within("MemAddressFree", callTime, func(c *context) driver.Result {
		r := m.space.at(p)
		if r == nil || !r.reserved || r.size != bytes || len(r.maps) > 0 {
			return driver.InvalidValue
		}
		r.free()
		return driver.Success
	})
}

func (m *Machine) memCreate(handle *driver.MemHandle, bytes uint64, prop *driver.MemProp, flags uint64) driver.Result {
	return m.within("MemCreate", createTime, func(c *context) driver.Result {
		d, r := m.location(prop)
		if r != driver.Success {
			return r
		}
		if handle == nil || bytes == 0 || bytes%page != 0 || flags != 0 {
			return driver.InvalidValue
		}
		if c.forbids() {
			return c.spoil()
		}
		if r := d.take(bytes); r != driver.Success {
			return r
		}
		return put(handle, driver.MemHandle(m.give(&physical{ctx: c, device: d, store: store{size: bytes}})))
	})
}

func (m *Machine) memRelease(handle driver.MemHandle) driver.Result {
	return m.within("MemRelease", freeTime, func(c *context) driver.Result {
		p, found := object[*physical](m, uintptr(handle))
		if !found {
			return driver.InvalidHandle
		}
		delete(m.handles, uintptr(handle))
		p.release()
		return driver.Success
	})
}

func (m *Machine) memMap(p driver.Ptr, bytes, offset uint64, handle driver.MemHandle, flags uint64) driver.Result {
	return m.within("MemMap", mapTime, func(c *context) driver.Result {
		memory, found := object[*physical](m, uintptr(handle))
		if !found {
			return driver.InvalidHandle
		}
		r := m.space.find(p)
		if r == nil || !r.reserved || offset != 0 || flags != 0 || bytes != memory.store.size {
			return driver.InvalidValue
		}
		at := uint64(p) - r.base
		i, taken := slices.BinarySearchFunc(r.maps, at, func(m *mapping, at uint64) int {
			if m.offset+m.size <= at {
				return -1
			}
			if m.offset >= at+bytes {
				return 1
			}
			return 0
		})
		if taken || at%page != 0 || at+bytes > r.size {
			return driver.InvalidValue
		}
		memory.maps++
		r.maps = slices.Insert(r.maps, i, &mapping{offset: at, size: bytes, memory: memory, access: make(map[*device]bool)})
		return driver.Success
	})
}

// covered calls visit with the mappings that make up a range of addresses exactly.
func (m *Machine) covered(p driver.Ptr, bytes uint64, visit func(r *region, first, last int)) driver.Result {
	r := m.space.find(p)
	if r == nil || !r.reserved || bytes == 0 {
		return driver.InvalidValue
	}
	at := uint64(p) - r.base
	first := slices.IndexFunc(r.maps, func(m *mapping) bool { return m.offset == at })
	if first < 0 {
		return driver.InvalidValue
	}
	last := first
	for end := at; end < at+bytes; last++ {
		if last == len(r.maps) || r.maps[last].offset != end {
			return driver.InvalidValue
		}
		if end += r.maps[last].size; end > at+bytes {
			return driver.InvalidValue
		}
	}
	visit(r, first, last)
	return driver.Success
}

func (m *Machine) memUnmap(p driver.Ptr, bytes uint64) driver.Result {
	return m.within("MemUnmap", unmapTime, func(c *context) driver.Result {
		return m.covered(p, bytes, func(r *region, first, last int) {
			r.ctx.wait()
			for _, mapped := range r.maps[first:last] {
				mapped.memory.unmap()
			}
			r.maps = slices.Delete(r.maps, first, last)
		})
	})
}

func (m *Machine) memSetAccess(p driver.Ptr, bytes uint64, desc *driver.MemAccess, count uint64) driver.Result {
	return m.within("MemSetAccess", accessTime, func(c *context) driver.Result {
		if desc == nil || count == 0 {
			return driver.InvalidValue
		}
		all := unsafe.Slice(desc, count)
		for _, a := range all {
			if a.LocationType != 1 || a.LocationID < 0 || int(a.LocationID) >= len(m.devices) || a.Access != 0 && a.Access != 3 {
				return driver.InvalidValue
			}
		}
		return m.covered(p, bytes, func(r *region, first, last int) {
			for _, mapped := range r.maps[first:last] {
				for _, a := range all {
					mapped.access[m.devices[a.LocationID]] = a.Access == 3
				}
			}
		})
	})
}
