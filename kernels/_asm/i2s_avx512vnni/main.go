// Command i2s_avx512vnni prints kernels/mul_i2s_avx512vnni_amd64.s: the register tiles of layout i2s in VPDPBUSD.
//
// The file is longer than 300 lines because it has seven tiles, and an accumulator takes a line to clear, one to use and
// two to store.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/bitnet-autotune/bitnet-autotune/kernels/_asm/strided"
	"github.com/bitnet-autotune/bitnet-autotune/kernels/_asm/zmm"
)

const (
	vector = 64 // bytes of one row group in one step
	step   = 16 // columns of one step
)

// fields are masks that leave one 2-bit field of every byte in place.
var fields = [4]uint32{0x03030303, 0x0c0c0c0c, 0x30303030, 0xc0c0c0c0}

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
	zmm.One("i2sVNNI")
	w, wStride, x, steps := zmm.Argument("w"), zmm.Argument("wStride"), zmm.Argument("x"), zmm.Argument("steps")
	masks := fieldMasks()
	acc := zmm.Zeroes(4)

	Label("one")
	maskedDot(Mem{Base: w}, masks, broadcastStep(x), acc)
	ADDQ(Imm(step), x)
	ADDQ(wStride, w)
	DECQ(steps)
	JNZ(LabelRef("one"))

	zmm.StoreRows(combine(acc))
}

// decode is groups x 1: every field is left where it is in its byte and has an accumulator of its own, scaled by 1,
// 4, 16 or 64; they are brought together once, at the end. A mask costs less than the shift it saves.
func decode(groups int) {
	name := zmm.Tile("i2sVNNI", groups, 1)
	w, wStride, x, steps := zmm.Argument("w"), zmm.Argument("wStride"), zmm.Argument("x"), zmm.Argument("steps")
	ahead := zmm.PrefetchFrom(w)
	masks := fieldMasks()
	acc := make([][]VecVirtual, groups)
	for g := range acc {
		acc[g] = zmm.Zeroes(4)
	}

	Label(name)
	tokens := broadcastStep(x)
	for g := range groups {
		PREFETCHT0(Mem{Base: ahead, Disp: vector * g})
		maskedDot(Mem{Base: w, Disp: vector * g}, masks, tokens, acc[g])
	}
	ADDQ(Imm(step), x)
	ADDQ(wStride, w)
	ADDQ(wStride, ahead)
	DECQ(steps)
	JNZ(LabelRef(name))

	dst, sum := zmm.Argument("dst"), zmm.Argument("sum")
	for g := range groups {
		total := combine(acc[g])
		VPSUBD_BCST(Mem{Base: sum}, total, total)
		VMOVDQU32(total, Mem{Base: dst, Disp: vector * g})
	}
	VZEROUPPER()
	RET()
}

// batch is groups x tokens: a field is brought down and masked once for all tokens. The loop over the four fields
// is not unrolled: it would be four times the code at the same speed.
func batch(groups, tokens int) {
	name := zmm.Tile("i2sVNNI", groups, tokens)
	w, wStride, steps := zmm.Argument("w"), zmm.Argument("wStride"), zmm.Argument("steps")
	x := strided.Load("x", "xStride", tokens)
	ahead := zmm.PrefetchFrom(w)
	mask := zmm.Broadcast(fields[0])
	acc := make([][]VecVirtual, tokens)
	for t := range acc {
		acc[t] = zmm.Zeroes(groups)
	}
	weights, codes := zmm.Vectors(groups), zmm.Vectors(groups)
	field, token := GP32(), ZMM()

	Label(name)
	for g := range groups {
		PREFETCHT0(Mem{Base: ahead, Disp: vector * g})
		VMOVDQU32(Mem{Base: w, Disp: vector * g}, weights[g])
	}
	MOVL(U32(len(fields)), field)
	Label(name + "field")
	for g := range groups {
		VPANDD(weights[g], mask, codes[g])
		VPSRLD(Imm(2), weights[g], weights[g])
	}
	for t := range tokens {
		VPBROADCASTD(x.Row(t), token)
		for g := range groups {
			VPDPBUSD(token, codes[g], acc[t][g])
		}
	}
	x.Add(Imm(4))
	DECL(field)
	JNZ(LabelRef(name + "field"))
	ADDQ(wStride, w)
	ADDQ(wStride, ahead)
	DECQ(steps)
	JNZ(LabelRef(name))

	sum := zmm.Argument("sum")
	dst := strided.Load("dst", "dstStride", tokens)
	for t := range tokens {
		for g := range groups {
			VPSUBD_BCST(Mem{Base: sum, Disp: 4 * t}, acc[t][g], acc[t][g])
			VMOVDQU32(acc[t][g], dst.Row(t).Offset(vector*g))
		}
	}
	VZEROUPPER()
	RET()
}

func fieldMasks() []VecVirtual {
	masks := make([]VecVirtual, len(fields))
	for f := range masks {
		masks[f] = zmm.Broadcast(fields[f])
	}
	return masks
}

// broadcastStep loads the sixteen activations of a step, four to a vector.
func broadcastStep(x Register) []VecVirtual {
	tokens := zmm.Vectors(len(fields))
	for f := range tokens {
		VPBROADCASTD(Mem{Base: x, Disp: 4 * f}, tokens[f])
	}
	return tokens
}

// maskedDot adds the four fields of one vector of weights, times their activations, to the accumulators.
func maskedDot(w Mem, masks, tokens, acc []VecVirtual) {
	weights := ZMM()
	VMOVDQU32(w, weights)
	for f := range fields {
		codes := ZMM()
		VPANDD(weights, masks[f], codes)
		VPDPBUSD(tokens[f], codes, acc[f])
	}
}

// combine returns acc[0] + acc[1]/4 + acc[2]/16 + acc[3]/64; the divisions are exact.
func combine(acc []VecVirtual) VecVirtual {
	for f := 1; f < len(acc); f++ {
		VPSRAD(Imm(uint64(2*f)), acc[f], acc[f])
		VPADDD(acc[f], acc[0], acc[0])
	}
	return acc[0]
}
