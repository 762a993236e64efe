// Package ptx reads, checks and runs PTX, the assembly language of NVIDIA's GPUs, on a machine without one.
//
// # Basics
//
// Parse does what the assembler inside a driver would: an opcode, modifier, type, register, symbol or label that does
// not exist or does not fit is an error that names line and text, and so is an instruction that .version or .target
// does not allow. Compilers do not look into inline assembly, so this is the only check that it gets before a GPU.
//
// Kernel.Launch runs a grid. Warps are real: 32 threads that share instructions, part at branches and meet again, and
// collectives (shfl, vote, redux, mma, ldmatrix, barriers) wait for exactly the threads that they name. A launch ends
// with a *Fault, which names line, block and thread, when a kernel
//
//   - leaves its memory, or reads it at an address that is not aligned
//   - reads a register, a predicate or shared memory that nobody wrote
//   - uses shared memory in two warps with no barrier between, or before a cp.async to it was waited for
//   - waits for threads that never come, or runs too long
//   - stores different values to one place of global memory from two blocks
//
// Global memory is whatever implements Memory; Heap is a simple one. Stats count instructions, sectors of memory and
// bank conflicts: the same in every run, so a test can hold a kernel to them.
//
// # Caveats
//
// Nothing here knows how fast a GPU is: Stats are counts, not times. Instructions are those of the PTX; the assembler of
// the driver makes others of them.
//
// What is approximate on a device (.approx, .full, ex2, lg2, sin, cos, tanh, rsqrt) is as exact as Go computes it, so it
// differs in the last bits. All else is meant to give a device's bits, but no device has been asked yet: the references
// are the PTX ISA, arithmetic in math/big and CUTLASS's layouts of fragments.
//
// Races are looked for between warps, in shared memory: threads of one warp that exchange values without
// bar.warp.sync are not caught, and what a lock of atomics protects is taken for a race. Local and global memory count
// as initialised. Memory is sequentially consistent here, so a missing fence is not noticed. Generic stores can change
// .const variables.
//
// Warps of a block run one after the other up to their next barrier. A kernel that waits for another block or warp by
// polling memory does not end. Blocks run on several goroutines: those that read in global memory what others store
// have a race on a device as well, and trip Go's race detector here.
//
// Not simulated, and errors when they are loaded: calls, textures, indirect branches, mbarrier, bulk copies, clusters,
// carries (add.cc), half-precision arithmetic, mma of other types than bytes, rounding of arithmetic other than to the
// nearest, clocks. The instructions of sm_90a and elect are checked, and a kernel with one refuses to run.
//
// # Decisions
//
// 2026-11-21: an instruction runs on all 32 threads before the next, on registers of 64 bits that lie side by side, a
// constant being a register that never changes. So each operation is a loop of one line, and a product of a matrix and a
// vector runs at 120 to 170 million thread-instructions a second (mul/i2s/noshift/kw4-rt1-m1-u2, one worker alone on a
// Cascade Lake of 2.5 GHz). The road not taken, a closure for each thread and instruction, gave 15 to 55 million in a
// prototype.
//
// 2026-11-21: threads that have parted run furthest behind first, and join where they meet. Post-dominators would find
// the same places for what compilers emit, at the price of an analysis; a program's result depends on neither.
//
// 2026-11-21: races are found by vector clocks for each byte, after FastTrack (Flanagan and Freund, PLDI 2009), not by
// running warps in several orders: one run tells, whatever order it had.
//
// 2026-11-21: the interpreter is our own. GPGPU-Sim has no dp4a and no mma of bytes, ZLUDA's parser needs a Rust
// toolchain, and neither checks versions.
package ptx
