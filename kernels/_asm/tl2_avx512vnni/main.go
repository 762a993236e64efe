// Command tl2_avx512vnni prints kernels/mul_tl2_avx512vnni_amd64.s: the lookup of layout tl2 in vectors of 64 rows.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "github.com/bitnet-autotune/bitnet-autotune/kernels/_asm/zmm"
)

const (
	rows = 64       // bytes of a vector
	half = 5 * rows // a vector of signs and four of indices, eight triples
	unit = 4 * rows // the two-weight form of 16 columns, eight pairs
	base = 31       // a partial sum is base*high + low, either of which is int8 for eight lookups
	most = 10       // halves per chunk: 8 * 10 * 3 * 128 = 30720 fits an int16
)

func main() {
	ConstraintExpr("!purego")
	lookup()
	Generate()
}

// lookup is sums[row] += Σ table[index(row)] for the 64 rows of a block.
//
// Sums of low and of high parts are int8 for eight lookups, which then become int16 of even and of odd bytes, and after a
// chunk int32.
func lookup() {
	TEXT("tl2VNNILookup", NOSPLIT, "func(sums *int32, w *byte, table *byte, folds int, units int, prefetch int)")
	sums, w, table, left, ahead := Argument("sums"), Argument("w"), Argument("table"), Argument("folds"), Argument("prefetch")
	ADDQ(w, ahead)
	count := GP64()
	low, high, even, odd, sign, nothing := ZMM(), ZMM(), ZMM(), ZMM(), ZMM(), ZMM()
	VPXORD(nothing, nothing, nothing)
	low4 := Broadcast(0x0f0f0f0f)
	var bits [8]VecVirtual // of a sign, by triple
	for t := range bits {
		bits[t] = Broadcast(0x01010101 << (7 - t))
	}
	// What VPMADDUBSW multiplies the even and the odd bytes by.
	lowEven, lowOdd := Broadcast(1<<16|1), Broadcast(1<<24|1<<8)
	highEven, highOdd := Broadcast(base<<16|base), Broadcast(base<<24|base<<8)

	one := func(at Mem, t int, signed bool) {
		index, l, h := ZMM(), ZMM(), ZMM()
		if t%2 == 1 {
			VPSRLW(Imm(4), at, index)
			VPANDD(low4, index, index)
		} else {
			VPANDD(at, low4, index)
		}
		VBROADCASTI32X4(Mem{Base: table, Disp: 32 * t}, l)
		VBROADCASTI32X4(Mem{Base: table, Disp: 32*t + 16}, h)
		VPSHUFB(index, l, l)
		VPSHUFB(index, h, h)
		if signed {
			minus := K()
			VPTESTMB(sign, bits[t], minus)
			VPSUBB(l, nothing, minus, l)
			VPSUBB(h, nothing, minus, h)
		}
		if t == 0 {
			VMOVDQA64(l, low)
			VMOVDQA64(h, high)
			return
		}
		VPADDB(l, low, low)
		VPADDB(h, high, high)
	}
	eight := func(first int, signed bool) {
		for t := range 8 {
			at := Mem{Base: w, Disp: first + rows*(t/2)}
			if t%2 == 0 {
				PREFETCHT0(Mem{Base: ahead, Disp: first + rows*(t/2)})
			}
			one(at, t, signed)
		}
		ADDQ(U32(8*32), table)
		widen := func(bytes, factor, words VecVirtual) {
			product := ZMM()
			VPMADDUBSW(bytes, factor, product)
			VPADDW(product, words, words)
		}
		widen(low, lowEven, even)
		widen(low, lowOdd, odd)
		widen(high, highEven, even)
		widen(high, highOdd, odd)
	}
	clear := func() {
		VPXORD(even, even, even)
		VPXORD(odd, odd, odd)
	}

	ADDQ(left, left) // halves
	JZ(LabelRef("rest"))
	Label("chunk")
	MOVQ(U32(most), count)
	CMPQ(left, count)
	CMOVQLT(left, count)
	SUBQ(count, left)
	clear()
	Label("half")
	VMOVDQU64(Mem{Base: w}, sign)
	PREFETCHT0(Mem{Base: ahead})
	eight(rows, true)
	ADDQ(U32(half), w)
	ADDQ(U32(half), ahead)
	DECQ(count)
	JNZ(LabelRef("half"))
	addToSums(sums, even, odd)
	TESTQ(left, left)
	JNZ(LabelRef("chunk"))

	Label("rest")
	Load(Param("units"), count)
	TESTQ(count, count)
	JZ(LabelRef("end"))
	clear()
	Label("unit")
	eight(0, false)
	ADDQ(U32(unit), w)
	ADDQ(U32(unit), ahead)
	DECQ(count)
	JNZ(LabelRef("unit"))
	addToSums(sums, even, odd)
	Label("end")
	VZEROUPPER()
	RET()
}

// addToSums brings words of lanes into the order of rows and adds them.
func addToSums(sums Register, even, odd VecVirtual) {
	lanes := []VecVirtual{ZMM(), ZMM()}
	VPUNPCKLWD(odd, even, lanes[0])
	VPUNPCKHWD(odd, even, lanes[1])
	for i, v := range lanes {
		VPERMQ(Imm(0xd8), v, v)
		for part := range 2 {
			words, sixteen, dst := YMM(), ZMM(), Mem{Base: sums, Disp: 4 * (32*part + 16*i)}
			VEXTRACTI64X4(Imm(uint64(part)), v, words)
			VPMOVSXWD(words, sixteen)
			VPADDD(dst, sixteen, sixteen)
			VMOVDQU32(sixteen, dst)
		}
	}
}
