// Command limit prints kernels/limit_amd64.s: loops that do nothing but read, and nothing but multiply.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	streams = 8 // vectors per round, each with an accumulator of its own
	line    = 64
)

func main() {
	ConstraintExpr("!purego")
	y, z := []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7}, []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7}
	read("readAVX2", 32, y, func(v Op, acc VecPhysical) { VPXOR(v, acc, acc) }, false)
	read("readAheadAVX2", 32, y, func(v Op, acc VecPhysical) { VPXOR(v, acc, acc) }, true)
	read("readAVX512", 64, z, func(v Op, acc VecPhysical) { VPXORQ(v, acc, acc) }, false)
	read("readAheadAVX512", 64, z, func(v Op, acc VecPhysical) { VPXORQ(v, acc, acc) }, true)
	peakAVX2()
	peakVNNI()
	Generate()
}

// read xors rounds x streams vectors from p on. One that prefetches asks for every line that is some bytes ahead.
func read(name string, vector int, acc []VecPhysical, xor func(Op, VecPhysical), prefetches bool) {
	signature := "func(p *byte, rounds int) uint64"
	if prefetches {
		signature = "func(p *byte, rounds int, ahead int) uint64"
	}
	TEXT(name, NOSPLIT, signature)
	p, rounds := Load(Param("p"), GP64()), Load(Param("rounds"), GP64())
	var ahead Register
	if prefetches {
		ahead = Load(Param("ahead"), GP64())
	}
	for _, a := range acc {
		VPXOR(a.AsY(), a.AsY(), a.AsY())
	}
	Label(name)
	for i, a := range acc {
		if prefetches && i*vector%line == 0 {
			PREFETCHT0(Mem{Base: p, Index: ahead, Scale: 1, Disp: i * vector})
		}
		xor(Mem{Base: p, Disp: i * vector}, a)
	}
	ADDQ(U32(streams*vector), p)
	DECQ(rounds)
	JNZ(LabelRef(name))
	for _, a := range acc[1:] {
		xor(a, acc[0])
	}
	if vector == 64 {
		VEXTRACTI64X4(Imm(1), Z0, Y1)
		VPXOR(Y1, Y0, Y0)
	}
	VEXTRACTI128(Imm(1), Y0, X1)
	VPXOR(X1, X0, X0)
	VPSHUFD(Imm(0x4e), X0, X1)
	VPXOR(X1, X0, X0)
	sum := GP64()
	VMOVQ(X0, sum)
	VZEROUPPER()
	Store(sum, ReturnIndex(0))
	RET()
}

// peakVNNI is sixteen independent VPDPBUSD per iteration, registers only.
func peakVNNI() {
	TEXT("peakVNNI", NOSPLIT, "func(iterations int)")
	n := Load(Param("iterations"), GP64())
	acc := []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15}
	for _, a := range append(acc, Z16, Z17) {
		VPXORD(a, a, a)
	}
	Label("loop")
	for _, a := range acc {
		VPDPBUSD(Z16, Z17, a)
	}
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// peakAVX2 is twelve independent VPMADDUBSW per iteration, registers only; their products are not even summed.
func peakAVX2() {
	TEXT("peakAVX2", NOSPLIT, "func(iterations int)")
	n := Load(Param("iterations"), GP64())
	out := []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11}
	VPXOR(Y12, Y12, Y12)
	VPXOR(Y13, Y13, Y13)
	Label("loop")
	for _, o := range out {
		VPMADDUBSW(Y12, Y13, o)
	}
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
