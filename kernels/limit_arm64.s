//go:build !purego

#include "textflag.h"

// func readNEON(p *byte, rounds int) uint64
TEXT ·readNEON(SB), NOSPLIT|NOFRAME, $0-24
	MOVD    p+0(FP), R0
	MOVD    rounds+8(FP), R1
	VEOR    V0.B16, V0.B16, V0.B16
	VEOR    V1.B16, V1.B16, V1.B16
	VEOR    V2.B16, V2.B16, V2.B16
	VEOR    V3.B16, V3.B16, V3.B16
	VEOR    V4.B16, V4.B16, V4.B16
	VEOR    V5.B16, V5.B16, V5.B16
	VEOR    V6.B16, V6.B16, V6.B16
	VEOR    V7.B16, V7.B16, V7.B16
read:
	FLDPQ   0(R0), (F16, F17)
	FLDPQ   32(R0), (F18, F19)
	FLDPQ   64(R0), (F20, F21)
	FLDPQ   96(R0), (F22, F23)
	VEOR    V16.B16, V0.B16, V0.B16
	VEOR    V17.B16, V1.B16, V1.B16
	VEOR    V18.B16, V2.B16, V2.B16
	VEOR    V19.B16, V3.B16, V3.B16
	VEOR    V20.B16, V4.B16, V4.B16
	VEOR    V21.B16, V5.B16, V5.B16
	VEOR    V22.B16, V6.B16, V6.B16
	VEOR    V23.B16, V7.B16, V7.B16
	ADD     $128, R0
	SUBS    $1, R1
	BNE     read
	VEOR    V1.B16, V0.B16, V0.B16
	VEOR    V3.B16, V2.B16, V2.B16
	VEOR    V5.B16, V4.B16, V4.B16
	VEOR    V7.B16, V6.B16, V6.B16
	VEOR    V2.B16, V0.B16, V0.B16
	VEOR    V6.B16, V4.B16, V4.B16
	VEOR    V4.B16, V0.B16, V0.B16
	VMOV    V0.D[0], R0
	VMOV    V0.D[1], R1
	EOR     R1, R0
	MOVD    R0, ret+16(FP)
	RET

// func peakSMLAL(iterations int)
// An iteration is sixteen independent SMLAL, registers only.
TEXT ·peakSMLAL(SB), NOSPLIT|NOFRAME, $0-8
	MOVD    iterations+0(FP), R0
	VEOR    V0.B16, V0.B16, V0.B16
	VEOR    V1.B16, V1.B16, V1.B16
	VEOR    V2.B16, V2.B16, V2.B16
	VEOR    V3.B16, V3.B16, V3.B16
	VEOR    V4.B16, V4.B16, V4.B16
	VEOR    V5.B16, V5.B16, V5.B16
	VEOR    V6.B16, V6.B16, V6.B16
	VEOR    V7.B16, V7.B16, V7.B16
	VEOR    V8.B16, V8.B16, V8.B16
	VEOR    V9.B16, V9.B16, V9.B16
	VEOR    V10.B16, V10.B16, V10.B16
	VEOR    V11.B16, V11.B16, V11.B16
	VEOR    V12.B16, V12.B16, V12.B16
	VEOR    V13.B16, V13.B16, V13.B16
	VEOR    V14.B16, V14.B16, V14.B16
	VEOR    V15.B16, V15.B16, V15.B16
	VEOR    V16.B16, V16.B16, V16.B16
	VEOR    V17.B16, V17.B16, V17.B16
peak:
	WORD    $0x0e318200 // smlal v0.8h, v16.8b, v17.8b
	WORD    $0x0e318201 // smlal v1.8h, v16.8b, v17.8b
	WORD    $0x0e318202 // smlal v2.8h, v16.8b, v17.8b
	WORD    $0x0e318203 // smlal v3.8h, v16.8b, v17.8b
	WORD    $0x0e318204 // smlal v4.8h, v16.8b, v17.8b
	WORD    $0x0e318205 // smlal v5.8h, v16.8b, v17.8b
	WORD    $0x0e318206 // smlal v6.8h, v16.8b, v17.8b
	WORD    $0x0e318207 // smlal v7.8h, v16.8b, v17.8b
	WORD    $0x0e318208 // smlal v8.8h, v16.8b, v17.8b
	WORD    $0x0e318209 // smlal v9.8h, v16.8b, v17.8b
	WORD    $0x0e31820a // smlal v10.8h, v16.8b, v17.8b
	WORD    $0x0e31820b // smlal v11.8h, v16.8b, v17.8b
	WORD    $0x0e31820c // smlal v12.8h, v16.8b, v17.8b
	WORD    $0x0e31820d // smlal v13.8h, v16.8b, v17.8b
	WORD    $0x0e31820e // smlal v14.8h, v16.8b, v17.8b
	WORD    $0x0e31820f // smlal v15.8h, v16.8b, v17.8b
	SUBS    $1, R0
	BNE     peak
	RET

// func peakSDOT(iterations int)
// An iteration is sixteen independent SDOT, registers only.
TEXT ·peakSDOT(SB), NOSPLIT|NOFRAME, $0-8
	MOVD    iterations+0(FP), R0
	VEOR    V0.B16, V0.B16, V0.B16
	VEOR    V1.B16, V1.B16, V1.B16
	VEOR    V2.B16, V2.B16, V2.B16
	VEOR    V3.B16, V3.B16, V3.B16
	VEOR    V4.B16, V4.B16, V4.B16
	VEOR    V5.B16, V5.B16, V5.B16
	VEOR    V6.B16, V6.B16, V6.B16
	VEOR    V7.B16, V7.B16, V7.B16
	VEOR    V8.B16, V8.B16, V8.B16
	VEOR    V9.B16, V9.B16, V9.B16
	VEOR    V10.B16, V10.B16, V10.B16
	VEOR    V11.B16, V11.B16, V11.B16
	VEOR    V12.B16, V12.B16, V12.B16
	VEOR    V13.B16, V13.B16, V13.B16
	VEOR    V14.B16, V14.B16, V14.B16
	VEOR    V15.B16, V15.B16, V15.B16
	VEOR    V16.B16, V16.B16, V16.B16
	VEOR    V17.B16, V17.B16, V17.B16
peak:
	WORD    $0x4e919600 // sdot v0.4s, v16.16b, v17.16b
	WORD    $0x4e919601 // sdot v1.4s, v16.16b, v17.16b
	WORD    $0x4e919602 // sdot v2.4s, v16.16b, v17.16b
	WORD    $0x4e919603 // sdot v3.4s, v16.16b, v17.16b
	WORD    $0x4e919604 // sdot v4.4s, v16.16b, v17.16b
	WORD    $0x4e919605 // sdot v5.4s, v16.16b, v17.16b
	WORD    $0x4e919606 // sdot v6.4s, v16.16b, v17.16b
	WORD    $0x4e919607 // sdot v7.4s, v16.16b, v17.16b
	WORD    $0x4e919608 // sdot v8.4s, v16.16b, v17.16b
	WORD    $0x4e919609 // sdot v9.4s, v16.16b, v17.16b
	WORD    $0x4e91960a // sdot v10.4s, v16.16b, v17.16b
	WORD    $0x4e91960b // sdot v11.4s, v16.16b, v17.16b
	WORD    $0x4e91960c // sdot v12.4s, v16.16b, v17.16b
	WORD    $0x4e91960d // sdot v13.4s, v16.16b, v17.16b
	WORD    $0x4e91960e // sdot v14.4s, v16.16b, v17.16b
	WORD    $0x4e91960f // sdot v15.4s, v16.16b, v17.16b
	SUBS    $1, R0
	BNE     peak
	RET
