//go:build !(amd64 || arm64) || purego

package kernels

// pause is where the CPU would be told that the caller spins.
func pause() {}
