//go:build !purego

// Lookups of sums of two activations, for 64 rows, a byte lane each. See spike_amd64.go.

#include "textflag.h"

DATA low4<>+0(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA low4<>+8(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA low4<>+16(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA low4<>+24(SB)/8, $0x0f0f0f0f0f0f0f0f
GLOBL low4<>(SB), RODATA|NOPTR, $32
// weights of an int8 in the even or the odd byte: 1 for low, 31 for high sums
DATA even1<>+0(SB)/8, $0x0001000100010001
DATA even1<>+8(SB)/8, $0x0001000100010001
DATA even1<>+16(SB)/8, $0x0001000100010001
DATA even1<>+24(SB)/8, $0x0001000100010001
GLOBL even1<>(SB), RODATA|NOPTR, $32
DATA odd1<>+0(SB)/8, $0x0100010001000100
DATA odd1<>+8(SB)/8, $0x0100010001000100
DATA odd1<>+16(SB)/8, $0x0100010001000100
DATA odd1<>+24(SB)/8, $0x0100010001000100
GLOBL odd1<>(SB), RODATA|NOPTR, $32
DATA even31<>+0(SB)/8, $0x001f001f001f001f
DATA even31<>+8(SB)/8, $0x001f001f001f001f
DATA even31<>+16(SB)/8, $0x001f001f001f001f
DATA even31<>+24(SB)/8, $0x001f001f001f001f
GLOBL even31<>(SB), RODATA|NOPTR, $32
DATA odd31<>+0(SB)/8, $0x1f001f001f001f00
DATA odd31<>+8(SB)/8, $0x1f001f001f001f00
DATA odd31<>+16(SB)/8, $0x1f001f001f001f00
DATA odd31<>+24(SB)/8, $0x1f001f001f001f00
GLOBL odd31<>(SB), RODATA|NOPTR, $32

// Y0 Y1 low sums, Y2 Y3 high sums, Y4-Y7 int16 sums (even, odd of each half), Y10 Y11 tables, Y12-Y14 free

#define TABLES(at) \
	VBROADCASTI128 at(DX), Y10     \
	VBROADCASTI128 (at+16)(DX), Y11

#define LOOKUP(index, sum, high) \
	VPAND   low4<>(SB), index, index \
	VPSHUFB index, Y10, Y13          \
	VPSHUFB index, Y11, Y14

#define ADD(sum, high) \
	VPADDB Y13, sum, sum   \
	VPADDB Y14, high, high

#define TWO(i) \
	PREFETCHT0 (i*64)(SI)(R9*1) \
	TABLES(0)                    \
	VMOVDQU    (i*64)(SI), Y12   \
	LOOKUP(Y12, Y0, Y2)          \
	ADD(Y0, Y2)                  \
	VMOVDQU    (i*64+32)(SI), Y12 \
	LOOKUP(Y12, Y1, Y3)          \
	ADD(Y1, Y3)                  \
	TABLES(32)                   \
	VMOVDQU    (i*64)(SI), Y12   \
	VPSRLW     $4, Y12, Y12      \
	LOOKUP(Y12, Y0, Y2)          \
	ADD(Y0, Y2)                  \
	VMOVDQU    (i*64+32)(SI), Y12 \
	VPSRLW     $4, Y12, Y12      \
	LOOKUP(Y12, Y1, Y3)          \
	ADD(Y1, Y3)                  \
	ADDQ       $64, DX

#define CLEAR8 \
	VPXOR Y0, Y0, Y0 \
	VPXOR Y1, Y1, Y1 \
	VPXOR Y2, Y2, Y2 \
	VPXOR Y3, Y3, Y3

// int8 to int16. VPMADDUBSW takes its unsigned operand from the register, its signed one last.
#define FLUSH8(low, high, even, odd) \
	VMOVDQU    even1<>(SB), Y12  \
	VPMADDUBSW low, Y12, Y12     \
	VPADDW     Y12, even, even   \
	VMOVDQU    odd1<>(SB), Y13   \
	VPMADDUBSW low, Y13, Y13     \
	VPADDW     Y13, odd, odd     \
	VMOVDQU    even31<>(SB), Y12 \
	VPMADDUBSW high, Y12, Y12    \
	VPADDW     Y12, even, even   \
	VMOVDQU    odd31<>(SB), Y13  \
	VPMADDUBSW high, Y13, Y13    \
	VPADDW     Y13, odd, odd

#define CLEAR16 \
	VPXOR Y4, Y4, Y4 \
	VPXOR Y5, Y5, Y5 \
	VPXOR Y6, Y6, Y6 \
	VPXOR Y7, Y7, Y7

#define ADD32(x, at) \
	VPMOVSXWD x, Y14           \
	VPADDD    at(DI), Y14, Y14 \
	VMOVDQU   Y14, at(DI)

// int16 to int32 in dst
#define FLUSH16(even, odd, at) \
	VPUNPCKLWD   odd, even, Y12 \
	VPUNPCKHWD   odd, even, Y13 \
	ADD32(X12, at)              \
	ADD32(X13, (at+32))         \
	VEXTRACTI128 $1, Y12, X12   \
	VEXTRACTI128 $1, Y13, X13   \
	ADD32(X12, (at+64))         \
	ADD32(X13, (at+96))

// func lookupTL1(dst *int32, w *byte, table *byte, folds int, prefetch int)
TEXT ·lookupTL1(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ w+8(FP), SI
	MOVQ table+16(FP), DX
	MOVQ folds+24(FP), CX
	MOVQ prefetch+32(FP), R9

chunk:
	MOVQ    $15, R8
	CMPQ    CX, R8
	CMOVQLT CX, R8
	SUBQ    R8, CX
	CLEAR16

fold:
	CLEAR8
	TWO(0)
	TWO(1)
	TWO(2)
	TWO(3)
	FLUSH8(Y0, Y2, Y4, Y5)
	FLUSH8(Y1, Y3, Y6, Y7)
	ADDQ  $256, SI
	DECQ  R8
	JNZ   fold
	FLUSH16(Y4, Y5, 0)
	FLUSH16(Y6, Y7, 128)
	TESTQ CX, CX
	JNZ   chunk
	VZEROUPPER
	RET
