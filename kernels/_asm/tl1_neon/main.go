// Command tl1_neon prints kernels/mul_tl1_neon_arm64.s: partial sums of layout tl1 looked up with TBL.
//
// The file is longer than a hand would write it because a step of four groups is 170 lines, all of them different: a
// loop over its four vectors would cost a tenth, as it had to clear the byte sums and add to them once more.
package main

import (
	"fmt"

	. "github.com/bitnet-autotune/bitnet-autotune/kernels/_asm/arm64"
)

const (
	vector  = 16 // bytes: sixteen rows by two pairs of columns
	vectors = 4  // of a group in a step
	pairs   = 9  // of digits, and so entries of a table
	table   = 32 // bytes: the low and the high parts of the sums
	low     = 5  // bits of the low part
	chunk   = 128
)

func main() {
	digits()
	tables()
	tile(1)
	tile(4)
	Generate("tl1_neon")
}

// digits are the two weights of each pair.
func digits() {
	var first, second [16]int8
	for i := range pairs {
		first[i], second[i] = int8(i/3)-1, int8(i%3)-1
	}
	Data("tl1Digits", 0, first)
	Data("tl1Digits", 16, second)
	Global("tl1Digits", 32)
}

// tables prints the routine that makes the tables of some pairs of activations.
func tables() {
	const out, x, left = "R0", "R1", "R2"
	const x0, x1, sums, sumsHigh, lows, highs, mask, first, second = V(0), V(1), V(2), V(3), V(4), V(5), V(29), V(30), V(31)
	Text("tl1NEONTables", "(tables *byte, x *int8, pairs int)", 24)
	I("MOVD", "tables+0(FP), %s", out)
	I("MOVD", "x+8(FP), %s", x)
	I("MOVD", "pairs+16(FP), %s", left)
	I("MOVD", "$tl1Digits<>(SB), R3")
	Load("R3", 0, first, second)
	Bytes(mask, 1<<low-1)
	Label("pair")
	I("VLD2R.P", "2(%s), [%s.B16, %s.B16]", x, x0, x1)
	SMULL(sums, first, x0)
	SMULL2(sumsHigh, first, x0)
	SMLAL(sums, second, x1)
	SMLAL2(sumsHigh, second, x1)
	Three("VUZP1", "B16", lows, sums, sumsHigh)
	Three("VAND", "B16", lows, lows, mask)
	SHRN(highs, sums, low)
	SHRN2(highs, sumsHigh, low)
	I("FSTPQ.P", "(%s, %s), %d(%s)", lows.Q(), highs.Q(), table, out)
	I("SUBS", "$1, %s", left)
	I("BNE", "pair")
	Return()
}

// tile prints the routine for some groups of rows. A partial sum is at least -256 and at most 256; its low five bits
// are a byte without sign, the rest one with a sign. The eight pairs of a step add up to at most 8 * 31 = 248 and
// 8 * 8 = 64 in bytes, and the 128 steps of a chunk to 31744 and 8192 in int16.
func tile(groups int) {
	const dst, w, wStride, at, left, ahead, count = "R0", "R1", "R2", "R3", "R4", "R5", "R6"
	const weights, index, part, mask = V(28), V(29), V(30), V(31)
	bytes := func(g, part int) V { return V(2*g + part) }
	words := func(g, part, half int) V { return V(2*groups + 4*g + 2*part + half) }
	sums := Range(V(2*groups), 4*groups)
	lookup := Range(24, 4) // low and high parts of two pairs

	Text(fmt.Sprintf("tl1NEONTile%dx1", groups), "(dst *int32, w *byte, wStride int, tables *byte, steps int, prefetch int)", 48)
	I("MOVD", "dst+0(FP), %s", dst)
	I("MOVD", "w+8(FP), %s", w)
	I("MOVD", "wStride+16(FP), %s", wStride)
	I("MOVD", "tables+24(FP), %s", at)
	I("MOVD", "steps+32(FP), %s", left)
	I("MOVD", "prefetch+40(FP), %s", ahead)
	I("ADD", "%s, %s", w, ahead)
	Bytes(mask, 15)
	Label("chunk")
	I("MOVD", "$%d, %s", chunk, count)
	I("CMP", "%s, %s", count, left)
	I("CSEL", "LT, %s, %s, %s", left, count, count)
	I("SUB", "%s, %s", count, left)
	Zero(sums...)
	Label("step")
	for g := range groups {
		I("PRFM", "%d(%s), PLDL1KEEP", g*vectors*vector, ahead)
	}
	for v := range vectors {
		Load(at, 2*v*table, lookup[:2]...)
		Load(at, (2*v+1)*table, lookup[2:]...)
		for g := range groups {
			Load(w, (g*vectors+v)*vector, weights)
			Three("VAND", "B16", index, weights, mask)
			Shift("VUSHR", "B16", weights, weights, 4)
			for i, l := range lookup {
				selected := []V{index, weights}[i/2]
				sum := bytes(g, i%2)
				if v == 0 && i < 2 {
					TBL(sum, l, selected)
					continue
				}
				TBL(part, l, selected)
				Three("VADD", "B16", sum, sum, part)
			}
		}
	}
	for g := range groups {
		UADDW(words(g, 0, 0), words(g, 0, 0), bytes(g, 0))
		UADDW2(words(g, 0, 1), words(g, 0, 1), bytes(g, 0))
		SADDW(words(g, 1, 0), words(g, 1, 0), bytes(g, 1))
		SADDW2(words(g, 1, 1), words(g, 1, 1), bytes(g, 1))
	}
	I("ADD", "$%d, %s", 2*vectors*table, at)
	I("ADD", "%s, %s", wStride, w)
	I("ADD", "%s, %s", wStride, ahead)
	I("SUBS", "$1, %s", count)
	I("BNE", "step")
	for g := range groups {
		for half := range 2 {
			lows, highs := words(g, 0, half), words(g, 1, half)
			first, second := lookup[0], lookup[1]
			SSHLL(first, highs, low)
			SSHLL2(second, highs, low)
			Widen16(first, first, lows)
			Widen16High(second, second, lows)
			offset := (g*4 + half*2) * vector
			Load(dst, offset, lookup[2:]...)
			Three("VADD", "S4", first, first, lookup[2])
			Three("VADD", "S4", second, second, lookup[3])
			Store(dst, offset, first, second)
		}
	}
	I("CBNZ", "%s, chunk", left)
	Return()
}
