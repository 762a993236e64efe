//go:build !purego

package kernels

import "github.com/bitnet-autotune/bitnet-autotune/probe"

//go:generate _asm/generate.sh tl2_avx2 mul_tl2_avx2_amd64.s

var tl2AVX2 = tl2Set{tables: tl2AVX2Tables, lookup: tl2AVX2Lookup, toI2S: tl2AVX2ToI2S, batch: &i2sAVX2}

func init() { register(tl2AVX2.kernel("mul/tl2/avx2", 1, probe.AVX2)) }

// The routines are assembly because Go has no VPSHUFB. BenchmarkMul, n=2560, k=2560, medians of 5, against generic:
//
//	m=1    64.8 ms -> 0.165 ms    m=32   539 ms -> 4.68 ms

//go:noescape
func tl2AVX2Tables(table *byte, x *int8, folds int, units int)

//go:noescape
func tl2AVX2Lookup(sums *int32, w *byte, table *byte, folds int, units int, prefetch int)

//go:noescape
func tl2AVX2ToI2S(out *byte, w *byte, folds int, units int, prefetch int)
