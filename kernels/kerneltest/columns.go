package kerneltest

import (
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// Columns tests k against ref on matrices of real models: as many columns as they have, and enough rows for a whole
// block, for a group of 16 that is left over and for a matrix of one group. Blocks do not know of each other, so more
// rows would show nothing new.
func Columns(t *testing.T, ref, k kernels.Kernel, columns []int) {
	s := suite{ref, k}
	m, rows := s.wholeTiles(), []int{16, 80}
	if testing.Short() {
		m, rows = 1, rows[1:2]
	}
	for _, cols := range columns {
		x := activations(m, cols, uint64(cols))
		for _, n := range rows {
			w := s.weights(n, cols, uint64(n*cols))
			want := s.want(w, x)
			for _, tile := range k.Tiles {
				s.compare(t, w, x, want, kernels.Blocking{Tile: tile})
			}
			s.compare(t, w, first(x, 1), want, kernels.Blocking{})
		}
	}
}
