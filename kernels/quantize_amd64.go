//go:build !purego

package kernels

import "github.com/bitnet-autotune/bitnet-autotune/probe"

//go:generate _asm/generate.sh quantize quantize_amd64.s

func init() {
	quantizers = append(quantizers, quantizer{probe.AVX2, 32, absMaxAVX2, roundAVX2})
}

// These are assembly because a decode step quantises before every matmul: the Go loop takes 10 µs for 2560 values, a
// quarter of the 2560 x 2560 matmul that follows; these take 0.16 µs (BenchmarkQuantize). An AVX-512 form took 0.11 µs,
// which nobody would notice, and was dropped.

//go:noescape
func absMaxAVX2(x *float32, n int) uint32

//go:noescape
func roundAVX2(out *int8, x *float32, n int, scale float32) int32
