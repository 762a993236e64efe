package kernels

import (
	"errors"
	"testing"
)

func TestAllocOutOfMemory(t *testing.T) {
	m, err := Alloc(1 << 46) // half of what an x86-64 process can address
	if err == nil {
		m.Free()
		t.Skip("this host overcommits without limit: there is no way to run out of memory")
	}
	if !errors.Is(err, ErrOutOfMemory) {
		t.Errorf("error %q does not wrap ErrOutOfMemory", err)
	}
	if _, err := Alloc(1 << 60); !errors.Is(err, ErrOutOfMemory) {
		t.Errorf("1 EiB: error %q does not wrap ErrOutOfMemory", err)
	}
}
