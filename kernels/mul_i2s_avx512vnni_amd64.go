//go:build !purego

package kernels

import "github.com/bitnet-autotune/bitnet-autotune/probe"

//go:generate _asm/generate.sh i2s_avx512vnni mul_i2s_avx512vnni_amd64.s

// i2sVNNI multiplies with VPDPBUSD, four codes and four activations per dword lane, sixteen rows per vector.
//
// 2x8 and 2x12 are for CPUs on which masks and shifts share two ports with VPDPBUSD, so that they pay for each group and
// tokens do not. Of the peak, Cascade Lake, 2560 x 2560 weights from memory, medians of interleaved runs on a busy host:
//
//	        4x4   4x5   2x8   2x10  2x12
//	m=8     0.47  0.47  0.50
//	m=16    0.57  0.62  0.64  0.66  0.70
//	m=32    0.49  0.53  0.53  0.55  0.56
//	m=128   0.60  0.65  0.67  0.71  0.71
//
// On Zen 5 they, 1x8, 2x6 and 3x8 were nowhere more than 2 % faster than a tile of four groups. On Zen 4 all tiles are within
// 2 % of each other with weights from the L3, from six tokens on: experiments/2026-11-zen4.
var i2sVNNI = tileSet{
	layout: I2S, grid: i2sGrid,
	tiles: []registerTile{
		{Tile{4, 1}, i2sVNNITile4x1},
		{Tile{4, 2}, i2sVNNITile4x2},
		{Tile{4, 3}, i2sVNNITile4x3},
		{Tile{4, 4}, i2sVNNITile4x4},
		{Tile{4, 5}, i2sVNNITile4x5},
		{Tile{2, 8}, i2sVNNITile2x8},
		{Tile{2, 12}, i2sVNNITile2x12},
	},
	one: i2sVNNIOne,
}

func init() { register(i2sVNNI.kernel("mul/i2s/avx512vnni", 2, probe.AVX512|probe.AVX512VNNI)) }

// The routines are assembly because Go has no VPDPBUSD. BenchmarkMul, n=2560, k=2560, medians of 5, against generic:
//
//	m=1    7.25 ms -> 0.0167 ms    m=32   229 ms -> 0.444 ms

//go:noescape
func i2sVNNIOne(dst *int32, rows int, w *byte, wStride int, x *int8, sum int32, steps int)

//go:noescape
func i2sVNNITile4x1(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sVNNITile4x2(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sVNNITile4x3(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sVNNITile4x4(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sVNNITile4x5(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sVNNITile2x8(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sVNNITile2x12(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)
