// Package kernels is the table of CUDA kernels that multiply ternary weights by int8 activations, exactly, and of those
// that make the activations.
//
// # Basics
//
// Pack, or Convert from a matrix of package kernels of the CPU, brings weights into the tiles of the device; a Quantizer
// brings float32 tokens to int8; a Kernel multiplies them to int32:
//
//	dst[m*N+n] = Σ_k w[n][k] * x[m][k]
//
// All lists every kernel, Usable those that a card of some compute capability can run, ByName one of them. A Loader
// compiles them for one device, each when it is first asked for, and remembers them. Every kernel takes every M, N and K,
// and returns the int32 of the CPU's mul/<layout>/generic, which kerneltest proves on whatever can run PTX: the
// interpreter of package ptx, the simulated driver, a card.
//
// The columns of a matrix can be shared among Split blocks, which add up their parts in global memory. Sums of integers
// do not depend on their order, so neither does the result; dst is cleared before, on the same stream.
//
// The CUDA sources are in src, a file to a layout: what varies is a template there, and the table of Go says with which
// parameters it is compiled. make ptx does that with clang-19, which needs no CUDA toolkit; the results are committed in
// ptx and embedded. A manifest beside them holds the hash of what they were made from.
//
// # Caveats
//
// Nothing here has met a card. Every kernel is exact in the interpreter, which executes the committed PTX and finds reads
// outside of buffers, races and missing barriers; but no ptxas has assembled it, registers and spills are not known, and
// nothing is said about speed. make gpu runs the same list on a card.
//
// Weights take 16 bytes a lane, so rows are padded to 16 and columns to 128 (TL2: 192 and a rest of 128): a matrix of few
// columns takes more than its bits per weight.
//
// A Loader and what it returns serve one goroutine at a time; the table and weights serve any number.
//
// # Decisions
//
// 2026-11-21: one layout of weights serves dp4a and the tensor cores. The two bits that a lane of I2S cuts out of a word
// are a register of mma.m16n8k32 as they are: no weight goes through shared memory, and decode, small batch and prefill
// share one copy. The road not taken, a layout for each, costs a second copy of the model or a repack at every change.
//
// 2026-11-21: PTX, made by clang without a toolkit, and committed: the binary runs where there is a driver and needs
// nothing else. .version is 7.8, which drivers of CUDA 11.8 and later take. Two targets: sm_61 is dp4a alone, sm_80 adds
// tensor cores and asynchronous copies. The roads not taken: NVRTC, a library that a driver does not bring; cubins, which
// no card but one family takes.
//
// 2026-11-21: no wgmma. It wants sm_90a, which no newer card takes, and its fragments and descriptors were not to be
// trusted without a card to try them on. The layout allows for it: a fragment of A for wgmma is that of four warps.
//
// 2026-11-21: the variants are listed in Go and compiled from there, so that a kernel is in no second list; a template
// that nobody instantiates is no kernel. A Loader gives the driver the text of one kernel, not of all: compiling takes
// the driver longer than loading, and a search touches a few.
//
// 2026-11-21: split columns are added with red.global.add into a cleared dst. The road not taken, a workspace for each part
// and a second kernel, takes Split * M * N * 4 bytes and a launch.
//
// 2026-11-21: the methods differ in what they execute. Thread-instructions for four weights, one token, 64 x 6912, four warps
// to a row, counted in the interpreter (TestInstructionsPerFourWeights):
//
//	i2s noshift, one tile of rows   2.93    2.75 with four tiles read ahead, 2.50 with four tiles of rows
//	i2s mma                         2.96    for up to eight tokens
//	i2s shift                       3.64    3.31 with two tiles of rows
//	tl1 decode                      4.64
//	tl2 decode                      7.41    with 1.67 bits a weight instead of 2
//
// By these, i2s is best wherever memory is fast, and tl2 a question only where it is slow. All stay for the tuner to try.
//
// 2026-11-21: kernels for many tokens multiply 128 columns a step, and have none for tl2, whose tiles have 192: its tensor
// core kernels for few tokens take any number, eight or sixteen at a time.
package kernels
