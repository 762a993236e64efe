//go:build (amd64 || arm64) && !purego

package kernels

// pause tells the CPU that the caller spins, as the manuals of its makers ask of a spin loop: it saves power and leaves
// the core to its SMT sibling. Assembly because Go has no way to say PAUSE or YIELD. Without it a round trip of the pool
// takes the same time within noise on a machine without SMT (BenchmarkFanOut, 0.1-0.4 µs both); what it spares a
// sibling was not measured.
func pause()
