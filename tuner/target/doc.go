// Package target holds what can be measured: things that make one setting of the ternary matmuls ready, prove that its
// results are right, and run it.
//
// # Basics
//
// A [Target] turns an [Arm] (kernel, threads, batch, blocking) into a measure.Subject. [CPU] is the live processor:
//
//	c, err := target.NewCPU(ctx, host, model, target.CPUOptions{Layout: kernels.I2S})
//	defer c.Close()
//	s, err := c.Prepare(ctx, target.Decode, arm) // verified
//	elapsed, err := s.Run(ctx, 10)               // the matmuls of the next ten layers
//
// It holds random ternary weights for every layer, each matmul its own, in order of use: a decode pass finds its
// weights as cold, or as warm, as a real one does. The time is that of the matmuls with their barriers. Quantising the
// activations is left out (under 1 % of a matmul of 2560 x 2560 at batch 1, and no arm changes it), as are attention,
// norms and the output head.
//
// Every arm is verified before it is timed, and after every run again: see the type reference for how this takes
// milliseconds at any batch.
//
// [CUDA] is a GPU behind the driver. It holds the weights of two passes through the model, or of as much of that as the memory
// manager's budget allows, each matrix in a place of its own; verifies every distinct shape of an arm with poisoned
// outputs, and the outputs of one matmul again after every run; and times graphs of launches.
//
// [Bank] is for tables of kernels: distinct matrices of one shape, which any kernel of their layout may multiply in turn,
// beside the loops that are their limits.
//
// # Caveats
//
// Fewer layers than the model has are held where memory is short: [CPU.Note]. A model that fits into the last-level
// cache is measured there, as it would run: [CPU.Residency].
//
// A context is looked at between two matmuls. One matmul by the generic kernel at a large batch takes seconds.
//
// Nothing here ran on a GPU yet: package sim executed it. The bytes and results are those of the real kernels, the times are
// not those of any card.
//
// A run is checked in one matmul of the last layer that it went through; the first check of a layer takes a few tens of
// milliseconds, outside the time that is reported.
//
// # Decisions
//
// 2026-11-21. Weights are random, not the model's own: the time of a ternary matmul does not depend on their values as
// long as they are not all alike, and a preset has no file.
//
// 2026-11-21. Results are checked by Freivalds' method for all outputs and by value for some rows, instead of a full
// reference product: at batch 512 that would take half a minute for one arm of a 2B model.
//
// 2026-11-21. An iteration is one layer, the next one whatever arm ran before, and not the whole model: a pass with eight
// tokens took 0.6 s on a slow host, where a duel then had time for four blocks. With a place of its own for each arm, the
// second of a pair would find in the cache the layer that the first has just read.
//
// 2026-11-21. A run of a CUDA arm is n graphs through half of the layers held and n through all, and its time the
// difference: what launching a graph costs cancels, where a fixed overhead, measured once and taken off, would be wrong for
// one arm and right for another. Another half-size graph goes first, so that the clock starts while the device is at work.
// It costs three times what is measured; samples of 2 ms make up for it. Both graphs begin with the first layer, so that
// between two reads of a weight at least half of what is held is read: with two passes held, as much as in a real one.
//
// 2026-11-21. On a GPU the matrices of one shape are copies of one random matrix. Caches go by address, and a copy on the
// device takes milliseconds where packing two billion weights takes the host a minute of the budget.
//
// 2026-11-21. A device that a kernel lost is reset twice, and what was prepared before is made anew when it runs next; the
// third time it is given up. The road not taken, to end at the first, would let one bad variant end a search.
//
// 2026-11-21. A pool of threads per thread count, all but one parked, instead of one pool that lets workers sit out: it
// keeps the pool's protocol as simple as it is, and a search tries few thread counts.
package target
