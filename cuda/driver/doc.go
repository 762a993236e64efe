/*
Package driver is the CUDA driver API: a table of C's functions, loaded at run time, and thin types over it.

# Basics

[Local] opens the driver of this machine, or says why there is no GPU to work with. [Open] does the same over any [Table],
which is how tests put a simulator in place of the library: the table is the only seam, everything above it is the same
code. A [Driver] lists its [Device]s, identified by UUID. A device makes the [Stream], [Event] and [Module] objects,
closes what is left open of them, and runs what has no method here:

	err := device.Do(func() error {
		return device.Check("cuMemCreate", table.MemCreate(&handle, bytes, &prop, 0))
	})

Every failed function is an [*Error] with the code, the driver's words, the device, a hint, and a kind for errors.Is. After an
error that CUDA calls sticky the device is lost: it refuses all work, other devices go on, and [Device.Reset] tries
to get it back.

Neither [Open] nor a question for facts makes a context, which costs some hundred MB of the device's memory. The first
[Device.Do] makes it, and so does everything that allocates, copies or launches.

# Caveats

Linux on amd64 and arm64; elsewhere [Load] says so. A binary with this package in it needs the dynamic loader of glibc, even if
built without cgo.

The CUDA context belongs to the OS thread. Functions of the table that need one are to be called within [Device.Do], in its own
goroutine.

A device that another process holds to its last byte fails where memory is asked for, not in [Open].

No GPU was at hand: the tests run against a simulator and against a library of their own, compiled from testdata/libcuda.c.
That the bound symbols have the versions and arguments of the real library was read in its documentation.

# Decisions

2026-11-21: own binding of some 70 functions by github.com/ebitengine/purego v0.11.3 (dlopen and calls without cgo, on
both architectures, well kept). The roads not taken: cgo, which would need a compiler and, for most bindings, NVIDIA's cuda.h to
build; and the purego bindings that exist, which are young and send every call through a goroutine that owns the thread.

2026-11-21: calls go through purego.SyscallN with generic functions by number of arguments. purego.RegisterLibFunc is less to
write, but takes 200 to 600 ns and 2 to 12 allocations a call against 67 to 118 ns and one.

2026-11-21: the thread is locked inline for each piece of work. A goroutine that owns the thread of a device costs a switch of
goroutines each way: 38.7 µs a call against 0.18 µs on 2 cores.

2026-11-21: a driver older than CUDA 11.8 is refused as a whole, since it takes none of the kernels (PTX 7.8). Newer PTX is
gated where it is loaded.

2026-11-21: an attribute that the driver does not know is absent from the map. With 0 in its place, a size or a limit would be
believed.

2026-11-21: kernel parameters travel in one packed buffer rather than as an array of pointers, which could not point to Go memory
without pinning each of them.
*/
package driver
