//go:build !unix

package kerneltest

import (
	"slices"
	"testing"
)

type side int

const (
	guardAfter side = iota
	guardBefore
)

// arena stands for guarded mappings where there is no mmap: ordinary copies, whose inputs are compared afterwards.
type arena struct{ frozen []func() bool }

func guarded[T comparable](a *arena, _ side, values []T) []T {
	buffer := slices.Clone(values)
	a.frozen = append(a.frozen, func() bool { return slices.Equal(buffer, values) })
	return buffer
}

func (a *arena) freeze(*testing.T) {}

func (a *arena) free(t *testing.T) {
	for _, unchanged := range a.frozen[:len(a.frozen)-1] { // the last one is dst
		if !unchanged() {
			t.Error("an input was changed")
		}
	}
}
