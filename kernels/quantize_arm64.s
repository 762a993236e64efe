//go:build !purego

#include "textflag.h"

// func absMaxNEON(x *float32, n int) uint32
// Without its sign, a float32 is ordered as its bits are.
TEXT ·absMaxNEON(SB), NOSPLIT|NOFRAME, $0-20
	MOVD    x+0(FP), R0
	MOVD    n+8(FP), R1
	VEOR    V4.B16, V4.B16, V4.B16
	VEOR    V5.B16, V5.B16, V5.B16
max:
	VLD1.P  64(R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	VSHL    $1, V0.S4, V0.S4
	VSHL    $1, V1.S4, V1.S4
	VSHL    $1, V2.S4, V2.S4
	VSHL    $1, V3.S4, V3.S4
	VUMAX   V0.S4, V4.S4, V4.S4
	VUMAX   V1.S4, V5.S4, V5.S4
	VUMAX   V2.S4, V4.S4, V4.S4
	VUMAX   V3.S4, V5.S4, V5.S4
	SUBS    $16, R1
	BNE     max
	VUMAX   V5.S4, V4.S4, V4.S4
	WORD    $0x6eb0a884 // umaxv s4, v4.4s
	FMOVS   F4, R0
	LSRW    $1, R0
	MOVW    R0, ret+16(FP)
	RET

// func roundNEON(out *int8, x *float32, n int, scale float32) int32
// All values are finite and none exceeds 127 once scaled. A scaled value is rounded to float32, as in Go, and then to
// the nearest integer, ties to even.
TEXT ·roundNEON(SB), NOSPLIT|NOFRAME, $0-36
	MOVD    out+0(FP), R0
	MOVD    x+8(FP), R1
	MOVD    n+16(FP), R2
	FMOVS   scale+24(FP), F31
	VDUP    V31.S[0], V31.S4
	VEOR    V16.B16, V16.B16, V16.B16
round:
	VLD1.P  64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	WORD    $0x6e3fdc00 // fmul v0.4s, v0.4s, v31.4s
	WORD    $0x6e3fdc21 // fmul v1.4s, v1.4s, v31.4s
	WORD    $0x6e3fdc42 // fmul v2.4s, v2.4s, v31.4s
	WORD    $0x6e3fdc63 // fmul v3.4s, v3.4s, v31.4s
	WORD    $0x4e21a800 // fcvtns v0.4s, v0.4s
	WORD    $0x4e21a821 // fcvtns v1.4s, v1.4s
	WORD    $0x4e21a842 // fcvtns v2.4s, v2.4s
	WORD    $0x4e21a863 // fcvtns v3.4s, v3.4s
	VADD    V0.S4, V16.S4, V16.S4
	VADD    V1.S4, V16.S4, V16.S4
	VADD    V2.S4, V16.S4, V16.S4
	VADD    V3.S4, V16.S4, V16.S4
	VUZP1   V1.H8, V0.H8, V0.H8
	VUZP1   V3.H8, V2.H8, V2.H8
	VUZP1   V2.B16, V0.B16, V0.B16
	VST1.P  [V0.B16], 16(R0)
	SUBS    $16, R2
	BNE     round
	VADDV   V16.S4, V16
	FMOVS   F16, R0
	MOVW    R0, ret+32(FP)
	RET
