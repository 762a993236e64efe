package kernels_test

import (
	"testing"

	"golang.org/x/sys/unix"
)

// hugePages returns memory for benchmarks that the kernel is asked to back with huge pages.
func hugePages(tb testing.TB, size int) []byte {
	tb.Helper()
	data, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { unix.Munmap(data) })
	if err := unix.Madvise(data, unix.MADV_HUGEPAGE); err != nil {
		tb.Logf("no huge pages: %v", err)
	}
	return data
}
