package kernels

import (
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// registerTile is a routine that computes one register tile over all columns:
//
//	for t < Tokens { for r < 16*Groups {
//		dst[t*dstStride/4+r] = Σ_k code(w, r, k) * x[t*xStride+k] - sum[t]
//	} }
//
// The steps of the groups follow each other at w; the next step is wStride bytes further. All strides are bytes.
// Weights are prefetched prefetch bytes ahead; at 0 the prefetch meets the load itself and does nothing.
type registerTile struct {
	Tile
	run func(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)
}

// tileSet is what an ISA has to offer for a layout that is a grid.
type tileSet struct {
	layout Layout
	grid   grid
	// tiles are ordered by tokens, from the fewest; what the chosen tile leaves over goes to the largest that fits.
	tiles []registerTile
	// one computes the first rows of a single group for a single token: what no tile fits, and the last group of a
	// matrix whose rows are no multiple of 16.
	one func(dst *int32, rows int, w *byte, wStride int, x *int8, sum int32, steps int)
}

// kernel is the row of the table for this set.
func (set *tileSet) kernel(name string, rev int, needs probe.Feature) Kernel {
	k := Kernel{Name: name, Rev: rev, Layout: set.layout, Needs: needs, Default: set.choose, Prefetch: []int{0, 4 << 10, 8 << 10, 16 << 10}}
	for _, t := range set.tiles {
		k.Tiles = append(k.Tiles, t.Tile)
	}
	k.Mul = func(dst []int32, w *Packed, x *Activations, rows Rows, _ []byte, choice Blocking) {
		set.mul(dst, w, x, rows, choice)
	}
	return k
}

// longPrompt is the number of tokens from which what a tile leaves over no longer counts.
const longPrompt = 64

// choose is Kernel.Default: the tile that takes the most tokens, as weights are taken apart once for all of them, of those
// that divide the batch, for what a tile leaves over goes through a smaller and slower one.
func (set *tileSet) choose(m int) Blocking {
	var most, dividing Tile
	for _, t := range set.tiles {
		if t.Tokens > max(1, m) {
			break
		}
		most = t.Tile
		if t.Tokens >= 4 && m%t.Tokens == 0 {
			dividing = t.Tile
		}
	}
	if m < longPrompt && dividing.Tokens > 0 {
		most = dividing
	}
	return Blocking{Tile: most, PrefetchBytes: 8 << 10}
}

// mul is Kernel.Mul: it walks the blocks of rows in memory order and covers each with register tiles.
func (set *tileSet) mul(dst []int32, w *Packed, x *Activations, rows Rows, choice Blocking) {
	checkMul(dst, w, x, rows, set.layout)
	if choice.Tile == (Tile{}) {
		standard := set.choose(x.M)
		choice.Tile = standard.Tile
		if choice.PrefetchBytes == 0 {
			choice.PrefetchBytes = standard.PrefetchBytes
		}
	}
	job := tileJob{set: set, dst: dst, w: *w, x: x, main: set.tile(choice.Tile), prefetch: choice.PrefetchBytes}
	whole := rows.To / RowAlign
	for g := rows.From / RowAlign; g < whole; {
		end := min(whole, (g+blockGroups)&^(blockGroups-1))
		job.cover(g, end, 0, x.M)
		g = end
	}
	if rows.To%RowAlign != 0 {
		for m := range x.M {
			job.one(whole, m, rows.To%RowAlign)
		}
	}
}

// tile returns the routine of a tile; a tile that is not in the set is misuse.
func (set *tileSet) tile(want Tile) *registerTile {
	for i := range set.tiles {
		if set.tiles[i].Tile == want {
			return &set.tiles[i]
		}
	}
	panic("kernels: tile not in Kernel.Tiles")
}

type tileJob struct {
	set      *tileSet
	dst      []int32
	w        Packed
	x        *Activations
	main     *registerTile
	prefetch int
}

// cover computes the row groups [g0, g1) of one block for the tokens [t0, t1): as much as possible in one tile, then
// the groups it leaves over, then the tokens.
func (j *tileJob) cover(g0, g1, t0, t1 int) {
	if g0 == g1 || t0 == t1 {
		return
	}
	tile := j.pick(g1-g0, t1-t0)
	if tile == nil {
		for g := g0; g < g1; g++ {
			for t := t0; t < t1; t++ {
				j.one(g, t, RowAlign)
			}
		}
		return
	}
	gEnd := g1 - (g1-g0)%tile.Groups
	tEnd := t1 - (t1-t0)%tile.Tokens
	for g := g0; g < gEnd; g += tile.Groups {
		for t := t0; t < tEnd; t += tile.Tokens {
			j.run(tile, g, t)
		}
	}
	j.cover(gEnd, g1, t0, tEnd)
	j.cover(g0, g1, tEnd, t1)
}

// pick returns the chosen tile if it fits, else the largest that does, else nil.
func (j *tileJob) pick(groups, tokens int) *registerTile {
	if j.main.Groups <= groups && j.main.Tokens <= tokens {
		return j.main
	}
	for i := range slices.Backward(j.set.tiles) {
		if t := &j.set.tiles[i]; t.Groups <= groups && t.Tokens <= tokens {
			return t
		}
	}
	return nil
}

func (j *tileJob) run(tile *registerTile, group, token int) {
	start, stride := j.set.grid.stream(j.w.N, j.w.K, group)
	tile.run(&j.dst[token*j.w.N+group*RowAlign], 4*j.w.N, &j.w.Data[start], stride,
		&j.x.X[token*j.x.Stride], j.x.Stride, &j.x.Sum[token], j.set.grid.steps(j.w.K), j.prefetch)
}

func (j *tileJob) one(group, token, rows int) {
	start, stride := j.set.grid.stream(j.w.N, j.w.K, group)
	j.set.one(&j.dst[token*j.w.N+group*RowAlign], rows, &j.w.Data[start], stride,
		&j.x.X[token*j.x.Stride], j.x.Sum[token], j.set.grid.steps(j.w.K))
}
