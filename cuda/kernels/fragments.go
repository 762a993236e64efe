package kernels

import (
	"fmt"

	cpu "github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// The kernels of src/fragments.cuh: tensor cores for 8 or 16 tokens.
func init() {
	for _, warps := range []int{1, 2, 4, 8} {
		for _, rows := range []int{1, 2} {
			registerFragments(cpu.I2S, "Shift", Geometry{Warps: warps, RowTiles: rows, Tokens: 8, Unroll: 1})
			registerFragments(cpu.I2S, "Shift", Geometry{Warps: warps, RowTiles: rows, Tokens: 8, Unroll: 2})
			registerFragments(cpu.I2S, "Shift", Geometry{Warps: warps, RowTiles: rows, Tokens: 16, Unroll: 1})
		}
		registerFragments(cpu.TL1, "TL1", Geometry{Warps: warps, RowTiles: 1, Tokens: 8, Unroll: 1})
		registerFragments(cpu.TL2, "TL2", Geometry{Warps: warps, RowTiles: 1, Tokens: 8, Unroll: 1})
		registerFragments(cpu.TL2, "TL2", Geometry{Warps: warps, RowTiles: 1, Tokens: 16, Unroll: 1})
	}
}

func registerFragments(layout cpu.Layout, decoder string, g Geometry) {
	register(Kernel{
		Name: fmt.Sprintf("mul/%s/mma/kw%d-rt%d-m%d-u%d", layout, g.Warps, g.RowTiles, g.Tokens, g.Unroll), Rev: 1,
		Layout: layout, Needs: TensorCore, Method: MMA, Geometry: g,
		body: fmt.Sprintf("fragments<%s, %d, %d, %d, %d>", decoder, g.Warps, g.RowTiles, g.Tokens/8, g.Unroll),
	})
}
