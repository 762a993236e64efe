// Command tl2_avx2 prints kernels/mul_tl2_avx2_amd64.s: tables of partial sums, the lookup in them, and the way from tl2
// to i2s.
//
// The file is long because lookup takes a vector of 64 rows in two registers, and each of its eight triples by a nibble and a
// sign of its own; and because there are two forms of weights, each with its tables.
//
// Vector registers are named, not allocated: the allocator may hand out Y16 and up, with which VPADDW and the like
// silently become AVX-512.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	rows = 64               // bytes of a vector
	half = 5 * rows         // a vector of signs and four of indices, eight triples
	unit = 4 * rows         // the two-weight form of 16 columns, eight pairs
	part = 32               // bytes of a register
	base = 31               // a partial sum is base*h + l with |l| <= 15 and |h| <= 12: eight of either fit an int8
	most = 10               // halves per chunk: 8 * 10 * 3 * 128 = 30720 fits an int16
	step = 4 * rows         // bytes of a step of i2s
	pair = 2                // weights of an index in the two-weight form
	inv  = (1 << 15) / base // VPMULHRSW by it divides by base and rounds, exactly for |s| <= 384
)

var ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}

func main() {
	ConstraintExpr("!purego")
	tables()
	lookup()
	toI2S()
	Generate()
}

// weights gives, for an index of the two- or three-weight form, the weight at a place.
func weights(per, place, index int) int {
	if per == pair {
		return min(index>>(2*place)&3, 2) - 1
	}
	all := min(index, 13) + 13
	return []int{all / 9, all / 3 % 3, all % 3}[place] - 1
}

// tables is:
//
//	for every triple or pair: for i < 16 {
//		s := Σ weight of index i * x; l, h := split(s); table[i], table[16+i] = l, h
//	}
func tables() {
	TEXT("tl2AVX2Tables", NOSPLIT, "func(table *byte, x *int8, folds int, units int)")
	table, x, folds, units := argument("table"), argument("x"), argument("folds"), argument("units")
	inverse, times := ymm[14], ymm[15]
	broadcastWords(inv, inverse)
	broadcastWords(base, times)
	left := GP64()
	entry := func(per int, columns ...int) {
		sum, v := ymm[0], ymm[1]
		for place, column := range columns {
			VPBROADCASTB(Mem{Base: x, Disp: column}, v)
			VPSRAW(Imm(8), v, v)
			VPSIGNW(pattern(per, place), v, v)
			if place == 0 {
				VMOVDQA(v, sum)
			} else {
				VPADDW(v, sum, sum)
			}
		}
		high := v
		VPMULHRSW(inverse, sum, high)
		VPMULLW(times, high, ymm[2])
		VPSUBW(ymm[2], sum, sum)
		VPACKSSWB(high, sum, sum)
		VPERMQ(Imm(0xd8), sum, sum)
		VMOVDQU(sum, Mem{Base: table})
		ADDQ(Imm(part), table)
	}
	// loop runs over the columns of one kind, four b at a time.
	loop := func(name string, count Register, columns int, entries func()) {
		TESTQ(count, count)
		JZ(LabelRef(name + "end"))
		Label(name)
		MOVQ(U32(4), left)
		Label(name + "b")
		entries()
		INCQ(x)
		DECQ(left)
		JNZ(LabelRef(name + "b"))
		ADDQ(Imm(uint64(columns-4)), x)
		DECQ(count)
		JNZ(LabelRef(name))
		Label(name + "end")
	}
	loop("fold", folds, 48, func() {
		for i := range 3 {
			entry(3, 16*i, 16*i+4, 16*i+8)
		}
		entry(3, 12, 28, 44)
	})
	loop("unit", units, 16, func() {
		entry(pair, 0, 4)
		entry(pair, 8, 12)
	})
	VZEROUPPER()
	RET()
}

var patterns = map[string]Mem{}

// pattern is the weight at a place of every index, in words.
func pattern(per, place int) Mem {
	return constant(fmt.Sprintf("tl2Weights%dof%d", place, per), func(i int) byte {
		if i%2 == 1 && weights(per, place, i/2) < 0 {
			return 0xff
		}
		return byte(weights(per, place, i/2))
	})
}

// constant is 32 bytes.
func constant(name string, at func(int) byte) Mem {
	m, ok := patterns[name]
	if !ok {
		m = GLOBL(name, RODATA|NOPTR)
		for i := 0; i < part; i += 8 {
			var eight uint64
			for j := range 8 {
				eight |= uint64(at(i+j)) << (8 * j)
			}
			DATA(i, U64(eight))
		}
		patterns[name] = m
	}
	return m
}

func every(value byte) func(int) byte { return func(int) byte { return value } }

// lookup is sums[row] += Σ table[index(row)] for the 64 rows of a block.
//
// Sums of low and of high parts are int8 for eight lookups, which then become int16 of even and of odd bytes, and after a
// chunk int32.
func lookup() {
	TEXT("tl2AVX2Lookup", NOSPLIT, "func(sums *int32, w *byte, table *byte, folds int, units int, prefetch int)")
	sums, w, table, left, ahead := argument("sums"), argument("w"), argument("table"), argument("folds"), argument("prefetch")
	count := GP64()
	low, high := ymm[0:2], ymm[2:4]
	even, odd := ymm[4:6], ymm[6:8]
	sign := ymm[8:10]
	lows, highs, index := ymm[10], ymm[11], ymm[12]
	low4 := constant("tl2Index", every(0x0f))
	ones := constant("tl2Ones", every(1))

	// one looks up the low or the high nibbles of a vector.
	one := func(vector Mem, nibble int, signed bool) {
		VBROADCASTI128(Mem{Base: table}, lows)
		VBROADCASTI128(Mem{Base: table, Disp: 16}, highs)
		ADDQ(Imm(part), table)
		for h := range 2 {
			l, t := ymm[13], ymm[14]
			VMOVDQU(vector.Offset(part*h), index)
			if nibble == 1 {
				VPSRLW(Imm(4), index, index)
			}
			VPAND(low4, index, index)
			VPSHUFB(index, lows, l)
			VPSHUFB(index, highs, t)
			if signed {
				nonzero := ymm[15]
				VPOR(ones, sign[h], nonzero)
				VPSIGNB(nonzero, l, l)
				VPSIGNB(nonzero, t, t)
				VPADDB(sign[h], sign[h], sign[h])
			}
			VPADDB(l, low[h], low[h])
			VPADDB(t, high[h], high[h])
		}
	}
	vectors := func(first int, signed bool) {
		zero(ymm[:4])
		for v := first; v < first+4; v++ {
			PREFETCHT0(Mem{Base: w, Index: ahead, Scale: 1, Disp: rows * v})
			one(Mem{Base: w, Disp: rows * v}, 0, signed)
			one(Mem{Base: w, Disp: rows * v}, 1, signed)
		}
		for h := range 2 {
			widen(low[h], even[h], 1, 0)
			widen(low[h], odd[h], 0, 1)
			widen(high[h], even[h], base, 0)
			widen(high[h], odd[h], 0, base)
		}
	}

	ADDQ(left, left) // halves
	JZ(LabelRef("rest"))
	Label("chunk")
	MOVQ(U32(most), count)
	CMPQ(left, count)
	CMOVQLT(left, count)
	SUBQ(count, left)
	zero(ymm[4:8])
	Label("half")
	for h, s := range sign {
		VMOVDQU(Mem{Base: w, Disp: part * h}, s)
	}
	PREFETCHT0(Mem{Base: w, Index: ahead, Scale: 1})
	vectors(1, true)
	ADDQ(U32(half), w)
	DECQ(count)
	JNZ(LabelRef("half"))
	addToSums(sums, even, odd)
	TESTQ(left, left)
	JNZ(LabelRef("chunk"))

	Label("rest")
	Load(Param("units"), count)
	TESTQ(count, count)
	JZ(LabelRef("end"))
	zero(ymm[4:8])
	Label("unit")
	vectors(0, false)
	ADDQ(U32(unit), w)
	DECQ(count)
	JNZ(LabelRef("unit"))
	addToSums(sums, even, odd)
	Label("end")
	VZEROUPPER()
	RET()
}

// widen adds the even bytes times e and the odd bytes times o, one of which is 0, to words.
func widen(bytes, words VecPhysical, e, o byte) {
	factor := ymm[13]
	VMOVDQU(constant(fmt.Sprintf("tl2Factor%dand%d", e, o), func(i int) byte {
		if i%2 == 0 {
			return e
		}
		return o
	}), factor)
	VPMADDUBSW(bytes, factor, factor)
	VPADDW(factor, words, words)
}

// addToSums brings words of lanes into the order of rows and adds them.
func addToSums(sums Register, even, odd []VecPhysical) {
	for h := range 2 {
		lanes := ymm[12:14]
		VPUNPCKLWD(odd[h], even[h], lanes[0])
		VPUNPCKHWD(odd[h], even[h], lanes[1])
		for i, v := range lanes {
			eight, dst := ymm[14], Mem{Base: sums, Disp: 4 * (32*h + 16*i)}
			VPERMQ(Imm(0xd8), v, v)
			VPMOVSXWD(v.AsX(), eight)
			VPADDD(dst, eight, eight)
			VMOVDQU(eight, dst)
			VEXTRACTI128(Imm(1), v, v.AsX())
			VPMOVSXWD(v.AsX(), eight)
			VPADDD(dst.Offset(part), eight, eight)
			VMOVDQU(eight, dst.Offset(part))
		}
	}
}

// toI2S brings a block of tl2 to layout i2s. Triple 4b+i of a fold is, for i < 3, fields 0 to 2 of byte b of step i, and
// triple 4b+3 field 3 of byte b of all three; interleaving the bytes of four b makes dwords.
func toI2S() {
	TEXT("tl2AVX2ToI2S", NOSPLIT, "func(out *byte, w *byte, folds int, units int, prefetch int)")
	out, w, folds, units := argument("out"), argument("w"), argument("folds"), argument("units")
	ahead := argument("prefetch")
	bytes := AllocLocal(3 * 4 * part) // of step i, b
	parts, halves, to := GP64(), GP64(), GP64()
	code := func(i int) byte {
		var c byte
		for place := range 3 {
			c |= byte(weights(3, place, i%16)+1) << (2 * place)
		}
		return c
	}
	table, mirrored, low4, field3 := ymm[12], ymm[13], ymm[14], ymm[15]
	VMOVDQU(constant("tl2Codes", code), table)
	VMOVDQU(constant("tl2Mirrored", func(i int) byte { return 0x2a - code(i) }), mirrored)
	VMOVDQU(constant("tl2Index", every(0x0f)), low4)
	VMOVDQU(constant("tl2Field3", every(0xc0)), field3)
	sign, codes := ymm[11], ymm[0:4]

	b := func(odd int) {
		for i, c := range codes {
			VMOVDQU(Mem{Base: w, Disp: rows * (1 + 2*odd + i/2)}, c)
			if i%2 == 1 {
				VPSRLW(Imm(4), c, c)
			}
			VPAND(low4, c, c)
			VPSHUFB(c, mirrored, ymm[4])
			VPSHUFB(c, table, c)
			VPBLENDVB(sign, ymm[4], c, c)
			VPADDB(sign, sign, sign)
		}
		for i := range 3 {
			VPSLLW(Imm(uint64(6-2*i)), codes[3], ymm[4])
			VPAND(field3, ymm[4], ymm[4])
			VPOR(codes[i], ymm[4], ymm[4])
			VMOVDQU(ymm[4], Mem{Base: to, Disp: part * (4*i + odd)})
		}
	}
	TESTQ(folds, folds)
	JZ(LabelRef("rest"))
	Label("fold")
	for line := range 2 * half / rows {
		PREFETCHT0(Mem{Base: w, Index: ahead, Scale: 1, Disp: rows * line})
	}
	MOVQ(U32(2), parts)
	Label("part")
	LEAQ(bytes, to)
	MOVQ(U32(2), halves)
	Label("half")
	VMOVDQU(Mem{Base: w}, sign)
	b(0)
	b(1)
	ADDQ(U32(half), w)
	ADDQ(U32(2*part), to)
	DECQ(halves)
	JNZ(LabelRef("half"))
	for i := range 3 {
		interleave(bytes.Offset(4*part*i), part, Mem{Base: out, Disp: step * i})
	}
	SUBQ(U32(2*half-part), w)
	ADDQ(U32(step/2), out)
	DECQ(parts)
	JNZ(LabelRef("part"))
	ADDQ(U32(2*half-2*part), w)
	ADDQ(U32(2*step), out)
	DECQ(folds)
	JNZ(LabelRef("fold"))

	Label("rest")
	TESTQ(units, units)
	JZ(LabelRef("end"))
	Label("unit")
	for p := range 2 {
		interleave(Mem{Base: w, Disp: part * p}, rows, Mem{Base: out, Disp: step / 2 * p})
	}
	ADDQ(U32(unit), w)
	ADDQ(U32(step), out)
	DECQ(units)
	JNZ(LabelRef("unit"))
	Label("end")
	VZEROUPPER()
	RET()
}

// interleave makes 32 rows of dwords of four vectors of bytes.
func interleave(from Mem, apart int, to Mem) {
	v, l, h := ymm[0:4], ymm[4:6], ymm[6:8]
	for i, r := range v {
		VMOVDQU(from.Offset(apart*i), r)
	}
	for i := range 2 {
		VPUNPCKLBW(v[2*i+1], v[2*i], l[i])
		VPUNPCKHBW(v[2*i+1], v[2*i], h[i])
	}
	for i, words := range [][]VecPhysical{l, h} {
		VPUNPCKLWD(words[1], words[0], v[0])
		VPUNPCKHWD(words[1], words[0], v[1])
		VMOVDQU(v[0], to.Offset(part*(2*i)))
		VMOVDQU(v[1], to.Offset(part*(2*i+1)))
	}
}

func argument(name string) Register { return Load(Param(name), GP64()) }

func zero(v []VecPhysical) {
	for _, r := range v {
		VPXOR(r, r, r)
	}
}

func broadcastWords(value uint32, v VecPhysical) {
	r := GP32()
	MOVL(U32(value), r)
	VMOVD(r, v.AsX())
	VPBROADCASTW(v.AsX(), v)
}
