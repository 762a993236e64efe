// Package tile prints the frame of a register tile of layout i2s on arm64: what surrounds the instructions of one step.
//
// 32 registers hold the sums of a few vectors of rows only, if every token and every field is to have its own. So the
// columns are cut into chunks, small enough for the first cache, and each chunk is walked once for every strip: a few
// vectors of rows, in all tokens. dst serves as the int32 accumulator between chunks.
package tile

import (
	"fmt"

	. "github.com/bitnet-autotune/bitnet-autotune/kernels/_asm/arm64"
)

const (
	vector = 16 // bytes: four rows in one step
	group  = 4  // vectors
)

// Tile is Groups x Tokens.
type Tile struct {
	Groups, Tokens int
	Vectors        int // of a strip
	Chunk          int // steps of a chunk
}

// Registers of the frame; sums[v][t] is what ends up in dst.
const (
	dst, dstStride  = "R0", "R1"
	first, wStride  = "R2", "R3"
	left, prefetch  = "R4", "R5"
	count, strips   = "R6", "R7"
	steps           = "R8"
	W               = "R9" // the strip's weights in this step
	ahead           = "R10"
	row, otherValue = "R11", "R12"
)

// X are the activations of each token in this step; the last use in a step must move them on, by 16 bytes.
var X = []string{"R13", "R14", "R15", "R19", "R20", "R21", "R22", "R23"}

// Print prints the routine. begin sets up constants; clear, step and end are printed once each, and end returns
// the int32 sums of vector v and token t of the strip. begin may use any vector register and leave constants in those
// from 24 on; end may use all from free on.
func (t Tile) Print(prefix string, begin, clear, step func(), end func() (sums [][]V, free V)) {
	Text(fmt.Sprintf("%sTile%dx%d", prefix, t.Groups, t.Tokens),
		"(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)", 72)
	I("MOVD", "dst+0(FP), %s", dst)
	I("MOVD", "dstStride+8(FP), %s", dstStride)
	I("MOVD", "w+16(FP), %s", first)
	I("MOVD", "wStride+24(FP), %s", wStride)
	I("MOVD", "x+32(FP), %s", X[0])
	I("MOVD", "xStride+40(FP), %s", row)
	I("MOVD", "sum+48(FP), %s", otherValue)
	I("MOVD", "steps+56(FP), %s", left)
	I("MOVD", "prefetch+64(FP), %s", prefetch)
	for i := range t.Tokens - 1 {
		I("ADD", "%s, %s, %s", row, X[i], X[i+1])
	}
	t.negateSums()
	begin()

	Label("chunk")
	I("MOVD", "$%d, %s", t.Chunk, count)
	I("CMP", "%s, %s", count, left)
	I("CSEL", "LT, %s, %s, %s", left, count, count)
	t.eachStrip(func() {
		clear()
		I("MOVD", "%s, %s", first, W)
		I("ADD", "%s, %s, %s", prefetch, first, ahead)
		I("MOVD", "%s, %s", count, steps)
		Label("step")
		for at := 0; at < t.Vectors; at += group {
			I("PRFM", "%d(%s), PLDL1KEEP", at*vector, ahead)
		}
		step()
		I("ADD", "%s, %s", wStride, W)
		I("ADD", "%s, %s", wStride, ahead)
		I("SUBS", "$1, %s", steps)
		I("BNE", "step")
		t.addToDst(end())
	})
	I("SUBS", "%s, %s", count, left)
	I("BNE", "chunk")
	Return()
}

// negateSums sets every row of dst to -sum[t].
func (t Tile) negateSums() {
	I("MOVD", "%s, %s", dst, row)
	I("MOVD", "$%d, %s", t.Tokens, steps)
	Zero(0)
	Label("token")
	I("VLD1R.P", "4(%s), [V1.S4]", otherValue)
	Three("VSUB", "S4", 1, 0, 1)
	for v := 0; v < t.Groups*group; v += 2 {
		Store(row, v*vector, 1, 1)
	}
	I("ADD", "%s, %s", dstStride, row)
	I("SUBS", "$1, %s", steps)
	I("BNE", "token")
}

// eachStrip loops over the strips of a chunk, and leaves dst where it was and everything else behind the chunk.
func (t Tile) eachStrip(strip func()) {
	n := t.Groups * group / t.Vectors
	if n > 1 {
		I("MOVD", "$%d, %s", n, strips)
		Label("strip")
	}
	strip()
	if n == 1 {
		I("MADD", "%s, %s, %s, %s", wStride, first, count, first)
		return
	}
	I("ADD", "$%d, %s", t.Vectors*vector, first)
	I("ADD", "$%d, %s", t.Vectors*vector, dst)
	I("SUBS", "$1, %s", strips)
	I("BEQ", "next")
	for i := range t.Tokens {
		I("SUB", "%s<<4, %s", count, X[i])
	}
	I("B", "strip")
	Label("next")
	I("SUB", "$%d, %s", t.Groups*group*vector, dst)
	I("SUB", "$%d, %s", t.Groups*group*vector, first)
	I("MADD", "%s, %s, %s, %s", wStride, first, count, first)
}

func (t Tile) addToDst(sums [][]V, free V) {
	I("MOVD", "%s, %s", dst, row)
	for i := range t.Tokens {
		if i > 0 {
			I("ADD", "%s, %s", dstStride, row)
		}
		for v := range t.Vectors {
			Load(row, v*vector, free)
			Three("VADD", "S4", free, free, sums[v][i])
			Store(row, v*vector, free)
		}
	}
}
