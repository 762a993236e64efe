/*
Package memory gives out the memory of GPUs: it knows what a device has and what may be taken of it, keeps what is freed
for the next allocation, sizes the workspace of a matmul, and gives way when memory gets short.

# Basics

A [Manager] is for one device, a [Fleet] for several:

	m, err := memory.NewManager(d, 0, memory.Options{})
	defer m.Close() // says what was not freed
	weights, err := m.Alloc(memory.Request{Bytes: n, Name: "blk.0.ffn_down"})
	space, err := m.Scratch(memory.Demand{InputFeatures: 6912, OutputFeatures: 2560, Quantization: memory.I2S})
	err = space.Use(func(p driver.Ptr, w memory.Workspace) error { ... }) // w.Batch samples at a time
	go m.Watch(ctx, 200*time.Millisecond)

Whoever only wants to know how large a workspace would be asks [Constants.Workspace], which needs no device.

Sizes fall into three classes. The small pool cuts blocks from segments of 8 MiB; the medium pool from physical pages of
2 MiB that are mapped where they are needed, or from segments of 32 MiB where the device has no virtual memory functions;
the large pool keeps whole allocations, and uses one again where it fits to a twentieth. Sizes on a border belong to the
smaller class. What no pool has room for is allocated directly.

Two limits hold for what is taken from the driver: the budget, which is the total without what is reserved for driver,
context and others ([Constants.Usable]), and what is available at the moment, which is what is free without a tenth of
the total ([Constants.Available]). If an allocation fails, the manager waits for the device, gives back what is free, and
tries once more; then it is an [OutOfMemoryError] with the state of the memory.

The levels of pressure, by the share of the device that all processes have taken:

	trim    80 %  idle segments and cached large blocks are given back
	shrink  90 %  everything free is given back, workspaces shrink
	refuse  95 %  nothing more is taken from the driver

A level ends five points below its threshold. A workspace that shrank grows again after five calm seconds, to twice its
batch at most, and never beyond the batch that it began with.

The figures of [Stats] are

	efficiency     allocated / taken from the driver, when most was allocated
	idle           free / held by pools; 1 after everything was freed, which is what pools are for
	waste          of blocks in use, what nobody asked for
	fragmentation  free but not to be given back (parts of pages and segments) / held by pools
	hit rate       allocations of pools without a call of the driver / all of pools

Fragmentation is not 1 - largest free block / free: that reads 75 to 92 % on a pool from which everything free can be
given back at once.

# Caveats

No figure here was measured on a GPU. Counts and shares are of a simulated device, and so is its time.

Free gives memory to the next allocation at once, so the device must have finished with it. FreeAfter takes an event
instead. It is asked for when a pool has nothing else that fits, and when many wait.

A manager asks what is available with each growth of a pool, not with each allocation, and for 200 ms believes what it
was told, unless it allocated meanwhile. What a neighbour takes within that time shows as a failure of the driver, which
is retried like any other.

A query that hangs is given up after 2 s, during which other callers of the manager wait. From then on what is known is
an estimate and called stale, and allocations go by it.

Workspaces by quantization type assume that weights are dequantised first, which no kernel here does: state a kernel's own
need (Demand.Stated) wherever it is known.

Nothing of this package may be called by a thread that records a graph, except Alloc and Free that a pool can serve, and
those only while at most 64 allocations wait for events: the driver neither allocates nor tells of events then.
Allocate before.

# Decisions

2026-11-21: pools of our own over the driver's, rather than cuMemAllocAsync. That has no statistics but two sums, needs a
driver of CUDA 11.2, gives memory back at each synchronisation unless told otherwise, and cannot be tested without a GPU.

2026-11-21: 2 MiB pages for the medium pool. In 200,000 operations with sizes log-uniform from 1 KB to 100 MB and 8 GiB
live on a simulated device of 24 GiB, their fragmentation is 3.8 % at worst and 95.4 % of what is taken is in use at the
peak, with 80,643 calls of the driver; segments of 32 MiB need 163 calls, but waste a quarter (24.3 %, 74.9 %), and direct
allocation needs 201,024. TestChurn prints the table.

2026-11-21: the medium pool takes new pages until 4.5 % more is taken than was ever allocated, and moves free pages
together after that. A limit on what is idle now, rather than at the peak, moved pages again and again while little was in
use. Pages are taken from the smallest free blocks first, and mapped where the fewest are missing: either halves the calls.

2026-11-21: blocks are found by lists of size classes with bit maps (two-level segregated fit), not by a tree: as fast
whatever there is, and no allocation of Go's.

2026-11-21: blocks of a pool are taken on first use, not when the manager is made: four large ones alone would take
400 MiB of a card of 2 GiB. The initial blocks of the requirements are their descriptions, made in advance.

2026-11-21: sizes below 1 KiB, from which the small pool begins, take a block of 1 KiB of it: a call of the driver each
would cost more than 768 bytes do.

2026-11-21: both reserves of the requirements hold, the tenth of the total as the moment's limit and the sum of driver,
context and tenth as the budget. An allocation that pools serve takes nothing, so only the budget is asked.

2026-11-21: the share of what pools hold idle is not fragmentation. It is reported by itself, and the 30 % from which on
memory in use is logged as a warning is meant of what is stuck or wasted.

2026-11-21: the least workspace is 1 MiB, the largest 4 GiB and the largest batch 512: a sample of the widest matmul of
the presets, the 128256 x 4096 head of an 8B model with the largest batch, and the limit of the largest class. A workspace
that is wanted smaller than the least one is made that large, rather than refused.

2026-11-21: a workspace that a cap cuts gets the batch that fits into what is left, so that the two always agree. When it
shrinks, what it has itself counts as free: it is given back first.

2026-11-21: a balancer splits work by a moving average of what each device took, with a weight of a quarter, not by
capability or bandwidth: those are what a card could do.

2026-11-21: queries are a function that can be replaced, by the driver's own as default: whoever has NVML gives its reader,
which needs no context, and everything here still sees one record.
*/
package memory
