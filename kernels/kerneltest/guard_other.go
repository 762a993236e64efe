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
type arena struct {
	unchanged []func() bool // of every buffer
	inputs    int           // how many of them are inputs
}

func guarded[T comparable](a *arena, _ side, values []T) []T {
	buffer := slices.Clone(values)
	a.unchanged = append(a.unchanged, func() bool { return slices.Equal(buffer, values) })
	return buffer
}

func (a *arena) freeze(*testing.T) { a.inputs = len(a.unchanged) }

func (a *arena) free(t *testing.T) {
	for _, unchanged := range a.unchanged[:a.inputs] {
		if !unchanged() {
			t.Error("an input was changed")
		}
	}
}
