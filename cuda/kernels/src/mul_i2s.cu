// mul_i2s.cu multiplies weights of the layout i2s.
#include "dots.cuh"
#include "i2s.cuh"
#if __CUDA_ARCH__ >= 800
#include "blocks.cuh"
#include "fragments.cuh"
#endif
