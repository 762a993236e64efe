/*
Package sim is a machine with GPUs in Go, for tests: the CUDA driver's table of functions over simulated devices.

# Basics

	machine, err := sim.New(sim.Config{Devices: []sim.DeviceSpec{{TotalBytes: 24 << 30, Capability: [2]int32{8, 6}}}})
	defer machine.Close()
	d, err := driver.Open(machine.Table())

All above the table is the real code: contexts, streams, modules, launches, graphs, memory. Below it

  - memory is accounted in full and backed where it is touched, so a device of 141 GB costs nothing until it is used. No
    address is given twice, regions lie apart, and fresh ones up to 16 MiB are filled with a pattern;
  - contexts belong to OS threads: on a thread without one, functions return 201;
  - modules are the real PTX, which package ptx checks and runs. What a kernel does wrong loses its device with the
    driver's result (700, 715, 716, 719), and [Machine.Trouble] says line and thread;
  - time is virtual. The host's clock moves with each call and with what it waits for; streams and the three engines of a
    device are busy beside each other. Kernels take [Launched.Roofline], or what Config.KernelTime says;
  - failures are planned: "MemAlloc:3=2,MemGetInfo:1+=999,MemAlloc@1:2=700"; see [Machine.Fault];
  - every call is counted, and [Machine.Leaks] names what was not given back.

# Caveats

No figure of time is that of any GPU. The costs of calls are of documents and reports, to an order of magnitude.

What is submitted to a stream is done at once, so a missing wait between streams, or before the host reads, is not found.
A copy from ordinary host memory is the exception: it arrives only when something waits for the default stream.

A recorded graph is a sequence of kernels, copies and fills of one stream. Events in it are refused with 900.

Registers are made up: PTX does not say how many a kernel needs. Cubins cannot be loaded.

One lock guards the machine: calls of several threads are safe, and run one after the other.

Linux only, like package probe.

# Decisions

2026-11-21: the seam is the table of the driver's functions, not an interface of ours above it: everything that could be
wrong about contexts, handles and order is tested as it ships. The road not taken, a fake of the driver package, would test
itself.

2026-11-21: time is kept by one clock of the host and the ends of queues, not by a queue of events: calls happen in the
order in which tests make them, so nothing has to be scheduled.

2026-11-21: the memory of a region is an anonymous mapping without reservation, made on first touch, rather than a map of
pages: the interpreter gets one slice for a region, and the kernel of the host keeps what is not touched away.
*/
package sim
