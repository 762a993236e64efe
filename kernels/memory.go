package kernels

import (
	"errors"
	"fmt"
)

// ErrOutOfMemory is wrapped by the errors of Alloc where the OS has not that much memory to give.
var ErrOutOfMemory = errors.New("out of memory")

// hugePage is the size and alignment of a huge page on x86-64, and on arm64 with pages of 4 KiB.
const hugePage = 2 << 20

// Memory is memory for packed weights outside the Go heap: zero, aligned to 2 MiB, backed by huge pages where the OS
// allows, and fenced by pages that fault when touched. No page exists before it is first written, so on a NUMA machine
// it lives where the worker that wrote it runs.
type Memory struct {
	Bytes   []byte
	mapping []byte // all of it, with the fences; nil where it comes from the Go heap
}

// Alloc returns size bytes, which stay allocated until Free. Its error wraps ErrOutOfMemory where that is the cause.
// An OS that overcommits gives out more than it has: check what is available first.
func Alloc(size int) (*Memory, error) {
	if size <= 0 {
		return nil, fmt.Errorf("kernels: allocate %d bytes: want 1 or more", size)
	}
	m, err := alloc(size)
	if err != nil {
		return nil, fmt.Errorf("kernels: allocate %d bytes: %w", size, err)
	}
	return m, nil
}

// HugePages returns how many bytes are backed by huge pages at this moment, as the OS reports it, and false where it
// does not tell. Pages come with the first write: before it, this is 0.
func (m *Memory) HugePages() (bytes int, known bool) { return m.hugePages() }
