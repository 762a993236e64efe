//go:build !purego

package kernels

import (
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// i2sDotProd multiplies with SDOT, four codes and four activations per dword lane, four rows per vector.
var i2sDotProd = tileSet{
	layout: I2S, grid: i2sGrid,
	tiles: []registerTile{
		{Tile{4, 1}, i2sDotProdTile4x1},
		{Tile{4, 2}, i2sDotProdTile4x2},
		{Tile{4, 3}, i2sDotProdTile4x3},
		{Tile{4, 4}, i2sDotProdTile4x4},
		{Tile{4, 5}, i2sDotProdTile4x5},
		{Tile{4, 6}, i2sDotProdTile4x6},
		{Tile{4, 7}, i2sDotProdTile4x7},
		{Tile{4, 8}, i2sDotProdTile4x8},
	},
	one: oneI2SDotProd,
}

func init() { register(i2sDotProd.kernel("mul/i2s/dotprod", 1, probe.NEON|probe.DotProd)) }

// oneI2SDotProd computes a whole group aside and keeps the rows that were asked for.
func oneI2SDotProd(dst *int32, rows int, w *byte, wStride int, x *int8, sum int32, steps int) {
	var group [RowAlign]int32
	i2sDotProdTile1x1(&group[0], 0, w, wStride, x, 0, &sum, steps, 0)
	copy(unsafe.Slice(dst, rows), group[:])
}

// The routines are assembly because Go has no SDOT. They were never timed; see doc.go for estimates.

//go:noescape
func i2sDotProdTile1x1(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sDotProdTile4x1(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sDotProdTile4x2(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sDotProdTile4x3(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sDotProdTile4x4(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sDotProdTile4x5(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sDotProdTile4x6(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sDotProdTile4x7(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sDotProdTile4x8(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)
