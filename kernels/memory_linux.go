package kernels

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func alloc(size int) (*Memory, error) {
	room := ceilDiv(size, hugePage) * hugePage
	// Reserving costs no memory: the fences are never made accessible, and they keep the kernel from merging the
	// mapping with its neighbours, which would blur HugePages.
	mapping, err := unix.Mmap(-1, 0, room+2*hugePage, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, outOfMemory(err)
	}
	start := hugePage - int(uintptr(unsafe.Pointer(unsafe.SliceData(mapping)))%hugePage)
	bytes := mapping[start : start+room]
	if err := unix.Mprotect(bytes, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return nil, errors.Join(outOfMemory(err), unix.Munmap(mapping))
	}
	_ = unix.Madvise(bytes, unix.MADV_HUGEPAGE) // refused where huge pages are off: HugePages tells
	return &Memory{Bytes: bytes[:size:size], mapping: mapping}, nil
}

func outOfMemory(err error) error {
	if errors.Is(err, unix.ENOMEM) {
		return fmt.Errorf("%w: %w", ErrOutOfMemory, err)
	}
	return err
}

// Free gives the memory back; Bytes must no longer be used. It may be called again.
func (m *Memory) Free() error {
	mapping := m.mapping
	m.mapping, m.Bytes = nil, nil
	if mapping == nil {
		return nil
	}
	if err := unix.Munmap(mapping); err != nil {
		return fmt.Errorf("kernels: free %d bytes: %w", len(mapping), err)
	}
	return nil
}

// hugePages reads the AnonHugePages line of the mapping's entry in /proc/self/smaps (proc_pid_smaps(5)).
func (m *Memory) hugePages() (bytes int, known bool) {
	if m.mapping == nil {
		return 0, false
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return 0, false
	}
	defer smaps.Close()
	first := fmt.Sprintf("%x-", uintptr(unsafe.Pointer(unsafe.SliceData(m.Bytes))))
	ours := false
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, first) {
			ours = true
		}
		var kib int
		if n, _ := fmt.Sscanf(line, "AnonHugePages: %d kB", &kib); ours && n == 1 {
			return kib << 10, true
		}
	}
	return 0, false
}
