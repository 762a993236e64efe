// A tour of what clang makes of kernels: loops, divergence, shared, local and constant memory, structs, floats, shuffles.
// Regenerate by hand:
//	clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 --cuda-feature=+ptx78 -nocudainc -nocudalib -std=c++17 -O3 \
//		-fno-exceptions -fno-rtti -S -o tour.ptx tour.cu
#define GLOBAL __attribute__((global))
#define SHARED __attribute__((shared))

struct Settings {
	int less;
	short more;
	long bias;
	float scales[3];
};

extern "C" {

__attribute__((device, constant)) int factors[4] = {1, 2, 3, 4};
extern SHARED int sums[];

GLOBAL __attribute__((launch_bounds(128))) void tour(const int *__restrict__ x, int *y, float *z, int n, Settings s) {
	int t = __nvvm_read_ptx_sreg_tid_x(), block = __nvvm_read_ptx_sreg_ctaid_x();
	int acc = 0;
	for (int i = t; i < n; i += 128)
		acc += x[i] * factors[i & 3];
	sums[t] = acc;
	__nvvm_bar_sync(0);
	acc += sums[t ^ 33];
	if (acc > 500 && t % 3 == 0)
		acc = acc * 7 + s.more;
	else
		acc -= s.less;
	acc += __nvvm_shfl_sync_bfly_i32(-1, acc, 16, 31);
	int local[16];
	for (int i = 0; i < 16; i++)
		local[i] = x[i] ^ acc;
	acc += local[acc & 15];
	switch (acc & 7) {
	case 0: acc += 1; break;
	case 1: acc = acc / 3; break;
	case 2: acc = acc % 11; break;
	case 5: acc = -acc; break;
	case 6: acc = __builtin_popcount(acc); break;
	}
	y[block * 128 + t] = acc;
	z[block * 128 + t] = (float)acc / 127.0f * s.scales[t % 3] + (float)s.bias;
}

}
