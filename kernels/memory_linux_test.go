package kernels

import (
	"errors"
	"runtime/debug"
	"testing"
	"unsafe"
)

func TestAllocOutOfMemory(t *testing.T) {
	m, err := Alloc(1 << 46) // half of what an x86-64 process can address
	if err == nil {
		m.Free()
		skipWithout(t, "enomem", "this host overcommits without limit: there is no way to run out of memory")
	}
	if !errors.Is(err, ErrOutOfMemory) {
		t.Errorf("error %q does not wrap ErrOutOfMemory", err)
	}
	if _, err := Alloc(1 << 60); !errors.Is(err, ErrOutOfMemory) {
		t.Errorf("1 EiB: error %q does not wrap ErrOutOfMemory", err)
	}
}

func TestMemoryIsFenced(t *testing.T) {
	m, err := Alloc(3 * hugePage)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	start := unsafe.Pointer(&m.Bytes[0])
	for _, at := range []int{-1, 3 * hugePage} {
		if caught(func() { *(*byte)(unsafe.Add(start, at))++ }) == nil {
			t.Errorf("byte %d of 6 MiB could be written", at)
		}
	}
}
