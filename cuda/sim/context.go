package sim

import (
	"syscall"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// context is the primary context of a device.
type context struct {
	device    *device
	handle    uintptr
	retained  int
	destroyed bool
	lost      driver.Result // Success: not lost
	legacy    *stream
	streams   map[*stream]bool
	late      func() (time.Duration, driver.Result) // a copy from the host that is on its way still; nil: none
}

func (m *Machine) devicePrimaryCtxRetain(ctx *driver.ContextHandle, dev driver.DeviceHandle) driver.Result {
	return m.on("DevicePrimaryCtxRetain", contextTime, dev, func(d *device) driver.Result {
		if ctx == nil {
			return driver.InvalidValue
		}
		if d.primary == nil {
			if d.free() < d.ContextBytes {
				return driver.OutOfMemory
			}
			c := &context{device: d, streams: make(map[*stream]bool)}
			c.legacy = &stream{ctx: c}
			c.handle = m.give(c)
			d.primary = c
			d.peak = max(d.peak, d.used())
		}
		d.primary.retained++
		return put(ctx, driver.ContextHandle(d.primary.handle))
	})
}

func (m *Machine) devicePrimaryCtxRelease(dev driver.DeviceHandle) driver.Result {
	return m.on("DevicePrimaryCtxRelease", callTime, dev, func(d *device) driver.Result {
		if d.primary == nil {
			return driver.InvalidContext
		}
		if d.primary.retained--; d.primary.retained == 0 {
			d.primary.destroy()
		}
		return driver.Success
	})
}

// devicePrimaryCtxReset destroys what the context holds. Who retained it keeps it, empty and healthy, as the real driver
// keeps the handle of a primary context.
func (m *Machine) devicePrimaryCtxReset(dev driver.DeviceHandle) driver.Result {
	return m.on("DevicePrimaryCtxReset", contextTime, dev, func(d *device) driver.Result {
		if d.primary != nil {
			d.primary.empty()
			d.primary.lost = driver.Success
		}
		return driver.Success
	})
}

func (m *Machine) ctxSetCurrent(ctx driver.ContextHandle) driver.Result {
	return m.call("CtxSetCurrent", callTime, func() driver.Result {
		if ctx == 0 {
			delete(m.current, syscall.Gettid())
			return driver.Success
		}
		c, found := object[*context](m, uintptr(ctx))
		if !found {
			return driver.InvalidContext
		}
		m.current[syscall.Gettid()] = c
		return driver.Success
	})
}

func (m *Machine) ctxGetCurrent(ctx *driver.ContextHandle) driver.Result {
	return m.call("CtxGetCurrent", callTime, func() driver.Result {
		if c := m.current[syscall.Gettid()]; c != nil {
			return put(ctx, driver.ContextHandle(c.handle))
		}
		return put(ctx, 0)
	})
}

func (m *Machine) ctxSynchronize() driver.Result {
	return m.within("CtxSynchronize", callTime, func(c *context) driver.Result {
		if c.forbids() {
			return c.spoil()
		}
		c.wait()
		return c.lost
	})
}

func (m *Machine) ctxEnablePeerAccess(peer driver.ContextHandle, flags uint32) driver.Result {
	return m.within("CtxEnablePeerAccess", callTime, func(c *context) driver.Result {
		other, found := object[*context](m, uintptr(peer))
		switch {
		case !found || other == c:
			return driver.InvalidContext
		case flags != 0:
			return driver.InvalidValue
		case c.device.NoPeers || other.device.NoPeers:
			return peerAccessUnsupported
		case c.device.peers[other.device]:
			return peerAccessAlreadyEnabled
		}
		c.device.peers[other.device] = true
		return driver.Success
	})
}

// Results that only the simulation returns.
const (
	peerAccessUnsupported    driver.Result = 217
	peerAccessAlreadyEnabled driver.Result = 704
	captureInvalidated       driver.Result = 901
	captureImplicit          driver.Result = 906
	captureWrongThread       driver.Result = 908
)

// busy is until when the streams of the context are.
func (c *context) busy() time.Duration {
	until := c.legacy.busy
	for s := range c.streams {
		until = max(until, s.busy)
	}
	return until
}

// wait lets the host wait for all work of the context.
func (c *context) wait() {
	c.arrive()
	c.device.machine.now = max(c.device.machine.now, c.busy())
}

// arrive ends the copy that is on its way.
func (c *context) arrive() {
	late := c.late
	if c.late = nil; late == nil {
		return
	}
	if _, fault := late(); fault != driver.Success {
		c.lost = fault
	}
}

// forbids says whether a recording forbids calls that cannot be recorded: allocations, queries, and waiting.
func (c *context) forbids() bool {
	for s := range c.streams {
		if s.capture != nil && s.capture.forbids() {
			return true
		}
	}
	return false
}

// entangled says whether a stream is recorded that waits for the default stream, which then must not be used.
func (c *context) entangled() bool {
	for s := range c.streams {
		if s.capture != nil && !s.nonBlocking {
			return true
		}
	}
	return false
}

// spoil ends the recordings of a context in which something was called that cannot be recorded.
func (c *context) spoil() driver.Result {
	for s := range c.streams {
		if s.capture != nil {
			s.capture.spoilt = true
		}
	}
	return driver.CaptureUnsupported
}

// empty destroys all that the context holds.
func (c *context) empty() {
	m := c.device.machine
	c.late = nil
	for handle, o := range m.handles {
		if owned, ok := o.(interface{ owner() *context }); ok && owned.owner() == c {
			if p, ok := o.(*physical); ok {
				p.release()
			}
			delete(m.handles, handle)
		}
	}
	m.space.drop(c)
	c.device.pool.empty()
	c.device.peers = make(map[*device]bool)
	c.streams = make(map[*stream]bool)
	c.legacy = &stream{ctx: c}
}

func (c *context) destroy() {
	c.empty()
	c.destroyed = true
	delete(c.device.machine.handles, c.handle)
	c.device.primary = nil
}
