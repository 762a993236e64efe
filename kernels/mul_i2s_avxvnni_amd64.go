//go:build !purego

package kernels

import (
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

//go:generate _asm/generate.sh i2s_avxvnni mul_i2s_avxvnni_amd64.s

// i2sAVXVNNI multiplies with the VPDPBUSD of client CPUs that have no AVX-512: four codes and four activations per dword
// lane, eight rows per vector.
//
// 4x6 is hardly denser than 4x5, but six tokens would otherwise be two tiles of three, at nine tenths of it.
var i2sAVXVNNI = tileSet{
	layout: I2S, grid: i2sGrid,
	tiles: []registerTile{
		{Tile{4, 1}, i2sAVXVNNITile4x1},
		{Tile{4, 2}, i2sAVXVNNITile4x2},
		{Tile{4, 3}, i2sAVXVNNITile4x3},
		{Tile{4, 4}, i2sAVXVNNITile4x4},
		{Tile{4, 5}, i2sAVXVNNITile4x5},
		{Tile{4, 6}, i2sAVXVNNITile4x6},
	},
	one: oneI2SAVXVNNI,
}

func init() { register(i2sAVXVNNI.kernel("mul/i2s/avxvnni", 1, probe.AVX2|probe.AVXVNNI)) }

// oneI2SAVXVNNI computes a whole group aside and keeps the rows that were asked for.
func oneI2SAVXVNNI(dst *int32, rows int, w *byte, wStride int, x *int8, sum int32, steps int) {
	var group [RowAlign]int32
	i2sAVXVNNITile1x1(&group[0], 0, w, wStride, x, 0, &sum, steps, 0)
	copy(unsafe.Slice(dst, rows), group[:])
}

// The routines are assembly because Go has no VPDPBUSD. No CPU with AVX-VNNI was at hand: llvm-mca 19 expects, in
// multiply-adds per cycle of the inner loop against mul/i2s/avx2 (one is 32 codes; two are the peak),
//
//	tile        4x1            4x3            4x6
//	alderlake   0.92 -> 1.32   1.08 -> 1.52   1.17 -> 1.68
//	znver4      1.10 -> 1.58   1.23 -> 1.91   1.22 -> 1.99

//go:noescape
func i2sAVXVNNITile1x1(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sAVXVNNITile4x1(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sAVXVNNITile4x2(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sAVXVNNITile4x3(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sAVXVNNITile4x4(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sAVXVNNITile4x5(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sAVXVNNITile4x6(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)
