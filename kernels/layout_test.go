package kernels_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// shapes are every kind of tail: one row or column, one more and one less than each block size, and real ones.
var shapes = [][2]int{{1, 1}, {15, 15}, {16, 16}, {17, 17}, {33, 64}, {48, 100}, {63, 63}, {64, 64}, {65, 65}, {112, 31}, {17, 80}, {64, 95}, {33, 48}, {33, 96}, {130, 97}, {130, 200}, {65, 288}, {640, 2560}}

// presetShapes are as many columns as each preset has, and rows for whole blocks and a group left over.
func presetShapes() [][2]int {
	var all [][2]int
	for _, k := range presetColumns() {
		all = append(all, [2]int{144, k})
	}
	return all
}

func ternary(n, k int) []int8 {
	w := make([]int8, n*k)
	for i := range w {
		w[i] = int8(uint32(i)*2654435761>>16%3) - 1
	}
	return w
}

func TestPackUnpackRoundTrip(t *testing.T) {
	for _, layout := range kernels.Layouts() {
		format, _ := kernels.FormatOf(layout)
		for _, s := range slices.Concat(shapes, presetShapes()) {
			t.Run(fmt.Sprintf("%s/%dx%d", layout, s[0], s[1]), func(t *testing.T) {
				n, k := s[0], s[1]
				w := ternary(n, k)
				p, err := kernels.Pack(layout, w, n, k, nil)
				if err != nil {
					t.Fatal(err)
				}
				got := make([]int8, n*k)
				format.Unpack(got, p.Data, n, k)
				if !slices.Equal(got, w) {
					t.Error("Unpack(Pack(w)) differs from w")
				}
			})
		}
	}
}

func TestBlocksAreMatrices(t *testing.T) {
	for _, layout := range kernels.Layouts() {
		format, _ := kernels.FormatOf(layout)
		for _, s := range shapes {
			n, k := s[0], s[1]
			w := ternary(n, k)
			p, err := kernels.Pack(layout, w, n, k, nil)
			if err != nil {
				t.Fatal(err)
			}
			var blocks []byte
			for from := 0; from < n; from += format.BlockRows {
				rows := min(format.BlockRows, n-from)
				block := make([]byte, format.Bytes(rows, k))
				format.Pack(block, w[from*k:(from+rows)*k], rows, k)
				blocks = append(blocks, block...)
			}
			if !bytes.Equal(blocks, p.Data) {
				t.Errorf("%s %dx%d: blocks of %d rows are not the matrix", layout, n, k, format.BlockRows)
			}
		}
	}
}

func TestRandomIsWhatPackMakes(t *testing.T) {
	for _, layout := range kernels.Layouts() {
		format, _ := kernels.FormatOf(layout)
		for _, s := range slices.Concat(shapes, presetShapes()) {
			t.Run(fmt.Sprintf("%s/%dx%d", layout, s[0], s[1]), func(t *testing.T) {
				n, k := s[0], s[1]
				data := make([]byte, format.Bytes(n, k))
				format.Random(data, n, k, 7)
				w := make([]int8, n*k)
				format.Unpack(w, data, n, k)
				p, err := kernels.Pack(layout, w, n, k, nil)
				if err != nil {
					t.Fatalf("Random made an invalid matrix: %v", err)
				}
				if !bytes.Equal(p.Data, data) {
					t.Error("Pack(Unpack(random)) differs from random")
				}
				again := make([]byte, len(data))
				if format.Random(again, n, k, 7); !bytes.Equal(again, data) {
					t.Error("the same seed gave another matrix")
				}
			})
		}
	}
}

// TestTL2Bytes follows single weights into their bytes: the index of a triple, its sign, and the two-weight form.
func TestTL2Bytes(t *testing.T) {
	const n, k = 64, 64 // two halves of five vectors for 48 columns, and four vectors for 16
	zero, err := kernels.Pack(kernels.TL2, make([]int8, n*k), n, k, nil)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		row    int
		weight map[int]int8 // by column
		want   map[int]byte // by offset, where it differs from a matrix of zeros
	}{
		"index 9":          {0, map[int]int8{0: 1}, map[int]byte{64: 9}},
		"index 3":          {0, map[int]int8{4: 1}, map[int]byte{64: 3}},
		"index 1, sign":    {0, map[int]int8{8: -1}, map[int]byte{64: 1, 0: 1 << 7}},
		"mixed signs":      {0, map[int]int8{0: 1, 4: -1, 8: -1}, map[int]byte{64: 5}},
		"mirrored":         {0, map[int]int8{0: -1, 4: 1, 8: 1}, map[int]byte{64: 5, 0: 1 << 7}},
		"row 4":            {4, map[int]int8{0: 1}, map[int]byte{64 + 16: 9}},
		"row 8":            {8, map[int]int8{0: 1}, map[int]byte{64 + 4: 9}},
		"row 63":           {63, map[int]int8{0: 1}, map[int]byte{64 + 63: 9}},
		"high nibble":      {0, map[int]int8{16: -1}, map[int]byte{64: 9 << 4, 0: 1 << 6}},
		"fourth triple":    {0, map[int]int8{12: 1, 44: 1}, map[int]byte{128: 10 << 4}},
		"second half":      {0, map[int]int8{2: 1}, map[int]byte{320 + 64: 9}},
		"last triple":      {1, map[int]int8{15: -1, 31: -1, 47: -1}, map[int]byte{320 + 256 + 1: 13 << 4, 320 + 1: 1}},
		"two-weight form":  {1, map[int]int8{48: -1, 52: 1}, map[int]byte{640 + 1: 0x58}},
		"two-weight, high": {1, map[int]int8{48 + 9: 1, 48 + 13: -1}, map[int]byte{640 + 64 + 1: 0x25}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := make([]int8, n*k)
			for column, v := range tt.weight {
				w[tt.row*k+column] = v
			}
			p, err := kernels.Pack(kernels.TL2, w, n, k, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := map[int]byte{}
			for i, b := range p.Data {
				if b != zero.Data[i] {
					got[i] = b
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("bytes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRandomIsBalanced(t *testing.T) {
	const n, k = 640, 2560
	for _, layout := range kernels.Layouts() {
		format, _ := kernels.FormatOf(layout)
		data := make([]byte, format.Bytes(n, k))
		format.Random(data, n, k, 1)
		w := make([]int8, n*k)
		format.Unpack(w, data, n, k)
		var count [3]int
		for _, v := range w {
			count[v+1]++
		}
		for v, c := range count {
			// The rarest value has p >= 0.3; 6 sigma of n*k draws is under 0.003.
			if share := float64(c) / (n * k); share < 0.297 {
				t.Errorf("%s: weight %d has share %.3f, want about a third", layout, v-1, share)
			}
		}
	}
}

func TestPackErrors(t *testing.T) {
	good := ternary(16, 16)
	bad := slices.Clone(good)
	bad[35] = 2
	low := slices.Clone(good)
	low[0] = -128
	tests := map[string]struct {
		layout kernels.Layout
		w      []int8
		n, k   int
		data   []byte
		want   string
	}{
		"unknown layout":    {"nope", good, 16, 16, nil, fmt.Sprintf("unknown layout \"nope\": one of %v", kernels.Layouts())},
		"value 2":           {kernels.I2S, bad, 16, 16, nil, "weight 2 in row 2, column 3: want -1, 0 or 1"},
		"value -128":        {kernels.I2S, low, 16, 16, nil, "weight -128 in row 0, column 0"},
		"too few weights":   {kernels.I2S, good, 16, 17, nil, "256 weights, want 16 x 17"},
		"rows overflow":     {kernels.I2S, nil, math.MaxInt/2 + 1, 4, nil, "0 weights, want "},
		"no rows":           {kernels.I2S, nil, 0, 16, nil, "want at least 1 row"},
		"too many columns":  {kernels.I2S, nil, 1, kernels.MaxCols + 1, nil, "65536 columns"},
		"data of odd size":  {kernels.I2S, good, 16, 16, make([]byte, 63), "63 bytes given, want 64"},
		"data not aligned":  {kernels.I2S, good, 16, 16, make([]byte, 4096)[1:65], "not aligned to 64 bytes"},
		"negative row size": {kernels.I2S, good, 16, -16, nil, "columns"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := kernels.Pack(tt.layout, tt.w, tt.n, tt.k, tt.data)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "kernels: pack ") {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func BenchmarkPack(b *testing.B) {
	const n, k = 2560, 2560
	w := ternary(n, k)
	for _, layout := range kernels.Layouts() {
		format, _ := kernels.FormatOf(layout)
		data := make([]byte, format.Bytes(n, k))
		b.Run("pack/layout="+string(layout), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				format.Pack(data, w, n, k)
			}
		})
		b.Run("random/layout="+string(layout), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				format.Random(data, n, k, 1)
			}
		})
	}
}
