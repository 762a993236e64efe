package memory

import (
	"errors"
	"fmt"
	"io"
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// Copy copies the first bytes of an allocation to another one, also on another device, and waits for it. The driver
// takes the link between devices where there is one, and the host's memory otherwise.
func (f *Fleet) Copy(dst, src Allocation, bytes uint64) error {
	to, found := f.Manager(dst.Device)
	from, also := f.Manager(src.Device)
	if !found || !also {
		return fmt.Errorf("%w: a copy from device %d to %d", ErrForeign, src.Device, dst.Device)
	}
	if bytes > dst.Bytes || bytes > src.Bytes {
		return fmt.Errorf("memory: copy of %d bytes from %d to %d: want no more than both have", bytes, src.Bytes, dst.Bytes)
	}
	s, err := to.device.NewStream()
	if err != nil {
		return err
	}
	queue := func() error { return s.Copy(dst.Ptr, src.Ptr, bytes) }
	if to != from {
		queue = func() error { return peerCopy(s, to, dst.Ptr, from, src.Ptr, bytes) }
	}
	return errors.Join(queue(), s.Synchronize(), s.Close())
}

// peerCopy queues a copy between two devices by their contexts: by addresses alone, the driver copies pages, which only
// their own device may use, no further than that device.
func peerCopy(s *driver.Stream, to *Manager, dst driver.Ptr, from *Manager, src driver.Ptr, bytes uint64) error {
	if to.table.MemcpyPeerAsync == nil {
		return s.Copy(dst, src, bytes)
	}
	var source, target driver.ContextHandle
	if err := from.call("cuCtxGetCurrent", func(t *driver.Table) driver.Result { return t.CtxGetCurrent(&source) }); err != nil {
		return err
	}
	return to.device.Do(func() error {
		if err := to.device.Check("cuCtxGetCurrent", to.table.CtxGetCurrent(&target)); err != nil {
			return err
		}
		return to.device.Check("cuMemcpyPeerAsync", to.table.MemcpyPeerAsync(dst, target, src, source, bytes, s.Handle()))
	})
}

// prefetch is how much of a tensor is read at a time: large enough that the start of a copy, some 10 µs, does not count
// beside the 300 µs that it takes over a PCIe link of 25 GB/s.
const prefetch = 8 * mib

// Upload fills an allocation from a reader, such as a model file. While one part is on its way to the device, the next
// one is read. It waits until all is there.
func (m *Manager) Upload(dst Allocation, r io.Reader, bytes uint64) (err error) {
	if bytes > dst.Bytes || dst.Device != m.id {
		return fmt.Errorf("memory: upload of %d bytes into %d on device %d: want no more than it has, on device %d", bytes, dst.Bytes, dst.Device, m.id)
	}
	if bytes == 0 {
		return nil
	}
	s, err := m.device.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Synchronize(), s.Close()) }()
	var stages [2]stage
	for i := range stages {
		if stages[i], err = m.newStage(int(min(bytes, prefetch))); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Synchronize(), stages[i].close(m)) }()
	}
	for at, turn := uint64(0), 0; at < bytes; turn ^= 1 {
		n := min(bytes-at, prefetch)
		if err := stages[turn].send(m, s, dst.Ptr+driver.Ptr(at), r, n); err != nil {
			return fmt.Errorf("memory: upload at byte %d of %d: %w", at, bytes, err)
		}
		at += n
	}
	return nil
}

// stage is host memory from which a copy is under way.
type stage struct {
	bytes  []byte
	pinned unsafe.Pointer // nil: ordinary memory, from which the driver copies before it returns
	sent   *driver.Event
}

func (m *Manager) newStage(n int) (s stage, err error) {
	if s.sent, err = m.device.NewFence(); err != nil {
		return s, err
	}
	if m.table.MemAllocHost != nil && m.table.MemFreeHost != nil {
		err = m.call("cuMemAllocHost", func(t *driver.Table) driver.Result { return t.MemAllocHost(&s.pinned, uint64(n)) })
	}
	if err != nil {
		return s, errors.Join(err, s.sent.Close())
	}
	if s.pinned != nil {
		s.bytes = unsafe.Slice((*byte)(s.pinned), n)
	} else {
		s.bytes = make([]byte, n)
	}
	return s, nil
}

// send reads n bytes, when those before are on the device, and queues their copy.
func (g *stage) send(m *Manager, s *driver.Stream, dst driver.Ptr, r io.Reader, n uint64) error {
	if err := g.sent.Synchronize(); err != nil {
		return err
	}
	if _, err := io.ReadFull(r, g.bytes[:n]); err != nil {
		return err
	}
	err := m.call("cuMemcpyHtoDAsync", func(t *driver.Table) driver.Result {
		return t.MemcpyHtoDAsync(dst, unsafe.Pointer(&g.bytes[0]), n, s.Handle())
	})
	if err != nil {
		return err
	}
	return s.Record(g.sent)
}

func (g *stage) close(m *Manager) error {
	err := g.sent.Close()
	if g.pinned != nil {
		err = errors.Join(err, m.call("cuMemFreeHost", func(t *driver.Table) driver.Result { return t.MemFreeHost(g.pinned) }))
	}
	return err
}
