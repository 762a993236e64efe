package kerneltest

import (
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// Fuzz compares each of ks with the reference of its layout on fuzzed shapes, row ranges, tiles and values.
func Fuzz(f *testing.F, reference func(kernels.Layout) kernels.Kernel, ks []kernels.Kernel) {
	f.Add(uint16(1), uint16(1), uint16(1), uint16(0), uint16(0), uint64(0), []byte{0})
	f.Add(uint16(4), uint16(64), uint16(256), uint16(3), uint16(9), uint64(1), []byte{0x80})
	f.Add(uint16(13), uint16(129), uint16(100), uint16(1), uint16(2), uint64(2), []byte{127, 0x80})
	f.Add(uint16(33), uint16(80), uint16(1000), uint16(5), uint16(5), uint64(3), []byte{})
	f.Fuzz(func(t *testing.T, m, n, k, cut, tile uint16, seed uint64, values []byte) {
		shape := kernels.Shape{M: int(m)%40 + 1, N: int(n)%300 + 1, K: int(k)%1100 + 1}
		x := activations(shape.M, shape.K, seed)
		overwrite(x, values)
		groups := (shape.N + kernels.RowAlign - 1) / kernels.RowAlign
		rows := kernels.Rows{From: int(cut) % groups * kernels.RowAlign, To: shape.N}
		for _, kernel := range ks {
			s := suite{reference(kernel.Layout), kernel}
			w := s.weights(shape.N, shape.K, seed)
			choice := kernels.Blocking{Tile: kernel.Tiles[int(tile)%len(kernel.Tiles)], PrefetchBytes: int(tile)}
			want, got := canaries(shape.M*shape.N), canaries(shape.M*shape.N)
			mul(s.ref, want, w, x, rows, kernels.Blocking{})
			mul(kernel, got, w, x, rows, choice)
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%s %+v rows %+v tile %s: element %d is %d, want %d", kernel.Name, shape, rows, choice.Tile, i, got[i], want[i])
				}
			}
		}
	})
}

// overwrite repeats values over all tokens.
func overwrite(x *kernels.Activations, values []byte) {
	if len(values) == 0 {
		return
	}
	for token := range x.M {
		fill(x, token, func(i int) int8 { return int8(values[(token+i)%len(values)]) })
	}
}
