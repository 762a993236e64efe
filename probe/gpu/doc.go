/*
Package gpu finds the NVIDIA GPUs of this host and what they are, how much memory they have, and what holds them back now.

# Basics

[Local] asks NVML, the library of NVIDIA's driver for monitoring. That costs no memory on the GPU, unlike a question to CUDA.
A host without a GPU, without a driver or without permission is no error: the [Survey] is empty and its note says why.
A [Reader] answers how much memory is free and how much the devices are used, over and over, from a cache that is at most [Lifetime] old.

A [GPU] is what CUDA would call a device: a card, or each instance of a card that MIG splits. CUDA counts devices in another order and may
not see all of them, so the two are matched by UUID.

# Caveats

NVML needs cgo and Linux. Another build sees no GPUs here and says so; package cuda/driver may find them all the same.

A call of NVML that hangs cannot be stopped. It is left behind after the timeout, and its goroutine with it.

BandwidthBytes is the product of clock and width, what a data sheet gives, and more than any program reads.

A MIG instance has no utilisation, clocks or temperature of its own, and the card's are not shown in their place.

Nothing here ran on a GPU: the tests use go-nvml's mock of a server with 8 A100, with faults, and a library of their own.

# Decisions

2026-11-21: github.com/NVIDIA/go-nvml v0.13.0-1, NVIDIA's own binding, for its types, its versioned calls and its mock. The road
not taken is a dozen functions through purego, which would serve builds without cgo as well: two bindings of one library would
have to agree.

2026-11-21: the functions of NVML are defined in this package, as stubs that look for the driver's when called. go-nvml leaves
them undefined, so that a program needs lazy binding: linked with -z now, as Ubuntu's gcc does by default, it ends with
code 127 before main on every host without the driver, and everywhere when it calls what the driver lacks. #cgo LDFLAGS cannot
ask for -z lazy, which is not on Go's list of permitted flags; -extldflags in the Makefile would leave out go install and go test.
With the stubs a program starts however it was linked (tried with and without -z now, -race and PIE), and calls before Init or
of missing functions are errors. The stubs look a name up for every call, since Shutdown unloads the library.

2026-11-21: facts that the driver does not tell are listed by name. Zero alone could be an idle GPU or an unknown one.

2026-11-21: the cache of a Reader lives for 200 ms, and a question has 10 ms: R1.5 leaves the first open, and R4.50 asks for the second.

2026-11-21: github.com/google/uuid comes with the mock of go-nvml, for tests only.
*/
package gpu
