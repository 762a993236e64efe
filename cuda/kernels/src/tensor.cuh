// tensor.cuh is what the kernels need of sm_80: tensor cores, and copies that do not wait.
#pragma once

#include "mul.cuh"

// mma is c += A B for 16 rows, 8 tokens and 32 columns. Lane 4g+t holds, in byte b of a word,
//
//	a0 = A[g][4t+b]  a1 = A[g+8][4t+b]  a2 = A[g][16+4t+b]  a3 = A[g+8][16+4t+b]
//	b0 = B[4t+b][g]  b1 = B[16+4t+b][g]
//	c0 = C[g][2t]    c1 = C[g][2t+1]    c2 = C[g+8][2t]     c3 = C[g+8][2t+1]
DEVICE void mma(int (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
	asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
	    : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
	    : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// multiply adds the products of a tile with eight tokens, of which the lane has the g-th. The columns of an mma are any
// 32 of the tile, in any order, as long as weights and activations agree: two dwords of each lane.
template <class Decoder>
DEVICE void multiply(int (&c)[4], const Part<Decoder> &part, const u32 *xs) {
	static_assert(Decoder::planes == 1);
#pragma unroll
	for (int d = 0; d < Decoder::dwords; d += 2) {
		mma(c, part.codes[0][d], part.codes[1][d], part.codes[0][d + 1], part.codes[1][d + 1], xs[d], xs[d + 1]);
	}
}

// sharedAddress is where the shared memory of the block begins, in its own window.
DEVICE u32 sharedAddress() {
	return (u32)(u64)(__attribute__((address_space(3))) u32 *)scratch;
}

DEVICE void sharedRead(u32 *to, u32 from) {
	asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}

// copyAsync copies 16 bytes from global to shared memory; waitCopies waits for them.
DEVICE void copyAsync(u32 to, const void *from) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// commitCopies makes a group of this thread's copies since the last one.
DEVICE void commitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// waitCopies waits until at most PENDING groups of this thread are under way.
template <int PENDING>
DEVICE void waitCopies() {
	asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
