//go:build !purego

package kernels

import "github.com/bitnet-autotune/bitnet-autotune/probe"

//go:generate _asm/generate.sh t5f_avx512vnni mul_t5f_avx512vnni_amd64.s

// t5fVNNI multiplies with VPDPBUSD, four codes and four activations per dword lane, sixteen rows per vector; additions
// bring each digit of a byte to the top in turn. At two tokens, the way of 4x1, which multiplies each byte twice, is as
// fast as that of the others, which takes the digit out once for all tokens.
var t5fVNNI = tileSet{
	layout: T5F, grid: t5Grid,
	tiles: []registerTile{
		{Tile{4, 1}, t5fVNNITile4x1},
		{Tile{4, 2}, t5fVNNITile4x2},
		{Tile{4, 3}, t5fVNNITile4x3},
		{Tile{4, 4}, t5fVNNITile4x4},
		{Tile{4, 5}, t5fVNNITile4x5},
		{Tile{2, 8}, t5fVNNITile2x8},
		{Tile{2, 12}, t5fVNNITile2x12},
	},
	one: t5fVNNIOne,
}

func init() {
	register(t5fVNNI.kernel("mul/t5f/avx512vnni", 1, probe.AVX512|probe.AVX512VNNI))
}

// The routines are assembly because Go has no VPDPBUSD. BenchmarkMul, n=2560, k=2560, medians of 3 on Cascade Lake, against
// generic:
//
//	m=1    22.6 ms -> 0.123 ms    m=32   705 ms -> 2.14 ms

//go:noescape
func t5fVNNIOne(dst *int32, rows int, w *byte, wStride int, x *int8, sum int32, steps int)

//go:noescape
func t5fVNNITile4x1(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func t5fVNNITile4x2(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func t5fVNNITile4x3(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func t5fVNNITile4x4(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func t5fVNNITile4x5(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func t5fVNNITile2x8(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func t5fVNNITile2x12(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)
