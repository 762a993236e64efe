// Command i2s_dotprod prints kernels/mul_i2s_dotprod_arm64.s: the register tiles of layout i2s in SDOT.
//
// The file is longer than a hand would write it because each number of tokens is a routine of about 90 lines: an
// accumulator takes a line in a step, and three to bring it to dst.
package main

import (
	. "github.com/bitnet-autotune/bitnet-autotune/kernels/_asm/arm64"
	"github.com/bitnet-autotune/bitnet-autotune/kernels/_asm/tile"
)

const (
	step   = 16 // columns
	fields = 4
	scales = 3 // sums of fields 0 and 3, of four times field 1, and of sixteen times field 2
)

var (
	codes = Range(24, fields) // the last is the vector of weights itself
	x     = V(28)
	masks = Range(29, scales)
)

func main() {
	print(1, 1, 4)
	for tokens := 1; tokens <= 8; tokens++ {
		print(4, tokens, max(1, 4/tokens))
	}
	Generate("i2s_dotprod")
}

// print prints a tile. Fields 1 and 2 stay where they are in the byte, which saves a shift each, but makes their
// sums four and sixteen times as large: so each of the vectors x tokens has three sums, and at most eight have room.
// Field 3 would be the sign of a byte and is brought down, to be summed with field 0.
//
// A chunk of 64 steps is 16 KiB of weights in four groups.
func print(groups, tokens, vectors int) {
	sum := func(v, t, scale int) V { return V((v*tokens+t)*scales + scale) }
	used := vectors * tokens * scales
	step := func() {
		if tokens == 1 {
			I("FMOVQ.P", "%d(%s), %s", step, tile.X[0], x.Q())
		}
		for v := range vectors {
			w := codes[3]
			Load(tile.W, 16*v, w)
			for f, mask := range masks {
				Three("VAND", "B16", codes[f], w, mask)
			}
			Shift("VUSHR", "B16", w, w, 6)
			for t := range tokens {
				switch {
				case tokens == 1:
				case v < vectors-1:
					Load(tile.X[t], 0, x)
				default:
					I("FMOVQ.P", "%d(%s), %s", step, tile.X[t], x.Q())
				}
				for f, code := range codes {
					SDOT(sum(v, t, f%scales), code, x, f)
				}
			}
		}
	}
	tile.Tile{Groups: groups, Tokens: tokens, Vectors: vectors, Chunk: 64}.Print("i2sDotProd",
		func() {
			for f, mask := range masks {
				Bytes(mask, 3<<(2*f))
			}
		},
		func() { Zero(Range(0, used)...) },
		step,
		func() ([][]V, V) {
			sums := make([][]V, vectors)
			for v := range vectors {
				for t := range tokens {
					for scale := scales - 1; scale > 0; scale-- {
						SSRA(sum(v, t, scale-1), sum(v, t, scale), 2)
					}
					sums[v] = append(sums[v], sum(v, t, 0))
				}
			}
			return sums, codes[0]
		})
}
