// Command i2s_neon prints kernels/mul_i2s_neon_arm64.s: the register tiles of layout i2s in SMLAL, for CPUs without
// SDOT.
//
// The file is long because each number of tokens is a routine of about 120 lines: an accumulator takes a line in each of
// four fields, and four to bring it to dst.
package main

import (
	. "github.com/bitnet-autotune/bitnet-autotune/kernels/_asm/arm64"
	"github.com/bitnet-autotune/bitnet-autotune/kernels/_asm/tile"
)

const fields = 4

var (
	mask  = V(31)
	codes = Range(27, fields) // the first is the vector of weights itself
)

func main() {
	print(1, 1, 4)
	for tokens := 1; tokens <= 4; tokens++ {
		print(4, tokens, max(1, 4/tokens))
	}
	Generate("i2s_neon")
}

// print prints a tile. A product of a step goes to an int16 of its own row and byte: in a step it grows by
// at most 4 * 2 * 128, so 32 steps just fit (-128 gives -32768, 127 gives 32512), and only then are sums made across
// bytes. Eight SMLAL per vector and token all go through the one multiplier of most CPUs, beside which the shifts and
// masks are free: one multiplication more would cost more than the in-place masks of the SDOT tiles save.
func print(groups, tokens, vectors int) {
	low := func(v, t int) V { return V(2 * (v*tokens + t)) }
	high := func(v, t int) V { return low(v, t) + 1 }
	used := V(2 * vectors * tokens)
	x := Range(used, fields*tokens) // field f of token t, broadcast
	tile.Tile{Groups: groups, Tokens: tokens, Vectors: vectors, Chunk: 32}.Print("i2sNEON",
		func() { Bytes(mask, 3) },
		func() { Zero(Range(0, int(used))...) },
		func() {
			for t := range tokens {
				four := x[fields*t:]
				I("VLD4R.P", "16(%s), [%s.S4, %s.S4, %s.S4, %s.S4]", tile.X[t], four[0], four[1], four[2], four[3])
			}
			for v := range vectors {
				w := codes[0]
				Load(tile.W, 16*v, w)
				for f := 1; f < fields; f++ {
					Shift("VUSHR", "B16", codes[f], w, 2*f)
				}
				for _, code := range codes[:fields-1] {
					Three("VAND", "B16", code, code, mask)
				}
				for f, code := range codes {
					for t := range tokens {
						SMLAL(low(v, t), code, x[fields*t+f])
						SMLAL2(high(v, t), code, x[fields*t+f])
					}
				}
			}
		},
		func() ([][]V, V) {
			sums := make([][]V, vectors)
			for v := range vectors {
				for t := range tokens {
					SADDLP(low(v, t), low(v, t))
					SADDLP(high(v, t), high(v, t))
					Three("VADDP", "S4", low(v, t), low(v, t), high(v, t))
					sums[v] = append(sums[v], low(v, t))
				}
			}
			return sums, codes[0]
		})
}
