package kernels

import (
	"math/rand/v2"
	"strings"
	"testing"

	cpu "github.com/bitnet-autotune/bitnet-autotune/kernels"
)

func randomWeights(n, k int) []int8 {
	rng := rand.New(rand.NewPCG(uint64(n), uint64(k)))
	w := make([]int8, n*k)
	for i := range w {
		w[i] = int8(rng.IntN(3) - 1)
	}
	return w
}

// TestTilesAreAsTheSourcesDescribeThem takes every weight from where the comments of src/<layout>.cuh say that it is. The
// kernels are tested with what Pack makes, so this is a second opinion on the layout, not on them.
func TestTilesAreAsTheSourcesDescribeThem(t *testing.T) {
	const n, k = 37, 517
	w := randomWeights(n, k)
	for layout, at := range map[cpu.Layout]func(data []byte, row, col int) int8{
		cpu.I2S: func(data []byte, row, col int) int8 { return weightI2S(data[col/128*512:], row, col%128) },
		cpu.TL1: func(data []byte, row, col int) int8 { return weightTL1(data[col/128*512:], row, col%128) },
		cpu.TL2: func(data []byte, row, col int) int8 {
			if folds := k / 192; col >= 192*folds {
				col -= 192 * folds
				return weightTL1(data[640*folds+col/128*512:], row, col%128)
			}
			return weightTL2(data[col/192*640:], row, col%192)
		},
	} {
		t.Run(string(layout), func(t *testing.T) {
			p, err := Pack(layout, w, n, k)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Data) != Bytes(layout, n, k) {
				t.Fatalf("%d bytes, Bytes says %d", len(p.Data), Bytes(layout, n, k))
			}
			rowBytes := len(p.Data) / 3
			for row := range 48 {
				for col := range k {
					var want int8
					if row < n {
						want = w[row*k+col]
					}
					if got := at(p.Data[row/16*rowBytes:], row%16, col); got != want {
						t.Fatalf("row %d, column %d is %d, want %d", row, col, got, want)
					}
				}
			}
		})
	}
}

// The bits of byte b in word s of lane 4g+t.
func bits(tile []byte, g, t, s, b int) byte { return tile[16*(4*g+t)+4*s+b] }

func weightI2S(tile []byte, row, col int) int8 {
	t, s, half, b := col/32, col/8%4, col/4%2, col%4
	j := row/8 | half<<1
	return int8(bits(tile, row%8, t, s, b)>>(2*j)&3) - 1
}

func weightTL1(tile []byte, row, col int) int8 {
	t, s, second, b := col/32, col/8%4, col/4%2, col%4
	index := int8(bits(tile, row%8, t, s, b) >> (4 * (row / 8)) & 15)
	return [2]int8{index / 3, index % 3}[second] - 1
}

func weightTL2(tile []byte, row, col int) int8 {
	t, s, which, b := col/48, col/12%4, col/4%3, col%4
	value := int8(bits(tile, row%8, t, s, b) >> (4 * (row / 8)) & 15)
	if tile[512+4*(row%8*4+t)+b]>>(2*s+row/8)&1 == 1 {
		value = -value
	}
	value += 13
	return [3]int8{value / 9, value / 3 % 3, value % 3}[which] - 1
}

// TestConvert takes a matrix from each layout of the CPU to each of the device.
func TestConvert(t *testing.T) {
	const n, k = 19, 300
	w := randomWeights(n, k)
	for _, from := range cpu.Layouts() {
		packed, err := cpu.Pack(from, w, n, k, nil)
		if err != nil {
			t.Fatal(err)
		}
		packed.Scale = 0.5
		for _, to := range Layouts() {
			got, err := Convert(to, packed)
			if err != nil {
				t.Fatalf("%s to %s: %v", from, to, err)
			}
			want, err := Pack(to, w, n, k)
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Data) != string(want.Data) || got.Scale != 0.5 {
				t.Errorf("%s to %s: not what Pack makes of the same weights, or another scale", from, to)
			}
		}
	}
}

func TestPackRejects(t *testing.T) {
	for name, c := range map[string]struct {
		layout cpu.Layout
		w      []int8
		n, k   int
		want   string
	}{
		"layout without kernels": {cpu.T5, make([]int8, 4), 2, 2, `layout "t5" has no CUDA kernels`},
		"no rows":                {cpu.I2S, nil, 0, 2, "at least 1 row"},
		"no columns":             {cpu.I2S, nil, 2, 0, "at least 1 row and 1 to"},
		"too many columns":       {cpu.I2S, make([]int8, cpu.MaxCols+1), 1, cpu.MaxCols + 1, "columns"},
		"too few weights":        {cpu.TL1, make([]int8, 5), 2, 3, "5 weights, want 2 x 3"},
		"not ternary":            {cpu.TL2, []int8{0, 1, -1, 2}, 2, 2, "weight 2 in row 1, column 1"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Pack(c.layout, c.w, c.n, c.k); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestBytesOfTheModel are the sizes of 2B-4T's matrices: two bits a weight, and for TL2 five for three but for the last
// 64 of 2560 columns, which take a tile of 128.
func TestBytesOfTheModel(t *testing.T) {
	for _, c := range []struct {
		layout     cpu.Layout
		n, k, want int
	}{
		{cpu.I2S, 3840, 2560, 3840 * 2560 / 4},
		{cpu.TL1, 2560, 6912, 2560 * 6912 / 4},
		{cpu.TL2, 2560, 6912, 2560 * 6912 * 5 / 24},
		{cpu.TL2, 2560, 2560, 2560 * (2496*5/24 + 128/4)},
	} {
		if got := Bytes(c.layout, c.n, c.k); got != c.want {
			t.Errorf("%s %dx%d: %d bytes, want %d", c.layout, c.n, c.k, got, c.want)
		}
	}
}
