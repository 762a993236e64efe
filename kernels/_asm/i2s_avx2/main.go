// Command i2s_avx2 prints kernels/mul_i2s_avx2_amd64.s: the register tiles of layout i2s in VPMADDUBSW.
//
// The file is long because each number of tokens is a routine of its own, and those of one and of six tokens are not loops
// over the fields: see decode and batch.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "github.com/bitnet-autotune/bitnet-autotune/kernels/_asm/strip"
)

// mask leaves the lowest field of every byte; it lies in memory for want of a register.
var mask Mem

func main() {
	ConstraintExpr("!purego")
	mask = GLOBL("i2sLowestField", RODATA|NOPTR)
	for i := range 4 {
		DATA(8*i, U64(0x0303030303030303))
	}
	decode(1, 1)
	decode(4, 2)
	for _, tokens := range []int{2, 3, 4, 5, 6} {
		batch(4, tokens)
	}
	Generate()
}

// decode is groups x 1, some groups together. Fields 1 and 3 stay two bits up, which saves a shift each; their sums
// are four times as large. Sums of pairs are int16: a step adds at most 2 * 2 * 8 * 128 = 4096 to one, so eight steps
// just fit (-128 gives -32768, 127 gives 32512). Brought down and added to the plain sums they fit with room to spare.
func decode(groups, together int) {
	t := Open("i2sAVX2", groups, 1, 8, Group*together)
	halves := 2 * together
	plain, fourfold := Y[:halves], Y[halves:2*halves]
	token, low, second, weights, codes := Y[8:12], Y[12], Y[13], Y[14], Y[15]
	Broadcast(0x03030303, low)
	Broadcast(0x0c0c0c0c, second)
	add := func(mask, token, sum VecPhysical) {
		VPAND(weights, mask, codes)
		VPMADDUBSW(token, codes, codes)
		VPADDW(codes, sum, sum)
	}
	t.Chunks(func() {
		Clear(Y[:2*halves])
	}, func() {
		for f := range Fields {
			VPBROADCASTD(t.X.Row(0).Offset(4*f), token[f])
		}
		for h := range halves {
			VMOVDQU(Mem{Base: t.W, Disp: Half * h}, weights)
			add(low, token[0], plain[h])
			add(second, token[1], fourfold[h])
			VPSRLW(Imm(4), weights, weights)
			add(low, token[2], plain[h])
			add(second, token[3], fourfold[h])
		}
		t.X.Add(Imm(Step))
	}, func() {
		one := token[0]
		Broadcast(0x00010001, one)
		for h := range halves {
			VPSRAW(Imm(2), fourfold[h], fourfold[h])
			VPADDW(fourfold[h], plain[h], plain[h])
			VPMADDWD(plain[h], one, plain[h])
		}
		t.AddToDst(plain)
	})
}

// batch is groups x tokens. A step adds at most 4 * 2 * 2 * 128 = 2048 to an int16, so sixteen steps just fit.
//
// With up to five tokens the weights stay in registers and the loop over the fields is not unrolled. Six tokens leave
// none for them: they are read again for each field, and as a shift wants a constant, the loop is unrolled.
func batch(groups, tokens int) {
	t := Open("i2sAVX2", groups, tokens, 16, Group)
	sums := Y[:2*tokens]
	weights, codes, token, product := Y[10:12], Y[12:14], Y[14], Y[15]
	field := func(f int) {
		for i := range tokens {
			VPBROADCASTD(t.X.Row(i).Offset(4*f), token)
			VPMADDUBSW(token, codes[0], product)
			VPADDW(product, sums[2*i], sums[2*i])
			VPMADDUBSW(token, codes[1], token)
			VPADDW(token, sums[2*i+1], sums[2*i+1])
		}
	}
	rolled := func() {
		for h, w := range weights {
			VMOVDQU(Mem{Base: t.W, Disp: Half * h}, w)
		}
		left := GP32()
		MOVL(U32(Fields), left)
		Label(t.Name + "field")
		for h, w := range weights {
			VPAND(mask, w, codes[h])
			VPSRLW(Imm(2), w, w)
		}
		field(0)
		t.X.Add(Imm(4))
		DECL(left)
		JNZ(LabelRef(t.Name + "field"))
	}
	unrolled := func() {
		for f := range Fields {
			for h, c := range codes {
				VMOVDQU(Mem{Base: t.W, Disp: Half * h}, c)
				if f > 0 {
					VPSRLW(Imm(uint64(2*f)), c, c)
				}
				VPAND(mask, c, c)
			}
			field(f)
		}
		t.X.Add(Imm(Step))
	}
	body := rolled
	if tokens > 5 {
		body = unrolled
	}
	t.Chunks(func() {
		Clear(sums)
	}, body, func() {
		one := token
		Broadcast(0x00010001, one)
		for _, s := range sums {
			VPMADDWD(s, one, s)
		}
		t.AddToDst(sums)
	})
}
