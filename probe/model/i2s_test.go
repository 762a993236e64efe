package model_test

import (
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model/modeltest"
)

// One weight of 1 in a row of -1 sets one bit of one byte, wherever it is.
func TestTernaryBitLayout(t *testing.T) {
	for at, want := range map[int]struct {
		index int
		value byte
	}{
		0: {0, 2 << 6}, 1: {1, 2 << 6}, 31: {31, 2 << 6},
		32: {0, 2 << 4}, 63: {31, 2 << 4}, 64: {0, 2 << 2}, 95: {31, 2 << 2}, 96: {0, 2}, 127: {31, 2},
		128: {32, 2 << 6}, 128 + 33: {33, 2 << 4}, 255: {63, 2},
	} {
		data := make([]byte, 64+32)
		data[want.index] = want.value
		codes := loadOne(t, data, 256, 1)
		for i, c := range codes {
			if (i == at) != (c == 1) || i != at && c != -1 {
				t.Errorf("byte %d = %#x: weight %d is %d, want 1 at %d and -1 elsewhere", want.index, want.value, i, c, at)
				break
			}
		}
	}
}

// loadOne loads the weights of an I2_S tensor that has data.
func loadOne(t *testing.T, data []byte, k, n uint64) []int8 {
	t.Helper()
	w := new(modeltest.Writer)
	w.Tensor("w", 36, 0, k, n)
	f, err := readBytes(append(w.Header(), data...))
	if err != nil {
		t.Fatal(err)
	}
	codes, _, _, _, err := f.Ternary("w")
	if err != nil {
		t.Fatal(err)
	}
	return codes
}

// Blocks run over the ends of rows: 2 rows of 192 are 3 blocks.
func TestTernaryBlocksAreFlat(t *testing.T) {
	want, scale := modeltest.Weights(5, "w", 2, 192)
	if diff := cmp.Diff(want, loadOne(t, modeltest.Pack(want, scale), 192, 2)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTernaryRoundTrip(t *testing.T) {
	const seed = 7
	path := filepath.Join(t.TempDir(), "small.gguf")
	if err := modeltest.WriteI2S(path, modeltest.Small(), seed); err != nil {
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
		codes, scale, n, k, err := f.Ternary(tensor.Name)
		if err != nil {
			t.Fatal(err)
		}
		want, wantScale := modeltest.Weights(seed, tensor.Name, n, k)
		if uint64(n) != tensor.N() || uint64(k) != tensor.K() || scale != wantScale || !slices.Equal(want, codes) {
			t.Errorf("%s: %d x %d, scale %v: want the weights that were written, scale %v", tensor.Name, n, k, scale, wantScale)
		}
		loaded++
	}
	if loaded != 3*7 {
		t.Errorf("%d ternary tensors, want 21", loaded)
	}
	m, err := f.Model()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Tunable(); err != nil {
		t.Error(err)
	}
}

// sparse is a file of size bytes that is all zeros behind its head.
type sparse struct {
	head []byte
	size int64
}

func (s sparse) ReadAt(p []byte, offset int64) (int, error) {
	clear(p)
	if offset < int64(len(s.head)) {
		copy(p, s.head[offset:])
	}
	if left := s.size - offset; left < int64(len(p)) {
		return int(max(0, left)), io.EOF
	}
	return len(p), nil
}

// A file can claim 64 TiB of weights, be as long, and take no space: that must be an error, not the end of the process.
func TestTernaryRefusesMoreThanMemory(t *testing.T) {
	w := new(modeltest.Writer)
	w.Tensor("w", 36, 0, 1<<20, 1<<26)
	head := w.Header()
	f, err := model.Read(sparse{head, int64(len(head)) + 1<<44 + 32}, int64(len(head))+1<<44+32)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, _, err = f.Ternary("w"); err == nil || !strings.Contains(err.Error(), "want no more than 8589934592 in all") {
		t.Fatalf("error %v, want one that tells the limit", err)
	}
	oneLine(t, err)
}

func TestTernaryRefusals(t *testing.T) {
	nan := modeltest.Pack(make([]int8, 128), float32(math.NaN()))
	three := modeltest.Pack(make([]int8, 128), 1)
	three[5] |= 0xc
	for _, c := range []struct {
		name string
		id   uint32
		k    uint64
		data []byte
		want string
	}{
		{"tl1", 38, 128, make([]byte, 64), "is tl1 of 1 x 128, in tiles that the file does not tell"},
		{"tl2", 39, 256, make([]byte, 96), "is tl2 of 1 x 256, in tiles that the file does not tell"},
		{"iq2_bn_r4", 335, 64, make([]byte, 20), "is iq2_bn_r4, whose layout is not known here: want i2_s, tl1"},
		{"f32", 0, 8, make([]byte, 32), "is f32, which is not ternary: want i2_s, tl1"},
		{"half a block", 36, 64, make([]byte, 48), "no whole number of blocks"},
		{"code 3", 36, 128, three, "byte 5 holds the code 3"},
		{"scale NaN", 36, 128, nan, "its scale is NaN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := new(modeltest.Writer)
			w.Tensor("w", c.id, 0, c.k, 1)
			f, err := readBytes(append(w.Header(), c.data...))
			if err != nil {
				t.Fatal(err)
			}
			if _, _, _, _, err = f.Ternary("w"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			oneLine(t, err)
		})
	}
	f, err := readBytes(minimal(new(modeltest.Writer)))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, _, err := f.Ternary("absent"); err == nil || !strings.Contains(err.Error(), `"absent": no such tensor`) {
		t.Errorf("absent tensor: %v", err)
	}
}
