/*
Package kerneltest is the conformance test of the CUDA kernels: each equals the CPU's reference of its layout, bit for bit,
and touches nothing that is not its own.

# Basics

Run and Quantizers test on a Machine, which is whatever can execute a launch. Card is one for a device behind the driver's
table: a real one, or the simulated driver. The tests of cuda/kernels have another, the interpreter itself, which sees more:
every access outside of a buffer, races, values that nobody wrote.

# Caveats

A Card finds a write outside of a buffer only within the 256 bytes around it, and no read; compute-sanitizer does on a real
card.

# Decisions

2026-11-21: the suite runs where a Machine is, not in a command: go test tells which case failed, and make gpu runs it as
it is. The road not taken, a list of cases as data with a runner of its own, would be a second test framework.
*/
package kerneltest
