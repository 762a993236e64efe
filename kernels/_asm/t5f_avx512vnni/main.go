// Command t5f_avx512vnni prints kernels/mul_t5f_avx512vnni_amd64.s: the register tiles of layout t5f in VPDPBUSD.
//
// The file is long because each number of tokens is a routine of its own, and 4x1, which multiplies twice for every digit, is
// not a loop over them.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/bitnet-autotune/bitnet-autotune/kernels/_asm/strided"
	. "github.com/bitnet-autotune/bitnet-autotune/kernels/_asm/zmm"
)

const (
	vector  = 64          // bytes of one row group in one step
	weights = 5           // weights of a byte
	step    = 4 * weights // columns of one step
)

func main() {
	ConstraintExpr("!purego")
	one()
	decode(4)
	for _, tokens := range []int{2, 3, 4, 5} {
		batch(4, tokens)
	}
	batch(2, 8)
	batch(2, 12)
	Generate()
}

// one is a single row group times a single token, of which the first rows are stored.
func one() {
	One("t5fVNNI")
	w, wStride, x, steps := Argument("w"), Argument("wStride"), Argument("x"), Argument("steps")
	low := Broadcast(0xff)
	sums := []difference{newDifference()}
	bytes := ZMM()

	Label("one")
	VMOVDQU32(Mem{Base: w}, bytes)
	for f := range weights {
		digit(x, f, []VecVirtual{bytes}, sums)
	}
	ADDQ(Imm(step), x)
	ADDQ(wStride, w)
	DECQ(steps)
	JNZ(LabelRef("one"))

	StoreRows(sums[0].total(low))
}

// decode is groups x 1.
func decode(groups int) {
	name := Tile("t5fVNNI", groups, 1)
	w, wStride, x, steps := Argument("w"), Argument("wStride"), Argument("x"), Argument("steps")
	ahead := PrefetchFrom(w)
	low := Broadcast(0xff)
	sums := make([]difference, groups)
	for g := range sums {
		sums[g] = newDifference()
	}
	bytes := Vectors(groups)

	Label(name)
	for g := range groups {
		PREFETCHT0(Mem{Base: ahead, Disp: vector * g})
		VMOVDQU32(Mem{Base: w, Disp: vector * g}, bytes[g])
	}
	for f := range weights {
		digit(x, f, bytes, sums)
	}
	ADDQ(Imm(step), x)
	ADDQ(wStride, w)
	ADDQ(wStride, ahead)
	DECQ(steps)
	JNZ(LabelRef(name))

	dst, sum := Argument("dst"), Argument("sum")
	for g := range groups {
		total := sums[g].total(low)
		VPSUBD_BCST(Mem{Base: sum}, total, total)
		VMOVDQU32(total, Mem{Base: dst, Disp: vector * g})
	}
	VZEROUPPER()
	RET()
}

// difference is a sum over digits that no digit has to be taken out of its byte for. A digit is (3 * byte - next) / 256,
// where next is the byte that has all but this digit; so Σ digit * x is (3 * Σ byte * x - Σ next * x) / 256, and both
// sums take their bytes as they are. That is one multiplication more for three instructions less.
type difference struct{ bytes, next VecVirtual }

func newDifference() difference {
	v := Zeroes(2)
	return difference{v[0], v[1]}
}

// digit adds weight f of each group, times its activations, and moves the bytes on to the next.
func digit(x Register, f int, bytes []VecVirtual, sums []difference) {
	token := ZMM()
	VPBROADCASTD(Mem{Base: x, Disp: 4 * f}, token)
	for g := range bytes {
		VPDPBUSD(token, bytes[g], sums[g].bytes)
		twice := ZMM()
		VPADDB(bytes[g], bytes[g], twice)
		VPADDB(twice, bytes[g], bytes[g])
		VPDPBUSD(token, bytes[g], sums[g].next)
	}
}

// total returns the sum: (3 * bytes - next) / 256, which is exact, but without the overflow of 3 * bytes. What the two
// leave over beyond multiples of 256 is divided apart; low is 255 in every dword.
func (d difference) total(low VecVirtual) VecVirtual {
	rest, restNext, total := ZMM(), ZMM(), ZMM()
	VPANDD(low, d.bytes, rest)
	VPANDD(low, d.next, restNext)
	VPSUBD(restNext, rest, restNext)
	VPADDD(rest, rest, rest)
	VPADDD(restNext, rest, rest)
	VPSRAD(Imm(8), rest, rest)
	VPSRAD(Imm(8), d.bytes, d.bytes)
	VPSRAD(Imm(8), d.next, d.next)
	VPADDD(d.bytes, d.bytes, total)
	VPADDD(d.bytes, total, total)
	VPSUBD(d.next, total, total)
	VPADDD(rest, total, total)
	return total
}

// batch is groups x tokens: a digit of all groups is brought into the top two bits of its byte once for all tokens.
//
// With h = byte / 2 rounded down, (byte + h + 128) / 2 is below 128 up to byte 85, below 192 up to 170 and at most 255:
// its top two bits are the digit + 1. VPAVGB rounds up, so 253 in place of 255 makes up for what it adds.
func batch(groups, tokens int) {
	name := Tile("t5fVNNI", groups, tokens)
	w, wStride, steps := Argument("w"), Argument("wStride"), Argument("steps")
	x := strided.Load("x", "xStride", tokens)
	ahead := PrefetchFrom(w)
	half, top := Broadcast(0xfdfdfdfd), Broadcast(0xc0c0c0c0)
	acc := make([][]VecVirtual, tokens)
	for t := range acc {
		acc[t] = Zeroes(groups)
	}
	bytes, codes, token, weight := Vectors(groups), Vectors(groups), ZMM(), GP32()

	Label(name)
	for g := range groups {
		PREFETCHT0(Mem{Base: ahead, Disp: vector * g})
		VMOVDQU32(Mem{Base: w, Disp: vector * g}, bytes[g])
	}
	MOVL(U32(weights), weight)
	Label(name + "weight")
	for g := range groups {
		VPAVGB(half, bytes[g], codes[g])
		VPAVGB(bytes[g], codes[g], codes[g])
		VPANDD(top, codes[g], codes[g])
	}
	for t := range tokens {
		VPBROADCASTD(x.Row(t), token)
		for g := range groups {
			VPDPBUSD(token, codes[g], acc[t][g])
		}
	}
	for g := range groups {
		VPADDB(bytes[g], bytes[g], codes[g])
		VPADDB(codes[g], bytes[g], bytes[g])
	}
	x.Add(Imm(4))
	DECL(weight)
	JNZ(LabelRef(name + "weight"))
	ADDQ(wStride, w)
	ADDQ(wStride, ahead)
	DECQ(steps)
	JNZ(LabelRef(name))

	sum := Argument("sum")
	dst := strided.Load("dst", "dstStride", tokens)
	for t := range tokens {
		for g := range groups {
			VPSRAD(Imm(6), acc[t][g], acc[t][g])
			VPSUBD_BCST(Mem{Base: sum, Disp: 4 * t}, acc[t][g], acc[t][g]) // once for w+1, once for the digit + 1
			VPSUBD_BCST(Mem{Base: sum, Disp: 4 * t}, acc[t][g], acc[t][g])
			VMOVDQU32(acc[t][g], dst.Row(t).Offset(vector*g))
		}
	}
	VZEROUPPER()
	RET()
}
