//go:build !purego

package kernels

import "github.com/bitnet-autotune/bitnet-autotune/probe"

//go:generate _asm/generate.sh i2s_avx512vnni mul_i2s_avx512vnni_amd64.s

// i2sVNNI multiplies with VPDPBUSD, four codes and four activations per dword lane, sixteen rows per vector.
//
// Of the tiles that were tried, 1x8, 2x6, 2x8, 2x12 and 3x8 were nowhere more than 2 % faster than one of these.
var i2sVNNI = tileSet{
	layout: I2S, grid: i2sGrid,
	tiles: []registerTile{
		{Tile{4, 1}, i2sVNNITile4x1},
		{Tile{4, 2}, i2sVNNITile4x2},
		{Tile{4, 3}, i2sVNNITile4x3},
		{Tile{4, 4}, i2sVNNITile4x4},
		{Tile{4, 5}, i2sVNNITile4x5},
	},
	one: i2sVNNIOne,
}

func init() { register(i2sVNNI.kernel("mul/i2s/avx512vnni", 1, probe.AVX512|probe.AVX512VNNI)) }

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
