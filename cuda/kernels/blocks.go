package kernels

import (
	"fmt"

	cpu "github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// The kernels of src/blocks.cuh: tensor cores for many tokens. A warp has at most 128 sums in registers.
func init() {
	for _, warps := range []int{4, 8} {
		for _, stages := range []int{2, 4} {
			for _, g := range []Geometry{{RowTiles: 1, Tokens: 32}, {RowTiles: 1, Tokens: 64}, {RowTiles: 2, Tokens: 32}, {RowTiles: 2, Tokens: 64}} {
				g.Warps, g.Stages = warps, stages
				registerBlocks(cpu.I2S, "Shift", g)
			}
		}
		registerBlocks(cpu.I2S, "Shift", Geometry{Warps: warps, RowTiles: 2, Tokens: 128, Stages: 3})
		registerBlocks(cpu.I2S, "Shift", Geometry{Warps: warps, RowTiles: 4, Tokens: 64, Stages: 3})
		registerBlocks(cpu.TL1, "TL1", Geometry{Warps: warps, RowTiles: 1, Tokens: 32, Stages: 3})
		registerBlocks(cpu.TL1, "TL1", Geometry{Warps: warps, RowTiles: 2, Tokens: 64, Stages: 3})
	}
}

func registerBlocks(layout cpu.Layout, decoder string, g Geometry) {
	register(Kernel{
		Name: fmt.Sprintf("mul/%s/gemm/w%d-rt%d-m%d-s%d", layout, g.Warps, g.RowTiles, g.Tokens, g.Stages), Rev: 1,
		Layout: layout, Needs: TensorCore, Method: GEMM, Geometry: g,
		body: fmt.Sprintf("blocks<%s, %d, %d, %d, %d>", decoder, g.Warps, g.RowTiles, g.Tokens/8, g.Stages),
	})
}
