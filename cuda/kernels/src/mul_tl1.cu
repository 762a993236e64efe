// mul_tl1.cu multiplies weights of the layout tl1.
#include "dots.cuh"
#include "tl1.cuh"
#if __CUDA_ARCH__ >= 800
#include "blocks.cuh"
#include "fragments.cuh"
#endif
