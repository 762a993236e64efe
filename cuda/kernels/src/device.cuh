// device.cuh is what the kernels need of CUDA, for clang without a toolkit: attributes, special registers, and the
// instructions that C++ has no words for. clang does not look inside asm; package ptx and the simulator do.
#pragma once

using u8 = unsigned char;
using i8 = signed char;
using u32 = unsigned int;
using u64 = unsigned long long;
typedef u32 u32x4 __attribute__((vector_size(16)));
typedef float f32x4 __attribute__((vector_size(16)));

#define DEVICE static inline __attribute__((device, always_inline))
#define MEMBER __attribute__((device, always_inline)) static inline

// ENTRY is the kernel of one variant: THREADS are those of a block, and what follows is its body.
#define ENTRY(SYMBOL, THREADS, ...) \
	extern "C" __attribute__((global, launch_bounds(THREADS))) void SYMBOL(__VA_ARGS__)

// scratch is all shared memory of a block; its size comes with the launch.
extern __attribute__((device, shared, aligned(16))) u32 scratch[];

DEVICE u32 thread() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE u32 blockX() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u32 blockY() { return __nvvm_read_ptx_sreg_ctaid_y(); }
DEVICE u32 blockZ() { return __nvvm_read_ptx_sreg_ctaid_z(); }
DEVICE u32 blocksZ() { return __nvvm_read_ptx_sreg_nctaid_z(); }
DEVICE void barrier() { __nvvm_bar_sync(0); }

// exchange is the value of the lane whose number differs in the bits of mask.
DEVICE int exchange(int value, int mask) { return __nvvm_shfl_sync_bfly_i32(0xffffffff, value, mask, 31); }

// dot4 is sum + Σ a[i] * b[i] over four bytes: a unsigned, b signed.
DEVICE int dot4(u32 a, u32 b, int sum) {
	int d;
	asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(sum));
	return d;
}

// Address is a place in global memory. It is a number, as clang would bring a pointer from one address space to another
// in every step of a loop.
using Address = u64;

// Reads of what nobody writes, at an offset that must be a constant after inlining. Weights pass by the L1, as no other
// block reads them; activations stay there for the other warps.
#if __CUDA_ARCH__ >= 800
#define STREAMED "ld.global.nc.L1::no_allocate"
#else
#define STREAMED "ld.global.nc"
#endif

DEVICE u32x4 streamed(Address p, int offset) {
	u32 a, b, c, d;
	asm(STREAMED ".v4.u32 {%0, %1, %2, %3}, [%4+%5];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(p), "i"(offset));
	return u32x4{a, b, c, d};
}

DEVICE u32 streamedWord(Address p, int offset) {
	u32 a;
	asm(STREAMED ".u32 %0, [%1+%2];" : "=r"(a) : "l"(p), "i"(offset));
	return a;
}

DEVICE u32x4 cached(Address p, int offset) {
	u32 a, b, c, d;
	asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4+%5];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(p), "i"(offset));
	return u32x4{a, b, c, d};
}

// addTo adds to an integer in global memory. Integers: the order does not matter.
DEVICE void addTo(int *p, int value) { asm volatile("red.global.add.s32 [%0], %1;" ::"l"(p), "r"(value) : "memory"); }

DEVICE int min(int a, int b) { return a < b ? a : b; }
DEVICE u32 max(u32 a, u32 b) { return a > b ? a : b; }
