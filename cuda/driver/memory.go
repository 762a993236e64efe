package driver

import (
	"fmt"
	"unsafe"
)

// MemoryInfo is what a device has at a moment.
type MemoryInfo struct{ FreeBytes, TotalBytes uint64 }

// UsedBytes is what all processes on the device, and the driver, hold.
func (m MemoryInfo) UsedBytes() uint64 { return m.TotalBytes - min(m.FreeBytes, m.TotalBytes) }

// MemoryInfo asks the driver for the memory of this device, in this device's context: asked without one, it answers for
// whichever device is current. The first call makes the context, which itself takes some hundred MB.
func (d *Device) MemoryInfo() (MemoryInfo, error) {
	var m MemoryInfo
	err := d.do("cuMemGetInfo", func() Result { return d.t.MemGetInfo(&m.FreeBytes, &m.TotalBytes) })
	return m, err
}

// Alloc reserves memory on the device. Close does not return it; Free does.
func (d *Device) Alloc(bytes uint64) (Ptr, error) {
	var p Ptr
	err := d.do("cuMemAlloc", func() Result { return d.t.MemAlloc(&p, bytes) })
	return p, err
}

// Free returns what Alloc reserved.
func (d *Device) Free(p Ptr) error {
	return d.do("cuMemFree", func() Result { return d.t.MemFree(p) })
}

// Upload copies src to the device and waits until it is there. From ordinary memory the driver's copy returns when it has
// taken the bytes, which may be on their way still, and streams do not wait for the default stream, which brings them:
// so this one is waited for. T must hold no Go pointers.
func Upload[T any](d *Device, dst Ptr, src []T) error {
	if len(src) == 0 {
		return nil
	}
	return d.do("cuMemcpyHtoD", func() Result {
		if r := d.t.MemcpyHtoD(dst, unsafe.Pointer(unsafe.SliceData(src)), sizeOf(src)); r != Success {
			return r
		}
		return d.t.StreamSynchronize(0)
	})
}

// Download copies from the device into dst and waits until it is there. It does not wait for the device's other streams.
// T must hold no Go pointers.
func Download[T any](d *Device, dst []T, src Ptr) error {
	if len(dst) == 0 {
		return nil
	}
	return d.do("cuMemcpyDtoH", func() Result {
		return d.t.MemcpyDtoH(unsafe.Pointer(unsafe.SliceData(dst)), src, sizeOf(dst))
	})
}

func sizeOf[T any](s []T) uint64 {
	var one T
	return uint64(len(s)) * uint64(unsafe.Sizeof(one))
}

// Copy copies on the device, in the order of the stream.
func (s *Stream) Copy(dst, src Ptr, bytes uint64) error {
	return s.do("cuMemcpyDtoDAsync", func() Result { return s.device.t.MemcpyDtoDAsync(dst, src, bytes, s.handle) })
}

// Fill8 sets bytes on the device to a value, in the order of the stream.
func (s *Stream) Fill8(dst Ptr, value uint8, bytes uint64) error {
	return s.do("cuMemsetD8Async", func() Result { return s.device.t.MemsetD8Async(dst, value, bytes, s.handle) })
}

// Fill32 sets 32-bit words on the device to a value, in the order of the stream.
func (s *Stream) Fill32(dst Ptr, value uint32, words uint64) error {
	if dst%4 != 0 {
		return fmt.Errorf("driver: fill words at %#x: want a multiple of 4", dst)
	}
	return s.do("cuMemsetD32Async", func() Result { return s.device.t.MemsetD32Async(dst, value, words, s.handle) })
}
