// Package ptx reads, checks and runs PTX, the assembly language of NVIDIA's GPUs, without a GPU.
package ptx
