// Command i2s_avx512vnni prints kernels/mul_i2s_avx512vnni_amd64.s: the register tiles of layout i2s in VPDPBUSD.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/bitnet-autotune/bitnet-autotune/kernels/_asm/strided"
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
	TEXT("i2sVNNIOne", NOSPLIT, "func(dst *int32, rows int, w *byte, wStride int, x *int8, sum int32, steps int)")
	w, wStride, x, steps := argument("w"), argument("wStride"), argument("x"), argument("steps")
	masks := fieldMasks()
	acc := zeroes(4)

	Label("one")
	maskedDot(Mem{Base: w}, masks, broadcastStep(x), acc)
	ADDQ(Imm(step), x)
	ADDQ(wStride, w)
	DECQ(steps)
	JNZ(LabelRef("one"))

	total := combine(acc)
	sum := ZMM()
	VPBROADCASTD(Load(Param("sum"), GP32()), sum)
	VPSUBD(sum, total, total)
	Load(Param("rows"), RCX)
	lanes, mask := GP32(), K()
	MOVL(U32(1), lanes)
	SHLL(CL, lanes)
	DECL(lanes)
	KMOVW(lanes, mask)
	VMOVDQU32(total, mask, Mem{Base: argument("dst")})
	VZEROUPPER()
	RET()
}

// decode is groups x 1: every field is left where it is in its byte and has an accumulator of its own, scaled by 1,
// 4, 16 or 64; they are brought together once, at the end. A mask costs less than the shift it saves.
func decode(groups int) {
	name := tile(groups, 1)
	w, wStride, x, steps := argument("w"), argument("wStride"), argument("x"), argument("steps")
	ahead := prefetchFrom(w)
	masks := fieldMasks()
	acc := make([][]VecVirtual, groups)
	for g := range acc {
		acc[g] = zeroes(4)
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

	dst, sum := argument("dst"), argument("sum")
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
	name := tile(groups, tokens)
	w, wStride, steps := argument("w"), argument("wStride"), argument("steps")
	x := strided.Load("x", "xStride", tokens)
	ahead := prefetchFrom(w)
	mask := broadcast(fields[0])
	acc := make([][]VecVirtual, tokens)
	for t := range acc {
		acc[t] = zeroes(groups)
	}
	weights, codes := vectors(groups), vectors(groups)
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

	sum := argument("sum")
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

// tile opens the routine of a register tile and returns the name of its labels.
func tile(groups, tokens int) string {
	name := fmt.Sprintf("%dx%d", groups, tokens)
	TEXT("i2sVNNITile"+name, NOSPLIT, "func(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)")
	return "tile" + name
}

func argument(name string) Register { return Load(Param(name), GP64()) }

// prefetchFrom returns an address that runs ahead of w by the argument prefetch.
func prefetchFrom(w Register) Register {
	ahead := argument("prefetch")
	ADDQ(w, ahead)
	return ahead
}

func vectors(n int) []VecVirtual {
	v := make([]VecVirtual, n)
	for i := range v {
		v[i] = ZMM()
	}
	return v
}

func zeroes(n int) []VecVirtual {
	v := vectors(n)
	for i := range v {
		VPXORD(v[i], v[i], v[i])
	}
	return v
}

func broadcast(value uint32) VecVirtual {
	r, v := GP32(), ZMM()
	MOVL(U32(value), r)
	VPBROADCASTD(r, v)
	return v
}

func fieldMasks() []VecVirtual {
	masks := make([]VecVirtual, len(fields))
	for f := range masks {
		masks[f] = broadcast(fields[f])
	}
	return masks
}

// broadcastStep loads the sixteen activations of a step, four to a vector.
func broadcastStep(x Register) []VecVirtual {
	tokens := vectors(len(fields))
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
