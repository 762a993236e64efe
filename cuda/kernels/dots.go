package kernels

import (
	"fmt"

	cpu "github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// The kernels of src/dots.cuh: dp4a, up to four tokens. Unrolling and rows beyond what is here would cost more registers
// than the latency they hide is worth: 65 for the weights of four tiles, 128 for the sums of four rows and four tokens.
func init() {
	for _, warps := range []int{1, 2, 4, 8} {
		for _, g := range []Geometry{{RowTiles: 1, Unroll: 1}, {RowTiles: 1, Unroll: 2}, {RowTiles: 1, Unroll: 4}, {RowTiles: 2, Unroll: 1}, {RowTiles: 2, Unroll: 2}, {RowTiles: 4, Unroll: 1}} {
			g.Warps, g.Tokens = warps, 1
			registerDots(cpu.I2S, NoShift, "NoShift", g)
			if g.Unroll == 1 && g.RowTiles <= 2 {
				registerDots(cpu.I2S, Shift, "Shift", g)
				registerDots(cpu.TL1, Decode, "TL1", g)
				registerDots(cpu.TL2, Decode, "TL2", g)
			}
		}
	}
	for _, warps := range []int{2, 4, 8} {
		for _, tokens := range []int{2, 4} {
			registerDots(cpu.I2S, NoShift, "NoShift", Geometry{Warps: warps, RowTiles: 1, Tokens: tokens, Unroll: 1})
			registerDots(cpu.I2S, NoShift, "NoShift", Geometry{Warps: warps, RowTiles: 2, Tokens: tokens, Unroll: 1})
		}
		registerDots(cpu.TL1, Decode, "TL1", Geometry{Warps: warps, RowTiles: 1, Tokens: 4, Unroll: 1})
		registerDots(cpu.TL2, Decode, "TL2", Geometry{Warps: warps, RowTiles: 1, Tokens: 4, Unroll: 1})
	}
}

func registerDots(layout cpu.Layout, method Method, decoder string, g Geometry) {
	register(Kernel{
		Name: fmt.Sprintf("mul/%s/%s/kw%d-rt%d-m%d-u%d", layout, method, g.Warps, g.RowTiles, g.Tokens, g.Unroll), Rev: 1,
		Layout: layout, Needs: DP4A, Method: method, Geometry: g,
		body: fmt.Sprintf("dots<%s, %d, %d, %d, %d>", decoder, g.Warps, g.RowTiles, g.Tokens, g.Unroll),
	})
}
