//go:build !linux

package kernels

import "unsafe"

// alloc takes the memory from the Go heap: no fences, and huge pages as the runtime sees fit.
func alloc(size int) (*Memory, error) {
	b := make([]byte, size+hugePage-1)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (hugePage - 1)
	return &Memory{Bytes: b[skip : skip+size : skip+size]}, nil
}

// Free lets the garbage collector have the memory; it may be called again.
func (m *Memory) Free() error {
	m.Bytes = nil
	return nil
}

func (m *Memory) hugePages() (bytes int, known bool) { return 0, false }
