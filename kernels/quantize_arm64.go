//go:build !purego

package kernels

import "github.com/bitnet-autotune/bitnet-autotune/probe"

func init() {
	quantizers = append(quantizers, quantizer{probe.NEON, 16, absMaxNEON, roundNEON})
}

// These are assembly because Go rounds one value at a time; 16 values are 20 instructions here. They were never timed.

//go:noescape
func absMaxNEON(x *float32, n int) uint32

//go:noescape
func roundNEON(out *int8, x *float32, n int, scale float32) int32
