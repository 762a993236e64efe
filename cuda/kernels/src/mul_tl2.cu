// mul_tl2.cu multiplies weights of the layout tl2.
#include "dots.cuh"
#include "tl2.cuh"
#if __CUDA_ARCH__ >= 800
#include "fragments.cuh"
#endif
