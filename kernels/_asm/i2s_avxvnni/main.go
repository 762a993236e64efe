// Command i2s_avxvnni prints kernels/mul_i2s_avxvnni_amd64.s: the register tiles of layout i2s in the VPDPBUSD of AVX-VNNI.
//
// The file is long because each number of tokens is a routine of its own, in which a field is a shift by another constant
// and so not a loop.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "github.com/bitnet-autotune/bitnet-autotune/kernels/_asm/strip"
)

// most steps of a strip make a chunk: 8 KiB of weights, whose other strips are then in the L1 cache.
const most = 32

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
	batch(4, 2, 2)
	batch(4, 3, 2)
	batch(4, 4, 1)
	batch(4, 5, 1)
	batch(4, 6, 1)
	Generate()
}

// decode is groups x 1, some groups together. Fields 1 and 3 stay two bits up, which saves a shift each, and have sums of
// their own, four times as large. A field left further up would want more sums than there are registers.
func decode(groups, together int) {
	t := Open("i2sAVXVNNI", groups, 1, most, Group*together)
	halves := 2 * together
	plain, fourfold := Y[:halves], Y[halves:2*halves]
	token, low, second, weights, codes := Y[8:12], Y[12], Y[13], Y[14], Y[15]
	add := func(mask, token, sum VecPhysical) {
		VPAND(weights, mask, codes)
		vpdpbusd(token, codes, sum)
	}
	Broadcast(0x03030303, low)
	Broadcast(0x0c0c0c0c, second)
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
		for h := range halves {
			VPSRAD(Imm(2), fourfold[h], fourfold[h])
			VPADDD(fourfold[h], plain[h], plain[h])
		}
		t.AddToDst(plain)
	})
}

// batch is groups x tokens, some groups together: with fewer than eight sums the latency of VPDPBUSD shows. The weights
// are read again for each field, as there is no register to keep them in. Up to five tokens wait in registers for one
// register of codes; six leave room for the codes of one group instead.
func batch(groups, tokens, together int) {
	t := Open("i2sAVXVNNI", groups, tokens, most, Group*together)
	halves := 2 * together
	sums, rest := Y[:halves*tokens], Y[halves*tokens:]
	decode := func(f, h int, codes VecPhysical) {
		VMOVDQU(Mem{Base: t.W, Disp: Half * h}, codes)
		if f > 0 {
			VPSRLW(Imm(uint64(2*f)), codes, codes)
		}
		VPAND(mask, codes, codes)
	}
	tokensWait := func(f int) {
		token, codes := rest[:tokens], rest[tokens]
		for i := range tokens {
			VPBROADCASTD(t.X.Row(i).Offset(4*f), token[i])
		}
		for h := range halves {
			decode(f, h, codes)
			for i := range tokens {
				vpdpbusd(token[i], codes, sums[halves*i+h])
			}
		}
	}
	codesWait := func(f int) {
		codes, token := rest[:halves], rest[halves]
		for h := range halves {
			decode(f, h, codes[h])
		}
		for i := range tokens {
			VPBROADCASTD(t.X.Row(i).Offset(4*f), token)
			for h := range halves {
				vpdpbusd(token, codes[h], sums[halves*i+h])
			}
		}
	}
	field := tokensWait
	if len(rest) <= tokens {
		field = codesWait
	}
	t.Chunks(func() {
		Clear(sums)
	}, func() {
		for f := range Fields {
			field(f)
		}
		t.X.Add(Imm(Step))
	}, func() {
		t.AddToDst(sums)
	})
}

// vpdpbusd emits VPDPBUSD as bytes, with the mnemonic behind them: the assembler knows it as AVX-512 only. The encoding is
// VEX.256.66.0F38.W0 50 /r (Intel SDM, volume 2): sum in reg, codes in vvvv, token in rm.
func vpdpbusd(token, codes, sum VecPhysical) {
	reg, vvvv, rm := sum.ID().Index(), codes.ID().Index(), token.ID().Index()
	const notX, map0F38, l256, prefix66 = 0x40, 2, 4, 1
	bytes := [5]byte{
		0xc4,
		byte(^reg>>3&1<<7) | notX | byte(^rm>>3&1<<5) | map0F38,
		byte(^vvvv&15<<3) | l256 | prefix66,
		0x50,
		byte(0xc0 | reg&7<<3 | rm&7),
	}
	Instruction(&ir.Instruction{
		Opcode: "LONG", // the operand is no label, but that is what avo prints as it stands
		Operands: []Op{LabelRef(fmt.Sprintf("$0x%02x%02x%02x%02x; BYTE $0x%02x // VPDPBUSD %s, %s, %s",
			bytes[3], bytes[2], bytes[1], bytes[0], bytes[4], token.Asm(), codes.Asm(), sum.Asm()))},
		ISA: []string{"AVXVNNI"},
	})
}
