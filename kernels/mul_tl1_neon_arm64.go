//go:build !purego

package kernels

import "github.com/bitnet-autotune/bitnet-autotune/probe"

func init() {
	register(Kernel{
		Name: "mul/tl1/neon", Rev: 1, Layout: TL1, Needs: probe.NEON,
		Tiles: []Tile{{blockGroups, 1}}, Prefetch: []int{0, 4 << 10, 8 << 10, 16 << 10},
		Default: func(int) Blocking { return Blocking{Tile: Tile{blockGroups, 1}, PrefetchBytes: 8 << 10} },
		Work:    workTL1NEON,
		Mul:     mulTL1NEON,
	})
}

// Tables are made for at most tl1Stretch steps, 4096 columns, at a time: 64 KiB, which a second cache holds beside the
// weights. A stretch of weights is as long, so that few of the prefetches at its end are for another one.
const tl1Stretch = 256

// tl1Tables is the size in bytes of the tables of a step: two times sixteen for each pair of columns.
var tl1Tables = 2 * 16 * tl1Grid.cols / 2

func workTL1NEON(s Shape) int { return tl1Tables * min(tl1Stretch, tl1Grid.steps(s.K)) }

// mulTL1NEON makes the tables of one token and looks up every pair of weights in them, token by token: a batch costs
// as much as its tokens apart, except that the weights of a stretch may still be in the cache. The tables are made by
// every worker for itself, which by llvm-mca takes as long as half a block of 64 rows on Cortex-A72.
func mulTL1NEON(dst []int32, w *Packed, x *Activations, rows Rows, work []byte, choice Blocking) {
	checkMul(dst, w, x, rows, TL1)
	if len(work) < workTL1NEON(Shape{N: w.N, K: w.K}) {
		panic("kernels: workspace too short")
	}
	if choice == (Blocking{ChunkRows: choice.ChunkRows}) {
		choice.PrefetchBytes = 8 << 10
	}
	for m := range x.M {
		clear(dst[m*w.N+rows.From : m*w.N+rows.To])
	}
	steps := tl1Grid.steps(w.K)
	for first := 0; first < steps; first += tl1Stretch {
		s := stretchTL1{w, &work[0], first, min(tl1Stretch, steps-first), choice.PrefetchBytes}
		for m := range x.M {
			tl1NEONTables(&work[0], &x.X[m*x.Stride+first*tl1Grid.cols], s.steps*tl1Grid.cols/2)
			s.addTo(dst[m*w.N:][:w.N], rows)
		}
	}
}

// stretchTL1 is a number of steps whose tables are made.
type stretchTL1 struct {
	w            *Packed
	tables       *byte
	first, steps int
	prefetch     int
}

// addTo adds the sums of the stretch to the rows of one token.
func (s *stretchTL1) addTo(dst []int32, rows Rows) {
	for row := rows.From; row < rows.To; {
		start, stride := tl1Grid.stream(s.w.N, s.w.K, row/RowAlign)
		weights := &s.w.Data[start+s.first*stride]
		switch left := rows.To - row; {
		case left >= blockGroups*RowAlign && row%(blockGroups*RowAlign) == 0:
			tl1NEONTile4x1(&dst[row], weights, stride, s.tables, s.steps, s.prefetch)
			row += blockGroups * RowAlign
		case left >= RowAlign:
			tl1NEONTile1x1(&dst[row], weights, stride, s.tables, s.steps, s.prefetch)
			row += RowAlign
		default:
			var group [RowAlign]int32
			copy(group[:], dst[row:rows.To])
			tl1NEONTile1x1(&group[0], weights, stride, s.tables, s.steps, s.prefetch)
			copy(dst[row:rows.To], group[:])
			row = rows.To
		}
	}
}

// The routines are assembly because Go has no TBL. They were never timed; see doc.go for estimates. They are:
//
//	Tables: for p < pairs { for i < 9 { tables[p][i] = (i/3-1) * x[2*p] + (i%3-1) * x[2*p+1] } }
//	Tile:   for r < 16*Groups { dst[r] += Σ_p tables[p][index(w, r, p)] }

//go:noescape
func tl1NEONTables(tables *byte, x *int8, pairs int)

//go:noescape
func tl1NEONTile1x1(dst *int32, w *byte, wStride int, tables *byte, steps int, prefetch int)

//go:noescape
func tl1NEONTile4x1(dst *int32, w *byte, wStride int, tables *byte, steps int, prefetch int)
