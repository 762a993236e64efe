// quantize.cu brings float32 tokens to int8, as kernels.Activations.Quantize does, bit for bit. For each token:
//
//	scale = 127 / max(1e-5, max_k |x[k]|)       over the finite values
//	out[k] = round to nearest, ties to even (x[k] * scale);  an infinity is 127 with its sign, a NaN 0
//	sum = Σ_k out[k];  out[k] = 0 from column K to stride
#include "device.cuh"

#define QUANTIZE_PARAMETERS i8 *out, int *sum, float *scale, const float *x, int k, int stride

// QUANTIZE is the kernel of one variant: its symbol and the threads of a block, which has a token for itself.
#define QUANTIZE(SYMBOL, THREADS, ...) \
	ENTRY(SYMBOL, THREADS, QUANTIZE_PARAMETERS) { __VA_ARGS__(out, sum, scale, x, k, stride); }

DEVICE u32 bitsOf(float v) { return __builtin_bit_cast(u32, v); }
DEVICE float floatOf(u32 bits) { return __builtin_bit_cast(float, bits); }

constexpr u32 magnitude = 0x7fffffff, infinity = 0x7f800000;

// read4 reads the values from column 4i on; there are zeros behind the last.
DEVICE void read4(float (&v)[4], const float *x, int i, int k) {
	if (k % 4 == 0) { // then every token is aligned as its first value is
		const f32x4 four = *(const f32x4 *)(x + 4 * i);
		for (int j = 0; j < 4; j++) {
			v[j] = four[j];
		}
		return;
	}
#pragma unroll
	for (int j = 0; j < 4; j++) {
		v[j] = 4 * i + j < k ? x[4 * i + j] : 0;
	}
}

DEVICE int rounded(float v, float scale) {
	const u32 size = bitsOf(v) & magnitude;
	if (size >= infinity) {
		return size > infinity ? 0 : v > 0 ? 127 : -127;
	}
	int r;
	asm("cvt.rni.s32.f32 %0, %1;" : "=r"(r) : "f"(v * scale));
	return r;
}

// largest and total are those of all threads of the block, in each of them.
template <int THREADS>
DEVICE u32 largest(u32 value) {
#pragma unroll
	for (int mask = 16; mask > 0; mask /= 2) {
		value = max(value, (u32)exchange(value, mask));
	}
	if (thread() % 32 == 0) {
		scratch[thread() / 32] = value;
	}
	barrier();
	for (int warp = 0; warp < THREADS / 32; warp++) {
		value = max(value, scratch[warp]);
	}
	barrier();
	return value;
}

template <int THREADS>
DEVICE int total(int value) {
#pragma unroll
	for (int mask = 16; mask > 0; mask /= 2) {
		value += exchange(value, mask);
	}
	if (thread() % 32 == 0) {
		scratch[thread() / 32] = value;
	}
	barrier();
	int sum = 0;
	for (int warp = 0; warp < THREADS / 32; warp++) {
		sum += scratch[warp];
	}
	return sum;
}

template <int THREADS>
DEVICE void token(i8 *out, int *sum, float *scale, const float *x, int k, int stride) {
	out += (u64)blockX() * stride;
	x += (u64)blockX() * k;
	const int used = (k + 3) / 4;
	u32 most = bitsOf(1e-5f); // positive floats are ordered as their bits are
	for (int i = thread(); i < used; i += THREADS) {
		float v[4];
		read4(v, x, i, k);
#pragma unroll
		for (int j = 0; j < 4; j++) {
			const u32 size = bitsOf(v[j]) & magnitude;
			most = max(most, size < infinity ? size : 0);
		}
	}
	const float factor = 127 / floatOf(largest<THREADS>(most));
	int mine = 0;
	for (int i = thread(); i < stride / 4; i += THREADS) {
		u32 four = 0;
		if (i < used) {
			float v[4];
			read4(v, x, i, k);
#pragma unroll
			for (int j = 0; j < 4; j++) {
				const int r = rounded(v[j], factor);
				mine += r;
				four |= (r & 255) << 8 * j;
			}
		}
		((u32 *)out)[i] = four;
	}
	mine = total<THREADS>(mine);
	if (thread() == 0) {
		sum[blockX()] = mine;
		scale[blockX()] = factor;
	}
}
