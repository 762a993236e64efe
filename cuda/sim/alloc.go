package sim

import (
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// pool is the memory pool of a device, from which streams allocate.
type pool struct {
	device    *device
	handle    uintptr
	held      uint64 // by the pool, used or not
	used      uint64
	threshold uint64 // what it keeps when its memory is free again
}

// poolReleaseThreshold is CU_MEMPOOL_ATTR_RELEASE_THRESHOLD.
const poolReleaseThreshold = 4

// trim gives back what is free in the pool beyond keep bytes.
func (p *pool) trim(keep uint64) { p.held = max(p.used, min(p.held, keep)) }

func (p *pool) empty() { p.held, p.used, p.threshold = 0, 0, 0 }

func (m *Machine) memGetInfo(free, total *uint64) driver.Result {
	return m.within("MemGetInfo", infoTime, func(c *context) driver.Result {
		if free == nil || total == nil {
			return driver.InvalidValue
		}
		*free, *total = c.device.free(), c.device.TotalBytes
		return driver.Success
	})
}

func (m *Machine) memAlloc(p *driver.Ptr, bytes uint64) driver.Result {
	return m.within("MemAlloc", allocTime, func(c *context) driver.Result {
		if p == nil || bytes == 0 {
			return driver.InvalidValue
		}
		if c.forbids() {
			return c.spoil()
		}
		return c.alloc(p, bytes, "MemAlloc")
	})
}

func (c *context) alloc(p *driver.Ptr, bytes uint64, by string) driver.Result {
	taken := allocated(bytes)
	if taken < bytes {
		return driver.OutOfMemory
	}
	if r := c.device.take(taken); r != driver.Success {
		return r
	}
	r := &region{size: bytes, ctx: c, by: by, store: store{size: bytes}}
	c.device.machine.space.add(r, 512)
	return put(p, driver.Ptr(r.base))
}

// allocated is what an allocation takes: pages of 2 MiB, or a part of one.
func allocated(bytes uint64) uint64 {
	if bytes < mib {
		return roundUp(bytes, 512)
	}
	return roundUp(bytes, 2*mib)
}

// free gives the region's memory back and removes it.
func (r *region) free() {
	switch {
	case r.reserved:
		for _, m := range r.maps {
			m.memory.unmap()
		}
	case r.by == "MemAllocAsync":
		r.ctx.device.pool.used -= roundUp(r.size, 512)
	default:
		r.ctx.device.giveBack(allocated(r.size))
	}
	r.ctx.device.machine.space.remove(r)
}

func (m *Machine) memFree(p driver.Ptr) driver.Result {
	return m.within("MemFree", freeTime, func(c *context) driver.Result {
		if p == 0 {
			return driver.Success
		}
		r := m.space.at(p)
		if r == nil || r.reserved {
			return driver.InvalidValue
		}
		if c.forbids() {
			return c.spoil()
		}
		r.ctx.wait() // the driver frees nothing that may be in use
		r.free()
		return driver.Success
	})
}

func (m *Machine) memAllocHost(p *unsafe.Pointer, bytes uint64) driver.Result {
	return m.within("MemAllocHost", allocTime, func(c *context) driver.Result {
		if p == nil || bytes == 0 {
			return driver.InvalidValue
		}
		if c.forbids() {
			return c.spoil()
		}
		host := make([]byte, bytes)
		m.pinned[&host[0]] = host
		return put(p, unsafe.Pointer(&host[0]))
	})
}

func (m *Machine) memFreeHost(p unsafe.Pointer) driver.Result {
	return m.within("MemFreeHost", freeTime, func(c *context) driver.Result {
		if _, found := m.pinned[(*byte)(p)]; !found {
			return driver.InvalidValue
		}
		delete(m.pinned, (*byte)(p))
		return driver.Success
	})
}

func (m *Machine) deviceGetDefaultMemPool(handle *driver.PoolHandle, dev driver.DeviceHandle) driver.Result {
	return m.on("DeviceGetDefaultMemPool", callTime, dev, func(d *device) driver.Result {
		if d.NoPools {
			return driver.NotSupported
		}
		return put(handle, driver.PoolHandle(d.pool.handle))
	})
}

func (m *Machine) memAllocAsync(p *driver.Ptr, bytes uint64, handle driver.StreamHandle) driver.Result {
	return m.stream("MemAllocAsync", asyncAllocTime, handle, func(c *context, s *stream) driver.Result {
		switch pool := c.device.pool; {
		case p == nil || bytes == 0:
			return driver.InvalidValue
		case c.device.NoPools || s.capture != nil:
			return driver.NotSupported
		case bytes > c.device.TotalBytes:
			return driver.OutOfMemory
		default:
			taken := roundUp(bytes, 512)
			held := pool.held
			if pool.used+taken > held {
				m.now += allocTime // it has to ask for more
				pool.held = roundUp(pool.used+taken, 32*mib)
			}
			if c.device.used() > c.device.TotalBytes {
				pool.held = held
				return driver.OutOfMemory
			}
			pool.used += taken
			c.device.peak = max(c.device.peak, c.device.used())
			r := &region{size: bytes, ctx: c, by: "MemAllocAsync", store: store{size: bytes}}
			m.space.add(r, 512)
			return put(p, driver.Ptr(r.base))
		}
	})
}

func (m *Machine) memFreeAsync(p driver.Ptr, handle driver.StreamHandle) driver.Result {
	return m.stream("MemFreeAsync", asyncAllocTime, handle, func(c *context, s *stream) driver.Result {
		r := m.space.at(p)
		if r == nil || r.by != "MemAllocAsync" {
			return driver.InvalidValue
		}
		r.free()
		return driver.Success
	})
}

func (m *Machine) memPoolSetAttribute(handle driver.PoolHandle, attribute int32, value unsafe.Pointer) driver.Result {
	return m.call("MemPoolSetAttribute", callTime, func() driver.Result {
		p, found := object[*pool](m, uintptr(handle))
		switch {
		case !found:
			return driver.InvalidHandle
		case value == nil || attribute != poolReleaseThreshold:
			return driver.InvalidValue
		}
		p.threshold = *(*uint64)(value)
		return driver.Success
	})
}

func (m *Machine) memPoolTrimTo(handle driver.PoolHandle, keep uint64) driver.Result {
	return m.call("MemPoolTrimTo", callTime, func() driver.Result {
		p, found := object[*pool](m, uintptr(handle))
		if !found {
			return driver.InvalidHandle
		}
		p.trim(keep)
		return driver.Success
	})
}
