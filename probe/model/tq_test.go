package model_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model/modeltest"
)

// quantised are digests of what quantize_row_tq1_0_ref and quantize_row_tq2_0_ref of ggml and quantize_iq1_bn and
// quantize_iq2_bn of ik_llama.cpp make of pattern(64, 1536) times 0.75 (their loops compiled by gcc 12).
var quantised = []struct {
	kind   string
	id     uint32
	pack   func(codes []int8, scale float32, k int) []byte
	sha256 string
}{
	{"tq1_0", 34, func(codes []int8, scale float32, _ int) []byte { return modeltest.PackTQ1(codes, scale) }, "1c738a40b4df5963440444956f980db4c18e5a869bb2ac157bd3a43436acde48"},
	{"tq2_0", 35, func(codes []int8, scale float32, _ int) []byte { return modeltest.PackTQ2(codes, scale) }, "4a516ffd7dab42e8f54f1f83a7f895519932be9ee13fc953bc732170c837d1f8"},
	{"iq1_bn", 134, modeltest.PackIQ1, "85fd73a169148f5df74ebbe11c4cf17d5d2385ac2af988f8ee1ae76bbfaf655e"},
	{"iq2_bn", 135, modeltest.PackIQ2, "baf0d74d333d50b255895fd7bb10cfff3d29cabdac1376694a198642f61af302"},
}

func TestQuantised(t *testing.T) {
	const n, k = 64, 1536
	want := pattern(n, k)
	for _, c := range quantised {
		t.Run(c.kind, func(t *testing.T) {
			packed := c.pack(want, 0.75, k)
			if sum := sha256.Sum256(packed); hex.EncodeToString(sum[:]) != c.sha256 {
				t.Fatalf("SHA-256 %x, want %s", sum, c.sha256)
			}
			codes, scale, err := loadAs(t, c.id, packed, k, n, model.Packing{})
			if err != nil || scale != 0.75 || !slices.Equal(want, codes) {
				t.Errorf("%v, scale %v, right weights: %v", err, scale, slices.Equal(want, codes))
			}
			b := oneTensor(c.id, packed, k, n)
			for size := len(b) - len(packed); size < len(b); size += 1009 {
				f, err := model.Read(bytes.NewReader(b[:size]), int64(len(b)))
				if err != nil {
					oneLine(t, err)
				} else if _, _, _, _, err := f.Ternary("w"); err == nil {
					t.Errorf("loaded from %d of %d bytes", size, len(b))
				}
			}
		})
	}
}

// oneTensor is a file with the tensor "w".
func oneTensor(id uint32, data []byte, k, n uint64) []byte {
	w := new(modeltest.Writer)
	w.Tensor("w", id, 0, k, n)
	return append(w.Header(), data...)
}

func loadAs(t *testing.T, id uint32, data []byte, k, n uint64, p model.Packing) ([]int8, float32, error) {
	t.Helper()
	f, err := readBytes(oneTensor(id, data, k, n))
	if err != nil {
		t.Fatal(err)
	}
	codes, scale, _, _, err := f.TernaryAs("w", p)
	if err != nil {
		oneLine(t, err)
	}
	return codes, scale, err
}

// Whole files in each layout load as the weights that they were written from.
func TestEveryLayoutRoundTrip(t *testing.T) {
	for _, layout := range []string{"i2_s", "tl1", "tl2", "tq1_0", "tq2_0", "iq1_bn", "iq2_bn"} {
		t.Run(layout, func(t *testing.T) {
			tiles := func(n, k int) model.TileParameters { return tilesFor(layout, n, k) }
			path := filepath.Join(t.TempDir(), "small.gguf")
			if err := modeltest.Write(path, modeltest.Small(), layout, 5, tiles); err != nil {
				t.Fatal(err)
			}
			f, err := model.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			loaded := 0
			for _, tensor := range f.Tensors {
				if !tensor.Ternary {
					continue
				}
				loaded++
				n, k := int(tensor.N()), int(tensor.K())
				want, wantScale := modeltest.Weights(5, tensor.Name, n, k)
				var p model.Packing
				if strings.HasPrefix(layout, "tl") {
					p.Tiles = tiles(n, k)
				}
				codes, scale, _, _, err := f.TernaryAs(tensor.Name, p)
				if err != nil || scale != wantScale || !slices.Equal(want, codes) {
					t.Errorf("%s: %v, scale %v, right weights: %v; want scale %v", tensor.Name, err, scale, slices.Equal(want, codes), wantScale)
				}
			}
			if m, err := f.Model(); err != nil || m.Tunable() != nil || m.FileType != layout || loaded != 21 {
				t.Errorf("%d tensors, file type %s, %v: want 21 of %s", loaded, m.FileType, err, layout)
			}
		})
	}
}

// Blocks or rows without any weight have a scale of 0 and leave the scale of the tensor alone.
func TestScaleOfZeros(t *testing.T) {
	for _, c := range quantised {
		want := pattern(3, 256)
		clear(want[256:512])
		zero := c.pack(make([]int8, 256), 1, 256)
		setScale(c.kind, zero, 0)
		data := slices.Concat(c.pack(want[:256], 0.75, 256), zero, c.pack(want[512:], 0.75, 256))
		codes, scale, err := loadAs(t, c.id, data, 256, 3, model.Packing{})
		if err != nil || scale != 0.75 || !slices.Equal(want, codes) {
			t.Errorf("%s: %v, scale %v, right weights: %v", c.kind, err, scale, slices.Equal(want, codes))
		}
	}
}

// setScale sets the 16 upper bits of the scale of a row of 256 weights, and the lower ones to 0.
func setScale(kind string, row []byte, upper uint16) {
	at := map[string]int{"tq1_0": 52, "tq2_0": 64, "iq1_bn": 0, "iq2_bn": 2}[kind]
	if kind == "iq2_bn" {
		row[0], row[1] = 0, 0
	}
	row[at], row[at+1] = byte(upper), byte(upper>>8)
}

func TestQuantisedRefusals(t *testing.T) {
	for _, c := range quantised {
		row := c.pack(pattern(1, 256), 0.75, 256)
		other := c.pack(pattern(1, 256), 0.5, 256)
		infinite, nan := slices.Clone(row), slices.Clone(row)
		setScale(c.kind, infinite, map[bool]uint16{true: 0x7f80, false: 0x7c00}[c.kind == "iq2_bn"])
		setScale(c.kind, nan, map[bool]uint16{true: 0xffc0, false: 0xfe00}[c.kind == "iq2_bn"])
		damaged := slices.Clone(row)
		damaged[7] = 255 // a code of 3
		if c.kind == "tq1_0" || c.kind == "iq1_bn" {
			damaged[7] = 1 // no multiple of 256/243, rounded up
		}
		for _, r := range []struct {
			name string
			data []byte
			want string
		}{
			{"two scales", append(slices.Clone(row), other...), "different scales, 0.75 and 0.5"},
			{"infinite", append(slices.Clone(row), infinite...), "its scale is +Inf"},
			{"not a number", append(slices.Clone(row), nan...), "its scale is NaN"},
			{"damaged", append(slices.Clone(row), damaged...), fmt.Sprintf("byte %d holds a code that %s does not have", len(row)+7, c.kind)},
		} {
			if _, _, err := loadAs(t, c.id, r.data, 256, 2, model.Packing{}); err == nil || !strings.Contains(err.Error(), r.want) {
				t.Errorf("%s, %s: error %v, want one with %q", c.kind, r.name, err, r.want)
			}
		}
	}
}

// 243 of the 256 bytes stand for five trits; where a byte has four, 81 do.
func TestUnusedTrits(t *testing.T) {
	for _, c := range []struct {
		kind     string
		id       uint32
		at, used int
		row      []byte
	}{
		{"tq1_0", 34, 0, 243, modeltest.PackTQ1(make([]int8, 256), 1)},
		{"tq1_0", 34, 47, 243, modeltest.PackTQ1(make([]int8, 256), 1)},
		{"tq1_0", 34, 51, 81, modeltest.PackTQ1(make([]int8, 256), 1)},
		{"iq1_bn", 134, 2, 243, modeltest.PackIQ1(make([]int8, 256), 1, 256)},
		{"iq1_bn", 134, 14, 81, modeltest.PackIQ1(make([]int8, 256), 1, 256)},
	} {
		used := 0
		for b := range 256 {
			c.row[c.at] = byte(b)
			f, err := readBytes(oneTensor(c.id, c.row, 256, 1))
			if err != nil {
				t.Fatal(err)
			}
			if _, _, _, _, err := f.Ternary("w"); err == nil {
				used++
			}
		}
		if used != c.used {
			t.Errorf("%s: %d bytes are accepted at %d, want %d", c.kind, used, c.at, c.used)
		}
	}
}

// Every half-precision scale is read as its value.
func TestHalfScales(t *testing.T) {
	row := modeltest.PackTQ2(slices.Repeat([]int8{1}, 256), 1)
	for bits := range 1 << 16 {
		row[64], row[65] = byte(bits), byte(bits>>8)
		f, err := readBytes(oneTensor(35, row, 256, 1))
		if err != nil {
			t.Fatal(err)
		}
		_, scale, _, _, err := f.Ternary("w")
		exponent, fraction := bits>>10&31, float64(bits&1023)/1024
		want := math.Ldexp(1+fraction, exponent-15)
		if exponent == 0 {
			want = math.Ldexp(fraction, -14)
		}
		if bits>>15 == 1 {
			want = -want
		}
		if (err != nil) != (exponent == 31) || err == nil && float64(scale) != want {
			t.Fatalf("bits %#04x: scale %v, %v: want %v", bits, scale, err, want)
		}
	}
}

// The two other orders of I2_S load for who knows of them.
func TestI2SOrders(t *testing.T) {
	const n, k = 8, 192
	want := pattern(n, k)
	for order, data := range map[model.I2SOrder][]byte{
		"":                 modeltest.Pack(want, 1.5),
		model.I2SBlocks128: modeltest.Pack(want, 1.5),
		model.I2SBlocks64:  modeltest.PackI2SBlocks64(want, 1.5),
		model.I2SRows4:     modeltest.PackI2SRows4(want, 1.5, k),
	} {
		codes, scale, err := loadAs(t, 36, data, k, n, model.Packing{I2S: order})
		if err != nil || scale != 1.5 || !slices.Equal(want, codes) {
			t.Errorf("order %q: %v, scale %v, right weights: %v", order, err, scale, slices.Equal(want, codes))
		}
	}
	for order, want := range map[model.I2SOrder]string{"arm": `unknown i2_s order "arm": want "blocks of 128"`, model.I2SRows4: "6 rows: want a multiple of 4"} {
		if _, _, err := loadAs(t, 36, make([]byte, 6*64/4+32), 64, 6, model.Packing{I2S: order}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("order %q: error %v, want one with %q", order, err, want)
		}
	}
	// Rows longer than a window of reading.
	long := pattern(4, 96<<10)
	codes, _, err := loadAs(t, 36, modeltest.PackI2SRows4(long, 1, 96<<10), 96<<10, 4, model.Packing{I2S: model.I2SRows4})
	if err != nil || !slices.Equal(long, codes) {
		t.Errorf("rows of 96 Ki: %v, right weights: %v", err, slices.Equal(long, codes))
	}
}
