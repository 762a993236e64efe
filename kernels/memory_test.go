package kernels

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

func TestAlloc(t *testing.T) {
	for _, size := range []int{1, 4096, hugePage - 1, hugePage, hugePage + 1, 9*hugePage + 12345} {
		m, err := Alloc(size)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Bytes) != size || cap(m.Bytes) != size {
			t.Errorf("Alloc(%d): len %d, cap %d", size, len(m.Bytes), cap(m.Bytes))
		}
		if at := uintptr(unsafe.Pointer(&m.Bytes[0])); at%hugePage != 0 {
			t.Errorf("Alloc(%d): address %#x is not a multiple of 2 MiB", size, at)
		}
		for i, b := range m.Bytes {
			if b != 0 {
				t.Fatalf("Alloc(%d): byte %d is %d, want 0", size, i, b)
			}
			m.Bytes[i] = 1
		}
		for range 2 {
			if err := m.Free(); err != nil || m.Bytes != nil {
				t.Errorf("Free of %d: %v, Bytes nil: %v", size, err, m.Bytes == nil)
			}
		}
	}
}

func TestAllocRejects(t *testing.T) {
	for _, size := range []int{0, -1} {
		if _, err := Alloc(size); err == nil || errors.Is(err, ErrOutOfMemory) {
			t.Errorf("Alloc(%d): error %v, want one that is not ErrOutOfMemory", size, err)
		}
	}
}

func TestHugePages(t *testing.T) {
	const size = 16 * hugePage
	m, err := Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	got, known := m.HugePages()
	if known != (runtime.GOOS == "linux") || got != 0 {
		t.Errorf("untouched: HugePages() = %d, %v, want 0, known on Linux", got, known)
	}
	for i := 0; i < size/2; i += 4096 {
		m.Bytes[i] = 1
	}
	if got, _ = m.HugePages(); got > size/2 {
		t.Errorf("half touched: %d bytes in huge pages, want at most %d", got, size/2)
	}
	mode, _ := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	switch off := len(mode) == 0 || strings.Contains(string(mode), "[never]"); {
	case off && got > 0:
		t.Errorf("half touched: %d bytes in huge pages where the OS says %q", got, mode)
	case got == 0:
		skipWithout(t, "hugepages", fmt.Sprintf("the OS gave none for %d bytes and says %q: they are off, or memory is short or fragmented", size/2, mode))
	}
}
