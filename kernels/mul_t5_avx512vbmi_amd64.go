//go:build !purego

package kernels

import "github.com/bitnet-autotune/bitnet-autotune/probe"

//go:generate _asm/generate.sh t5_avx512vbmi mul_t5_avx512vbmi_amd64.s

// t5VBMI takes the weights of a byte apart with VPERMB and multiplies with VPDPBUSD, four codes and four activations
// per dword lane, sixteen rows per vector.
//
// 2x8 is for CPUs on which lookups and VPDPBUSD share two ports, and each lookup counts. There llvm-mca (icelake-server)
// sees 0.72 of the peak in 4x5, 0.78 in 3x7, 0.80 in 2x8 and in 2x12, 0.83 in 2x10, which divides no usual batch.
var t5VBMI = tileSet{
	layout: T5, grid: t5Grid,
	tiles: []registerTile{
		{Tile{4, 1}, t5VBMITile4x1},
		{Tile{4, 2}, t5VBMITile4x2},
		{Tile{4, 3}, t5VBMITile4x3},
		{Tile{4, 4}, t5VBMITile4x4},
		{Tile{4, 5}, t5VBMITile4x5},
		{Tile{2, 8}, t5VBMITile2x8},
	},
	one: t5VBMIOne,
}

func init() {
	register(t5VBMI.kernel("mul/t5/avx512vbmi", 2, probe.AVX512|probe.AVX512VNNI|probe.AVX512VBMI))
}

// t5Tables are what the routines look the codes of the five weights up in: those of 0, 1 and 2 by the low six bits of
// a byte, those of 3 and 4 by the high six. Where both top bits are set, weight 2 is looked up for 0xc0 instead, as it is
// code 0 in all of those.
//
//lint:ignore U1000 only the assembly reads it
var t5Tables = func() (tables [t5Weights][64]uint8) {
	for i := range 64 {
		low, high := codesT5(byte(i)), codesT5(byte(i<<2))
		tables[0][i], tables[1][i], tables[2][i] = low[0], low[1], low[2]
		tables[3][i], tables[4][i] = high[3], high[4]
	}
	return tables
}()

// The routines are assembly because Go has neither VPERMB nor VPDPBUSD. BenchmarkMul, n=2560, k=2560, medians of 3 and 16 on a
// busy Zen 4, against generic:
//
//	m=1    28 ms -> 0.048 ms    m=32   703 ms -> 0.963 ms

//go:noescape
func t5VBMIOne(dst *int32, rows int, w *byte, wStride int, x *int8, sum int32, steps int)

//go:noescape
func t5VBMITile4x1(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func t5VBMITile4x2(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func t5VBMITile4x3(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func t5VBMITile4x4(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func t5VBMITile4x5(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)

//go:noescape
func t5VBMITile2x8(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)
