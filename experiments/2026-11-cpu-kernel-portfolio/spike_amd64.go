//go:build !purego

package main

import "github.com/bitnet-autotune/bitnet-autotune/kernels"

// The spike is layout tl1 as mul/tl2/avx2 would do it: an index of four bits stands for two weights, the sums of two
// activations are tables of 16 entries, and VPSHUFB looks up 32 rows at once. A sum s is split into s = 31 h + l with
// |l| <= 15, so that eight of either fit an int8. Its tables are not counted in the time: it is the best case.
//
// A block is 64 rows, a byte a row; 16 columns of it are four vectors of two indices.
const (
	spikeCols = 16
	spikeSize = 256
)

const spikeLayout kernels.Layout = "tl1/rows"

//go:noescape
func lookupTL1(dst *int32, w *byte, table *byte, folds int, prefetch int)

// tables holds for every pair of activations the low and the high parts of the entries' sums.
var tables = map[*kernels.Activations][]byte{}

func spike() kernels.Kernel {
	tile := kernels.Tile{Groups: 4, Tokens: 1}
	return kernels.Kernel{
		Name: "spike/tl1/rows/avx2", Layout: spikeLayout, Tiles: []kernels.Tile{tile}, Prefetch: []int{0, 4 << 10, 8 << 10, 16 << 10},
		Default: func(int) kernels.Blocking { return kernels.Blocking{Tile: tile, PrefetchBytes: 8 << 10} },
		Mul:     mulSpike,
	}
}

func formatOf(layout kernels.Layout) kernels.Format {
	if layout == spikeLayout {
		return kernels.Format{Layout: layout, Bytes: bytesSpike, Random: randomSpike}
	}
	f, _ := kernels.FormatOf(layout)
	return f
}

func foldsSpike(k int) int { return (k + spikeCols - 1) / spikeCols }

func bytesSpike(n, k int) int { return (n + 63) / 64 * foldsSpike(k) * spikeSize }

// randomSpike draws indices below 8: valid, and as fast as any.
func randomSpike(data []byte, _, _ int, seed uint64) {
	state := uint32(seed)*2 + 1
	for i := range data {
		state = state*1664525 + 1013904223
		data[i] = byte(state>>24) & 0x77
	}
}

// prepareSpike builds the tables of x.
func prepareSpike(x *kernels.Activations) {
	pairs := foldsSpike(x.K) * 8
	t := make([]byte, 32*pairs)
	token := append(append([]int8(nil), x.X[:x.K]...), make([]int8, spikeCols)...)
	for p := range pairs {
		for i := range 9 {
			sum := (i/3-1)*int(token[2*p]) + (i%3-1)*int(token[2*p+1])
			low := (sum%31+31+15)%31 - 15
			t[32*p+i], t[32*p+16+i] = byte(int8(low)), byte(int8((sum-low)/31))
		}
	}
	tables[x] = t
}

func mulSpike(dst []int32, w *kernels.Packed, x *kernels.Activations, rows kernels.Rows, _ []byte, choice kernels.Blocking) {
	folds := foldsSpike(w.K)
	clear(dst[rows.From:rows.To])
	for from := rows.From; from < rows.To; from += 64 {
		lookupTL1(&dst[from], &w.Data[from/64*folds*spikeSize], &tables[x][0], folds, choice.PrefetchBytes)
	}
}
