//go:build !purego

package kernels

import (
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// tl2Set is what an ISA has to offer for layout tl2. Up to three tokens are looked up: the sums that each index can
// stand for are made once, as tables of 16 entries, and the weights are read as indices into them. More tokens share the
// work of bringing a block of rows to i2s, and go on with the tiles of that layout.
type tl2Set struct {
	// tables makes 32 bytes for every triple and then every pair of weights.
	tables func(table *byte, x *int8, folds int, units int)
	// lookup adds the sums of the 64 rows of a block to sums.
	lookup func(sums *int32, w *byte, table *byte, folds int, units int, prefetch int)
	// toI2S unpacks a block.
	toI2S func(out *byte, w *byte, folds int, units int, prefetch int)
	batch *tileSet
}

// kernel is the row of the table for this set.
func (set *tl2Set) kernel(name string, rev int, needs probe.Feature) Kernel {
	k := set.batch.kernel(name, rev, needs)
	k.Layout = TL2
	k.Work = func(s Shape) int { return workTL2(s.M, s.K).size }
	k.Default = set.choose
	k.Mul = set.mul
	return k
}

// lookupTokens is how many tokens are looked up at a time, by tile 4x1. With four, unpacking is as fast.
const lookupTokens = 3

// choose is Kernel.Default.
func (set *tl2Set) choose(m int) Blocking {
	choice := set.batch.choose(m)
	if m <= lookupTokens {
		choice.Tile.Tokens = 1
	}
	return choice
}

// partsTL2 is how the workspace is divided: 64 sums, then either the tables of some tokens or a block in i2s.
type partsTL2 struct{ folds, units, table, size int }

const sumsTL2 = 4 * tl2Rows // bytes

func workTL2(m, k int) partsTL2 {
	folds, units := extentTL2(k)
	table := 32 * (16*folds + 8*units)
	return partsTL2{folds, units, table, sumsTL2 + max(min(m, lookupTokens)*table, i2sGrid.bytes(tl2Rows, k))}
}

// mul is Kernel.Mul.
func (set *tl2Set) mul(dst []int32, w *Packed, x *Activations, rows Rows, work []byte, choice Blocking) {
	checkMul(dst, w, x, rows, TL2)
	if len(work) < workTL2(x.M, w.K).size {
		panic("kernels: workspace too short")
	}
	if choice.Tile == (Tile{}) {
		standard := set.choose(x.M)
		choice.Tile = standard.Tile
		if choice.PrefetchBytes == 0 {
			choice.PrefetchBytes = standard.PrefetchBytes
		}
	}
	tile := set.batch.tile(choice.Tile)
	if x.M == 0 {
		return // dst, from which mulBatch goes on block by block, may be empty
	}
	if tile.Tokens > 1 && w.N >= tl2Rows { // with fewer rows, a matrix of i2s would have narrower blocks
		set.mulBatch(dst, w, x, rows, work, tile, choice.PrefetchBytes)
		return
	}
	for m := 0; m < x.M; m += lookupTokens {
		set.mulTokens(dst, w, x, m, min(m+lookupTokens, x.M), rows, work, choice.PrefetchBytes)
	}
}

// mulTokens looks up the tokens [t0, t1).
func (set *tl2Set) mulTokens(dst []int32, w *Packed, x *Activations, t0, t1 int, rows Rows, work []byte, prefetch int) {
	parts := workTL2(t1-t0, w.K)
	sums, tables := unsafe.Slice((*int32)(unsafe.Pointer(&work[0])), tl2Rows), work[sumsTL2:]
	for t := t0; t < t1; t++ {
		set.tables(&tables[(t-t0)*parts.table], &x.X[t*x.Stride], parts.folds, parts.units)
	}
	for row := rows.From; row < rows.To; row = row/tl2Rows*tl2Rows + tl2Rows {
		block := w.Data[row/tl2Rows*blockTL2(w.K):]
		end := min(row/tl2Rows*tl2Rows+tl2Rows, rows.To)
		for t := t0; t < t1; t++ {
			clear(sums)
			set.lookup(&sums[0], &block[0], &tables[(t-t0)*parts.table], parts.folds, parts.units, prefetch)
			copy(dst[t*w.N+row:t*w.N+end], sums[row%tl2Rows:])
		}
	}
}

// mulBatch unpacks a block at a time.
func (set *tl2Set) mulBatch(dst []int32, w *Packed, x *Activations, rows Rows, work []byte, tile *registerTile, prefetch int) {
	parts := workTL2(x.M, w.K)
	unpacked := Packed{N: w.N, K: w.K, Data: work[sumsTL2:parts.size]}
	for row := rows.From; row < rows.To; {
		block := row / tl2Rows * tl2Rows
		end := min(block+tl2Rows, rows.To)
		set.toI2S(&unpacked.Data[0], &w.Data[block/tl2Rows*blockTL2(w.K)], parts.folds, parts.units, prefetch)
		job := tileJob{set: set.batch, dst: dst[block:], w: unpacked, x: x, main: tile}
		whole := (end - block) / RowAlign
		job.cover((row-block)/RowAlign, whole, 0, x.M)
		if tail := end % RowAlign; tail != 0 {
			for m := range x.M {
				job.one(whole, m, tail)
			}
		}
		row = end
	}
}
