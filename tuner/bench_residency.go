package tuner

import (
	"fmt"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// Residency is where the weights of a row of a bench lie when they are needed again.
type Residency string

// The residencies that are measured, from the nearest to the farthest.
const (
	InL2   Residency = "l2"
	InL3   Residency = "l3"
	InDRAM Residency = "dram"
)

// Residencies are all of them.
func Residencies() []Residency { return []Residency{InL2, InL3, InDRAM} }

// How much larger than a cache a set of matrices that are used in turn must be to be found beyond it (coldFactor of
// package target says why 4), and which part of a cache it may fill: the L2 of a core has other guests, such as code and
// stacks, and the L3 has other cores and, on a shared machine, other tenants.
const (
	coldFactor = 4
	fillL2     = 0.75
	fillL3     = 0.5
)

// workingSet is how many matrices of a size a number of threads must use in turn for them to lie in r: the fewest that
// the caches before r cannot keep. It is 0 where r is unknown or cannot hold them, with the activations and the outputs
// that go with them. atLeast is the least bytes of a set in DRAM.
func workingSet(cpu probe.CPU, r Residency, threads int, matrix, inputs, outputs, atLeast uint64) int {
	floor, ceiling := atLeast, uint64(0)
	switch r {
	case InL2:
		floor, ceiling = coldFactor*uint64(threads)*uint64(cpu.L1d.Bytes), uint64(fillL2*float64(reach(cpu.L2, threads)))
		inputs *= uint64(threads) // each core has its own copy
	case InL3:
		floor, ceiling = coldFactor*uint64(threads)*uint64(cpu.L2.Bytes), uint64(fillL3*float64(reach(cpu.L3, threads)))
	case InDRAM:
		floor = max(floor, coldFactor*lastLevel(cpu))
	}
	count := max(1, (floor+matrix-1)/matrix)
	if r != InDRAM && count*matrix+inputs+outputs > ceiling {
		return 0
	}
	return int(count)
}

// reach is how much of a cache so many threads have for sure: those that may share an instance are taken to share it.
func reach(c probe.Cache, threads int) uint64 {
	return uint64(c.Bytes) * uint64(threads) / uint64(max(1, min(c.SharedBy, threads)))
}

// lastLevel is the size of the last level of caches, all instances together; 0 = unknown.
func lastLevel(cpu probe.CPU) uint64 {
	for _, cache := range []probe.Cache{cpu.L3, cpu.L2} {
		if cache.Bytes > 0 {
			return uint64(cache.Bytes) * uint64(max(1, cache.Instances))
		}
	}
	return 0
}

// residencyNotes are what a reader must know of this host's residencies.
func residencyNotes(h probe.Host, measured []Residency) (notes []string) {
	switch {
	case lastLevel(h.CPU) == 0:
		notes = append(notes, "this host does not tell the size of its caches: sets of weights are taken to be in dram for their size alone")
	case slices.Contains(measured, InL3) && h.Virtualization != "none":
		notes = append(notes, fmt.Sprintf("the L3 of %d MiB is that of the whole processor, which this virtual machine may share with others: what is labelled l3 may come from memory in part", h.CPU.L3.Bytes>>20))
	}
	return notes
}
