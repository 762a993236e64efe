//go:build !purego

package kernels

import "github.com/bitnet-autotune/bitnet-autotune/probe"

//go:generate _asm/generate.sh tl2_avx512vnni mul_tl2_avx512vnni_amd64.s

// tl2VNNI looks up 64 rows at once. Tables and unpacking are those of AVX2: tables are 2 % of a 2560 x 2560
// product of one token.
var tl2VNNI = tl2Set{tables: tl2AVX2Tables, lookup: tl2VNNILookup, toI2S: tl2AVX2ToI2S, batch: &i2sVNNI}

func init() {
	register(tl2VNNI.kernel("mul/tl2/avx512vnni", 1, probe.AVX2|probe.AVX512|probe.AVX512VNNI))
}

// The routine is assembly because Go has no VPSHUFB. BenchmarkMul, n=2560, k=2560, medians of 5, against generic:
//
//	m=1    64.8 ms -> 0.0996 ms    m=32   539 ms -> 1.98 ms

//go:noescape
func tl2VNNILookup(sums *int32, w *byte, table *byte, folds int, units int, prefetch int)
