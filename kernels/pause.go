//go:build (amd64 || arm64) && !purego

package kernels

// pause tells the CPU that the caller spins: it saves power, leaves the core to its SMT sibling, and avoids the
// pipeline flush when the awaited line changes. Assembly because Go has no way to say PAUSE; without it a round trip
// of the pool is about as fast on an idle machine, but a spinning sibling slows the working one.
//
//go:noescape
func pause()
