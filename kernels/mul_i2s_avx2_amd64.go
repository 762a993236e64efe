//go:build !purego

package kernels

import (
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

//go:generate _asm/generate.sh i2s_avx2 mul_i2s_avx2_amd64.s

// i2sAVX2 multiplies with VPMADDUBSW and sums in int16 as long as that is exact.
//
// A tile of half a group times twelve tokens was tried as well: it masks less but loads every activation twice as
// often, and was no faster than 4x6.
var i2sAVX2 = tileSet{
	layout: I2S, grid: i2sGrid,
	tiles: []registerTile{
		{Tile{4, 1}, i2sAVX2Tile4x1},
		{Tile{4, 2}, i2sAVX2Tile4x2},
		{Tile{4, 3}, i2sAVX2Tile4x3},
		{Tile{4, 4}, i2sAVX2Tile4x4},
		{Tile{4, 5}, i2sAVX2Tile4x5},
		{Tile{4, 6}, i2sAVX2Tile4x6},
	},
	one: oneI2SAVX2,
}

func init() { register(i2sAVX2.kernel("mul/i2s/avx2", 1, probe.AVX2)) }

// oneI2SAVX2 computes a whole group aside and keeps the rows that were asked for.
func oneI2SAVX2(dst *int32, rows int, w *byte, wStride int, x *int8, sum int32, steps int) {
	var group [RowAlign]int32
	i2sAVX2Tile1x1(&group[0], 0, w, wStride, x, 0, &sum, steps, 0)
	copy(unsafe.Slice(dst, rows), group[:])
}

// The routines are assembly because Go has no VPMADDUBSW. BenchmarkMul, n=2560, k=2560, medians of 5, against generic:
//
//	m=1    7.25 ms -> 0.0499 ms    m=32   229 ms -> 1.18 ms

//go:noescape
func i2sAVX2Tile1x1(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sAVX2Tile4x1(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sAVX2Tile4x2(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sAVX2Tile4x3(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sAVX2Tile4x4(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sAVX2Tile4x5(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sAVX2Tile4x6(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)
