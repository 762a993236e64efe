//go:build !purego

package main

import (
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// TestSpike takes the weights apart one by one and compares.
func TestSpike(t *testing.T) {
	const n, k = 128, 2560
	x := kernels.NewActivations(1, k)
	x.Random(3)
	for i := range 200 {
		x.X[i] = -128
	}
	w := &kernels.Packed{Layout: spikeLayout, N: n, K: k, Data: make([]byte, bytesSpike(n, k))}
	randomSpike(w.Data, n, k, 5)
	dst := make([]int32, n)
	prepareSpike(x)
	mulSpike(dst, w, x, kernels.Rows{To: n}, nil, kernels.Blocking{})
	for row := range n {
		var want int32
		for p := range k / 2 {
			at := (row/64*foldsSpike(k)+p/8)*spikeSize + p%8/2*64 + row%64
			index := int32(w.Data[at] >> (4 * (p % 2)) & 15)
			want += (index/3-1)*int32(x.X[2*p]) + (index%3-1)*int32(x.X[2*p+1])
		}
		if dst[row] != want {
			t.Fatalf("row %d is %d, want %d", row, dst[row], want)
		}
	}
}
