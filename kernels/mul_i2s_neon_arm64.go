//go:build !purego

package kernels

import (
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// i2sNEON multiplies with SMLAL and sums in int16 as long as that is exact.
//
// A tile of several tokens multiplies no faster, as SMLAL bounds them all; but it reads the weights once for all.
var i2sNEON = tileSet{
	layout: I2S, grid: i2sGrid,
	tiles: []registerTile{
		{Tile{4, 1}, i2sNEONTile4x1},
		{Tile{4, 2}, i2sNEONTile4x2},
		{Tile{4, 3}, i2sNEONTile4x3},
		{Tile{4, 4}, i2sNEONTile4x4},
	},
	one: oneI2SNEON,
}

func init() { register(i2sNEON.kernel("mul/i2s/neon", 1, probe.NEON)) }

// oneI2SNEON computes a whole group aside and keeps the rows that were asked for.
func oneI2SNEON(dst *int32, rows int, w *byte, wStride int, x *int8, sum int32, steps int) {
	var group [RowAlign]int32
	i2sNEONTile1x1(&group[0], 0, w, wStride, x, 0, &sum, steps, 0)
	copy(unsafe.Slice(dst, rows), group[:])
}

// The routines are assembly because Go has no SMLAL. They were never timed; see doc.go for estimates.

//go:noescape
func i2sNEONTile1x1(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sNEONTile4x1(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sNEONTile4x2(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sNEONTile4x3(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func i2sNEONTile4x4(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)
