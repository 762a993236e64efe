package sim

import (
	"bytes"
	"encoding/binary"
	"time"
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// at is how long bytes take at a rate in a second.
func at(bytes, rate uint64) time.Duration {
	return time.Duration(float64(bytes) / float64(rate) * float64(time.Second))
}

// transfer is a copy that a stream can do.
type transfer func(c *context) (work, driver.Result)

// synchronous does a copy on the default stream and waits for it.
func (m *Machine) synchronous(name string, t transfer) driver.Result {
	return m.within(name, submitTime, func(c *context) driver.Result {
		if c.forbids() {
			return c.spoil()
		}
		w, r := t(c)
		if r != driver.Success {
			return r
		}
		if r := c.legacy.submit(w); r != driver.Success {
			return r
		}
		m.now = max(m.now, c.legacy.busy)
		return c.lost
	})
}

// queued does a copy on a stream.
func (m *Machine) queued(name string, handle driver.StreamHandle, t transfer) driver.Result {
	return m.stream(name, submitTime, handle, func(c *context, s *stream) driver.Result {
		w, r := t(c)
		if r != driver.Success {
			return r
		}
		return s.submit(w)
	})
}

// valid says whether a device can copy a range, mapped as it is now.
func (m *Machine) valid(p driver.Ptr, bytes uint64, d *device) bool {
	if d == nil {
		return false
	}
	for at := uint64(0); at < bytes; {
		piece := m.space.resolve(p+driver.Ptr(at), bytes-at, d)
		if len(piece) == 0 {
			return false
		}
		at += uint64(len(piece))
	}
	return true
}

// home is the device in which an address lies, nil if nowhere.
func (m *Machine) home(p driver.Ptr) *device {
	r := m.space.find(p)
	switch {
	case r == nil:
		return nil
	case !r.reserved:
		return r.ctx.device
	}
	if mapped := r.mapped(uint64(p) - r.base); mapped != nil {
		return mapped.memory.device
	}
	return nil
}

// fromHost writes to a device. A recorded copy reads the host's memory when it is launched.
func (m *Machine) fromHost(dst driver.Ptr, src unsafe.Pointer, bytes uint64) transfer {
	return func(c *context) (work, driver.Result) {
		d := m.home(dst)
		if bytes > 0 && (src == nil || !m.valid(dst, bytes, d)) {
			return work{}, driver.InvalidValue
		}
		return work{engine: upload, latency: copyLatency, run: func() (time.Duration, driver.Result) {
			host := unsafe.Slice((*byte)(src), bytes)
			r := m.space.pieces(dst, bytes, d, func(at uint64, piece []byte) { copy(piece, host[at:]) })
			return at(bytes, c.device.LinkBytes), faulty(r)
		}}, driver.Success
	}
}

func (m *Machine) toHost(dst unsafe.Pointer, src driver.Ptr, bytes uint64) transfer {
	return func(c *context) (work, driver.Result) {
		d := m.home(src)
		if bytes > 0 && (dst == nil || !m.valid(src, bytes, d)) {
			return work{}, driver.InvalidValue
		}
		return work{engine: download, latency: copyLatency, run: func() (time.Duration, driver.Result) {
			host := unsafe.Slice((*byte)(dst), bytes)
			r := m.space.pieces(src, bytes, d, func(at uint64, piece []byte) { copy(host[at:], piece) })
			return at(bytes, c.device.LinkBytes), faulty(r)
		}}, driver.Success
	}
}

// onDevice copies on a device at half its bandwidth, since it reads and writes, or between two over the link.
func (m *Machine) onDevice(dst, src driver.Ptr, bytes uint64) transfer {
	return func(c *context) (work, driver.Result) {
		to, from := m.home(dst), m.home(src)
		if bytes > 0 && (!m.valid(dst, bytes, to) || !m.valid(src, bytes, from)) {
			return work{}, driver.InvalidValue
		}
		return work{engine: compute, latency: kernelLatency, run: func() (time.Duration, driver.Result) {
			between := make([]byte, bytes)
			r := m.space.pieces(src, bytes, from, func(at uint64, piece []byte) { copy(between[at:], piece) })
			if r == driver.Success {
				r = m.space.pieces(dst, bytes, to, func(at uint64, piece []byte) { copy(piece, between[at:]) })
			}
			rate := c.device.BandwidthBytes / 2
			if to != from {
				rate = min(to.LinkBytes, from.LinkBytes)
				if !to.peers[from] && !from.peers[to] {
					rate /= 2 // by way of the host
				}
			}
			return at(bytes, rate), faulty(r)
		}}, driver.Success
	}
}

// addressed is onDevice where only the addresses are given. Between two devices that finds the way for allocations, but
// mapped memory only where both devices may use it: else it has to be named with its context, as MemcpyPeerAsync does.
func (m *Machine) addressed(dst, src driver.Ptr, bytes uint64) transfer {
	return func(c *context) (work, driver.Result) {
		if to, from := m.home(dst), m.home(src); to != from && (m.shut(dst, from) || m.shut(src, to)) {
			return work{}, driver.InvalidValue
		}
		return m.onDevice(dst, src, bytes)(c)
	}
}

// shut says whether an address is of mapped memory that a device may not use.
func (m *Machine) shut(p driver.Ptr, d *device) bool {
	r := m.space.find(p)
	if r == nil || !r.reserved {
		return false
	}
	mapped := r.mapped(uint64(p) - r.base)
	return mapped == nil || !mapped.access[d]
}

// fill sets bytes to a repeated pattern.
func (m *Machine) fill(dst driver.Ptr, pattern []byte, count uint64) transfer {
	return func(c *context) (work, driver.Result) {
		bytes, d := count*uint64(len(pattern)), m.home(dst)
		if count > 1<<60 || uint64(dst)%uint64(len(pattern)) != 0 || count > 0 && !m.valid(dst, bytes, d) {
			return work{}, driver.InvalidValue
		}
		return work{engine: compute, latency: kernelLatency, run: func() (time.Duration, driver.Result) {
			r := m.space.pieces(dst, bytes, d, func(_ uint64, piece []byte) { // which begin at a multiple of the pattern
				for done := copy(piece, pattern); done < len(piece); done *= 2 {
					copy(piece[done:], piece[:done])
				}
			})
			return at(bytes, c.device.BandwidthBytes), faulty(r)
		}}, driver.Success
	}
}

// faulty is what a copy ends in that turns out not to be possible when it is done.
func faulty(r driver.Result) driver.Result {
	if r != driver.Success {
		return driver.IllegalAddress
	}
	return r
}

// memcpyHtoD returns when the host's memory may change again. Out of memory that is not pinned, the driver has copied it
// by then, and it may be on its way still: only what waits for the default stream is sure to find it on the device (CUDA
// driver API, "API synchronization behavior"). Here it is on its way until then.
func (m *Machine) memcpyHtoD(dst driver.Ptr, src unsafe.Pointer, n uint64) driver.Result {
	return m.synchronous("MemcpyHtoD", func(c *context) (work, driver.Result) {
		w, r := m.fromHost(dst, src, n)(c)
		if r != driver.Success || n == 0 || m.isPinned(src) {
			return w, r
		}
		staged := bytes.Clone(unsafe.Slice((*byte)(src), n))
		late, r := m.fromHost(dst, unsafe.Pointer(&staged[0]), n)(c)
		w.run = func() (time.Duration, driver.Result) {
			c.late = late.run
			return at(n, c.device.LinkBytes), driver.Success
		}
		return w, r
	})
}

func (m *Machine) isPinned(p unsafe.Pointer) bool {
	for first, bytes := range m.pinned {
		if uintptr(p)-uintptr(unsafe.Pointer(first)) < uintptr(len(bytes)) {
			return true
		}
	}
	return false
}

func (m *Machine) memcpyDtoH(dst unsafe.Pointer, src driver.Ptr, bytes uint64) driver.Result {
	return m.synchronous("MemcpyDtoH", m.toHost(dst, src, bytes))
}

func (m *Machine) memcpyDtoD(dst, src driver.Ptr, bytes uint64) driver.Result {
	return m.synchronous("MemcpyDtoD", m.addressed(dst, src, bytes))
}

func (m *Machine) memcpyHtoDAsync(dst driver.Ptr, src unsafe.Pointer, bytes uint64, s driver.StreamHandle) driver.Result {
	return m.queued("MemcpyHtoDAsync", s, m.fromHost(dst, src, bytes))
}

func (m *Machine) memcpyDtoHAsync(dst unsafe.Pointer, src driver.Ptr, bytes uint64, s driver.StreamHandle) driver.Result {
	return m.queued("MemcpyDtoHAsync", s, m.toHost(dst, src, bytes))
}

func (m *Machine) memcpyDtoDAsync(dst, src driver.Ptr, bytes uint64, s driver.StreamHandle) driver.Result {
	return m.queued("MemcpyDtoDAsync", s, m.addressed(dst, src, bytes))
}

func (m *Machine) memcpyPeerAsync(dst driver.Ptr, dstCtx driver.ContextHandle, src driver.Ptr, srcCtx driver.ContextHandle, bytes uint64, s driver.StreamHandle) driver.Result {
	return m.queued("MemcpyPeerAsync", s, func(c *context) (work, driver.Result) {
		to, ok := object[*context](m, uintptr(dstCtx))
		from, ok2 := object[*context](m, uintptr(srcCtx))
		switch {
		case !ok || !ok2:
			return work{}, driver.InvalidContext
		case bytes > 0 && (m.home(dst) != to.device || m.home(src) != from.device):
			return work{}, driver.InvalidValue
		}
		return m.onDevice(dst, src, bytes)(c)
	})
}

func (m *Machine) memsetD8Async(dst driver.Ptr, value uint8, bytes uint64, s driver.StreamHandle) driver.Result {
	return m.queued("MemsetD8Async", s, m.fill(dst, []byte{value}, bytes))
}

func (m *Machine) memsetD32Async(dst driver.Ptr, value uint32, words uint64, s driver.StreamHandle) driver.Result {
	return m.queued("MemsetD32Async", s, m.fill(dst, binary.LittleEndian.AppendUint32(nil, value), words))
}
