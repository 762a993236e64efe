//go:build unix

package kerneltest

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// side says at which end of a buffer the unmapped page is.
type side int

const (
	guardAfter side = iota
	guardBefore
)

// arena is a number of mappings, each a buffer between two pages that may not be touched.
type arena struct{ mappings [][]byte }

// guarded copies values to a mapping of their own, tight against the guard page of one side.
func guarded[T any](a *arena, where side, values []T) []T {
	page := unix.Getpagesize()
	bytes := len(values) * int(unsafe.Sizeof(*new(T)))
	body := (bytes + page - 1) / page * page
	mapping, err := unix.Mmap(-1, 0, body+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic("kerneltest: mmap: " + err.Error())
	}
	a.mappings = append(a.mappings, mapping)
	protect(mapping[:page], unix.PROT_NONE)
	protect(mapping[page+body:], unix.PROT_NONE)
	start := page
	if where == guardAfter {
		start += body - bytes
	}
	buffer := unsafe.Slice((*T)(unsafe.Pointer(&mapping[start])), len(values))
	copy(buffer, values)
	return buffer
}

func protect(pages []byte, mode int) {
	if err := unix.Mprotect(pages, mode); err != nil {
		panic("kerneltest: mprotect: " + err.Error())
	}
}

// freeze makes every buffer so far read-only.
func (a *arena) freeze(*testing.T) {
	page := unix.Getpagesize()
	for _, m := range a.mappings {
		protect(m[page:len(m)-page], unix.PROT_READ)
	}
}

func (a *arena) free(t *testing.T) {
	for _, m := range a.mappings {
		if err := unix.Munmap(m); err != nil {
			t.Error(err)
		}
	}
	a.mappings = nil
}
