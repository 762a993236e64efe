// Package kerneltest proves that a kernel computes what its reference computes, bit for bit, and touches nothing else.
//
// # Basics
//
// Run is the whole suite; an external test of package kernels calls it for every registered kernel that the host can
// run. Fuzz compares on shapes and values that nobody thought of.
//
// # Caveats
//
// Guard pages and read-only inputs need mmap: elsewhere than on Unix those cases run on ordinary memory and can only
// notice wrong results. Assembly is invisible to the race detector; what stands for it is that nothing outside the
// rows asked for may change.
//
// # Decisions
//
// 2026-11-21: the reference runs once per matrix at the largest batch and its first tokens serve the smaller ones;
// the road not taken, a reference per case, spent nine tenths of the time in the reference.
package kerneltest
