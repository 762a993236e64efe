// Command t5_avx512vbmi prints kernels/mul_t5_avx512vbmi_amd64.s: the register tiles of layout t5 in VPERMB and VPDPBUSD.
//
// The file is long because the five weights of a byte, each of which has a table of its own, are not a loop.
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
	byHigh  = 3           // the first weight that is looked up by the high six bits
)

func main() {
	ConstraintExpr("!purego")
	one()
	decode(4)
	for _, tokens := range []int{2, 3, 4, 5} {
		batch(4, tokens)
	}
	batch(2, 8)
	Generate()
}

// one is a single row group times a single token, of which the first rows are stored.
func one() {
	One("t5VBMI")
	w, wStride, x, steps := Argument("w"), Argument("wStride"), Argument("x"), Argument("steps")
	tables := loadTables()
	acc := Zeroes(weights)

	Label("one")
	bytes := ZMM()
	VMOVDQU32(Mem{Base: w}, bytes)
	for f := range weights {
		codes := ZMM()
		tables.codes(f, bytes, codes)
		VPDPBUSD_BCST(Mem{Base: x, Disp: 4 * f}, codes, acc[f])
	}
	ADDQ(Imm(step), x)
	ADDQ(wStride, w)
	DECQ(steps)
	JNZ(LabelRef("one"))

	for f := 1; f < weights; f++ {
		VPADDD(acc[f], acc[0], acc[0])
	}
	StoreRows(acc[0])
}

// decode is groups x 1. Each group has two accumulators, which weights take in turn: five additions to one would take
// longer than all else in a step.
func decode(groups int) {
	name := Tile("t5VBMI", groups, 1)
	w, wStride, x, steps := Argument("w"), Argument("wStride"), Argument("x"), Argument("steps")
	ahead := PrefetchFrom(w)
	tables := loadTables()
	even, odd := Zeroes(groups), Zeroes(groups)
	tokens := Vectors(weights)

	Label(name)
	for f := range tokens {
		VPBROADCASTD(Mem{Base: x, Disp: 4 * f}, tokens[f])
	}
	for g := range groups {
		PREFETCHT0(Mem{Base: ahead, Disp: vector * g})
		bytes := ZMM()
		VMOVDQU32(Mem{Base: w, Disp: vector * g}, bytes)
		for f := range weights {
			codes := ZMM()
			tables.codes(f, bytes, codes)
			if f%2 == 0 {
				VPDPBUSD(tokens[f], codes, even[g])
			} else {
				VPDPBUSD(tokens[f], codes, odd[g])
			}
		}
	}
	ADDQ(Imm(step), x)
	ADDQ(wStride, w)
	ADDQ(wStride, ahead)
	DECQ(steps)
	JNZ(LabelRef(name))

	dst, sum := Argument("dst"), Argument("sum")
	for g := range groups {
		VPADDD(odd[g], even[g], even[g])
		VPSUBD_BCST(Mem{Base: sum}, even[g], even[g])
		VMOVDQU32(even[g], Mem{Base: dst, Disp: vector * g})
	}
	VZEROUPPER()
	RET()
}

// batch is groups x tokens: a weight of all groups is looked up once for all tokens.
func batch(groups, tokens int) {
	name := Tile("t5VBMI", groups, tokens)
	w, wStride, steps := Argument("w"), Argument("wStride"), Argument("steps")
	x := strided.Load("x", "xStride", tokens)
	ahead := PrefetchFrom(w)
	tables := tablesInMemory()
	if groups*tokens+2*groups+1+1+weights <= 32 { // sums, bytes and codes, token, twoBits, tables
		tables = loadTables()
	}
	acc := make([][]VecVirtual, tokens)
	for t := range acc {
		acc[t] = Zeroes(groups)
	}
	bytes, codes, token := Vectors(groups), Vectors(groups), ZMM()

	Label(name)
	for g := range groups {
		PREFETCHT0(Mem{Base: ahead, Disp: vector * g})
		VMOVDQU32(Mem{Base: w, Disp: vector * g}, bytes[g])
	}
	for f := range weights {
		for g := range groups {
			tables.codes(f, bytes[g], codes[g])
		}
		for t := range tokens {
			VPBROADCASTD(x.Row(t).Offset(4*f), token)
			for g := range groups {
				VPDPBUSD(token, codes[g], acc[t][g])
			}
		}
	}
	x.Add(Imm(step))
	ADDQ(wStride, w)
	ADDQ(wStride, ahead)
	DECQ(steps)
	JNZ(LabelRef(name))

	sum := Argument("sum")
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

// tables are what it takes to look up the codes of each weight.
type tables struct {
	of      [weights]Op
	twoBits Register // 0xc0 in every byte
}

func tablesInMemory() *tables {
	t := &tables{twoBits: Broadcast(0xc0c0c0c0)}
	for f := range t.of {
		t.of[f] = Mem{Symbol: Symbol{Name: "·t5Tables"}, Base: StaticBase, Disp: vector * f}
	}
	return t
}

func loadTables() *tables {
	t := tablesInMemory()
	for f := range t.of {
		v := ZMM()
		VMOVDQU32(t.of[f], v)
		t.of[f] = v
	}
	return t
}

// codes looks up weight f of every byte; the weights must come in order, as bytes are moved down on the way. VPERMB
// sees the low six bits of a byte alone, and so does not mind what the move of whole words leaves in the others.
func (t *tables) codes(f int, bytes, codes Register) {
	switch f {
	case byHigh - 1: // all with both top bits set become the first of them, whose low six bits are those of code 0
		VPMINUB(t.twoBits, bytes, codes)
		VPERMB(t.of[f], codes, codes)
		return
	case byHigh:
		VPSRLW(Imm(2), bytes, bytes)
	}
	VPERMB(t.of[f], bytes, codes)
}
