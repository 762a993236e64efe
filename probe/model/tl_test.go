package model_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model/modeltest"
)

// pattern is n rows of k codes that any language can make again: a mixed index, modulo 3.
func pattern(n, k int) []int8 {
	codes := make([]int8, n*k)
	for i := range codes {
		x := uint64(i+1) * 0x9E3779B97F4A7C15
		x = (x ^ x>>32) * 0xD6E8FEB86659FD93
		codes[i] = int8((x^x>>32)%3) - 1
	}
	return codes
}

// converted are digests of what preprocess_weights_tl1 and preprocess_weights_tl2 of bitnet.cpp's
// utils/convert-hf-to-gguf-bitnet.py (microsoft/BitNet 09074a0, run with numpy 1.24) make of pattern: all the tiles that
// bitnet.cpp publishes, some with fewer rows, and some odd ones.
var converted = []struct {
	kind        string
	n, k        int
	bm, bk, bmm int
	sha256      string
}{
	{"tl1", 256, 1536, 128, 64, 64, "565fcb40315275af7edacea99b9a61c8f29131b3680f470cc011241fc008a73d"},
	{"tl1", 512, 1536, 256, 128, 32, "c53b7efc5b68e45a732a19a926db5681cc84d4a4aa4774414393f293de431181"},
	{"tl1", 320, 8640, 160, 64, 32, "772fa0935cf71b2fbe1ecd3e209ea7363dca86806eee64c71728bb0ce20ae10b"},
	{"tl1", 640, 3200, 320, 128, 64, "02ea6649fffbcdc1af7fead69416151ffc734172a56d7ff26b862c8adfe6399d"},
	{"tl1", 640, 3200, 320, 64, 32, "395a31a6151893056a179cd318052e5e1e0a910baf9047739fed2a5241b70c4d"},
	{"tl1", 512, 4096, 256, 128, 32, "165408ee12cd90bd5aa04617d287fca61342a49c06d6ecaefc187baa9af79c65"},
	{"tl1", 512, 4096, 256, 128, 64, "f788f38614a71db32ed2e040637312a1d0f34c09b2c947806bde11e11de97eef"},
	{"tl1", 256, 14336, 128, 64, 64, "e06c1ef56f572ed65b320b19a7b41e512526aefb0beab4cc803fbb53bc6beeb8"},
	{"tl1", 256, 14336, 256, 128, 32, "4c88b570ef87f266156377e3e512c11e7ee8646b6e537ea306cd677dfa23e534"},
	{"tl1", 256, 4096, 128, 64, 64, "7ef5904862149d8f10ea913b1dc53794024e69be309fd23256fdb06c119f3d17"},
	{"tl1", 256, 4096, 128, 64, 32, "aee761812c098b88a955563a3b9766cd5c79eb1f558101d4bce8aeaf8d0b02bb"},
	{"tl2", 256, 1536, 128, 192, 32, "b3c7ad90d90e7c00cbf4458a01495b132989b1540ef897726771ae1101ff35fc"},
	{"tl2", 512, 1536, 256, 96, 32, "4c194b5931592ccf83721d361f038859a533d4a4a8817c9345a787f3458144eb"},
	{"tl2", 320, 8640, 160, 96, 32, "0601d76e72bf39eafe7208ec8b4710224b2c89843895f3ee01178125ec5b7cca"},
	{"tl2", 640, 3200, 320, 96, 32, "ef7dcecc4ede37b490360027c5755d3335a78d6541b8d3a472f0471df16e37d6"},
	{"tl2", 512, 4096, 256, 96, 32, "e3c7911833995b1a8f26a2fcbdae7d04045b5b8be242b0e4e4041d13c5837d81"},
	{"tl2", 256, 14336, 128, 96, 32, "8e04061b03b77b1a0240a5b442ff9c756d4317eba6982ee387b77913ecc35712"},
	{"tl2", 256, 4096, 128, 96, 32, "4702405c26a8bd8334e9c637b7b53158653e5fd7b278bba0b623d58900596581"},
	{"tl2", 640, 2560, 160, 96, 32, "c877285116c37b2c3d35ad98f2fd32788cb2f643905667cada3f3b0fa25749fb"},
	{"tl2", 320, 6912, 160, 192, 32, "077ec7c1c56d311710a395af526922f15ca4bc90cf7f7c7fe27c304481cba3ba"},
	{"tl2", 64, 640, 32, 384, 32, "920665de20005f19a4292d9a526943da7199aa2c342cb42d120007ba5dd6a2cc"},
	{"tl2", 96, 768, 32, 96, 32, "ea8342b9fc34e9a3d3cd2fa0a4a1b5ec47eeb2aac1d7c3c343143bbf52c9bb67"},
}

// What the converter of bitnet.cpp packs is what modeltest packs, and loads as the weights that it was packed from.
func TestTilesOfTheConverter(t *testing.T) {
	for _, c := range converted {
		t.Run(fmt.Sprintf("%s/%dx%d/BM=%d/BK=%d/bm=%d", c.kind, c.n, c.k, c.bm, c.bk, c.bmm), func(t *testing.T) {
			want, tiles := pattern(c.n, c.k), model.TileParameters{BM: c.bm, BK: c.bk, Bm: c.bmm}
			packed := packTiles(c.kind, want, c.n, c.k, tiles)
			if sum := sha256.Sum256(packed); hex.EncodeToString(sum[:]) != c.sha256 {
				t.Fatalf("SHA-256 %x, want %s", sum, c.sha256)
			}
			codes, scale, err := loadTiles(t, c.kind, packed, c.n, c.k, tiles)
			if err != nil || scale != 0.75 || !slices.Equal(want, codes) {
				t.Errorf("scale %v, error %v, right weights: %v; want 0.75 and all", scale, err, slices.Equal(want, codes))
			}
		})
	}
}

var tileTypes = map[string]uint32{"tl1": 38, "tl2": 39}

func packTiles(kind string, codes []int8, n, k int, tiles model.TileParameters) []byte {
	if kind == "tl1" {
		return modeltest.PackTL1(codes, n, k, tiles)
	}
	return modeltest.PackTL2(codes, n, k, tiles)
}

// tileFile is a file with one tensor, whose scale of 0.75 is behind its codes as ggml_nbytes has it.
func tileFile(kind string, packed []byte, n, k int) []byte {
	w := new(modeltest.Writer)
	w.String("general.architecture", "bitnet")
	w.Tensor("w", tileTypes[kind], 0, uint64(k), uint64(n))
	b := append(w.Header(), packed...)
	b = append(b, make([]byte, (32-len(packed)%32)%32)...)
	return append(binary.LittleEndian.AppendUint32(b, math.Float32bits(0.75)), make([]byte, 28)...)
}

func loadTiles(t *testing.T, kind string, packed []byte, n, k int, tiles model.TileParameters) ([]int8, float32, error) {
	t.Helper()
	f, err := readBytes(tileFile(kind, packed, n, k))
	if err != nil {
		t.Fatal(err)
	}
	codes, scale, gotN, gotK, err := f.TernaryAs("w", model.Packing{Tiles: tiles})
	if err == nil && (gotN != n || gotK != k) {
		t.Errorf("%d x %d, want %d x %d", gotN, gotK, n, k)
	} else if err != nil {
		oneLine(t, err)
	}
	return codes, scale, err
}

// tilesFor are tiles that the format allows for any shape of a preset.
func tilesFor(kind string, n, k int) model.TileParameters {
	p := model.TileParameters{BM: 32, BK: 96, Bm: 32}
	for _, bm := range []int{256, 160, 128, 64} {
		if n%bm == 0 {
			p.BM = bm
			break
		}
	}
	if kind == "tl1" {
		p.BK = 64
	}
	return p
}

// Every shape of every preset, with all its columns and two tiles of rows, in the smallest and in larger tiles.
func TestTilesOfEveryPreset(t *testing.T) {
	seen := make(map[string]bool)
	for _, m := range model.Presets() {
		for _, s := range m.Shapes {
			for _, c := range []struct {
				kind  string
				tiles model.TileParameters
			}{
				{"tl1", model.TileParameters{BM: 32, BK: 8, Bm: 32}},
				{"tl1", model.TileParameters{BM: 64, BK: 64, Bm: 64}},
				{"tl2", model.TileParameters{BM: 32, BK: 24, Bm: 32}},
				{"tl2", model.TileParameters{BM: 64, BK: 192, Bm: 32}},
			} {
				n, name := 2*c.tiles.BM, fmt.Sprint(c.kind, s.K, c.tiles)
				if s.N%c.tiles.BM != 0 || c.kind == "tl2" && s.K%c.tiles.BK%32 != 0 || seen[name] {
					continue
				}
				seen[name] = true
				want := pattern(n, s.K)
				codes, _, err := loadTiles(t, c.kind, packTiles(c.kind, want, n, s.K, c.tiles), n, s.K, c.tiles)
				if err != nil || !slices.Equal(want, codes) {
					t.Errorf("%s of %s: %d x %d in %v: %v, right weights: %v", c.kind, m.Name, n, s.K, c.tiles, err, slices.Equal(want, codes))
				}
			}
		}
	}
	if len(seen) < 40 {
		t.Errorf("%d cases, want at least 40", len(seen))
	}
}

// Which tiles bitnet.cpp offers is tried out on files as its converter makes them.
func TestPublishedTiles(t *testing.T) {
	setupEnv := func(kind string) func(n, k int) model.TileParameters {
		return func(n, k int) model.TileParameters {
			switch {
			case kind == "tl1" && n == k:
				return model.TileParameters{BM: 128, BK: 64, Bm: 64}
			case kind == "tl1":
				return model.TileParameters{BM: 256, BK: 128, Bm: 32}
			case n == k:
				return model.TileParameters{BM: 128, BK: 192, Bm: 32}
			}
			return model.TileParameters{BM: 256, BK: 96, Bm: 32}
		}
	}
	for _, kind := range []string{"tl1", "tl2"} {
		t.Run(kind, func(t *testing.T) {
			m, _ := model.Preset("bitnet-b1.58-large")
			m.Architecture, m.Layers, m.Vocab = "bitnet", 1, 16
			path := filepath.Join(t.TempDir(), "large.gguf")
			if err := modeltest.Write(path, m, kind, 11, setupEnv(kind)); err != nil {
				t.Fatal(err)
			}
			f, err := model.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for _, tensor := range f.Tensors {
				if !tensor.Ternary || strings.Contains(tensor.Name, "_k.") || strings.Contains(tensor.Name, "_v.") {
					continue
				}
				want, wantScale := modeltest.Weights(11, tensor.Name, int(tensor.N()), int(tensor.K()))
				codes, scale, _, _, err := f.Ternary(tensor.Name)
				if err != nil || scale != wantScale || !slices.Equal(want, codes) {
					t.Errorf("%s: %v, scale %v, right weights: %v; want scale %v and all", tensor.Name, err, scale, slices.Equal(want, codes), wantScale)
				}
			}
			described, err := f.Model()
			if err != nil || !strings.Contains(strings.Join(described.Warnings, "\n"), "assumed are those of setup_env.py") || len(described.Warnings) != 1 {
				t.Errorf("%v, warnings %q: want one that names what is assumed", err, described.Warnings)
			}
		})
	}
}

// What is assumed of the tiles of a whole model, or that nothing can be, is said without reading a weight.
func TestTileWarnings(t *testing.T) {
	for _, c := range []struct{ preset, arch, layout, want string }{
		{"bitnet-b1.58-large", "bitnet", "tl1", "assumed are those of setup_env.py"},
		{"bitnet-b1.58-3b", "bitnet", "tl1", "assumed are those of setup_env.py"},
		{"bitnet-b1.58-3b", "bitnet", "tl2", "assumed are those of setup_env.py"},
		{"llama3-8b-1.58", "llama", "tl2", "assumed are those of setup_env.py"},
		{"llama3-8b-1.58", "llama", "tl1", "its weights cannot be loaded without them"},
		{"llama3-8b-1.58", "bitnet", "tl2", "its weights cannot be loaded without them"},
		{"bitnet-b1.58-2b-4t", "bitnet-b1.58", "tl2", "its weights cannot be loaded without them"},
		{"falcon3-7b-1.58", "llama", "tl1", "its weights cannot be loaded without them"},
	} {
		m, _ := model.Preset(c.preset)
		m.Architecture, m.Vocab = c.arch, 16
		path := filepath.Join(t.TempDir(), "model.gguf")
		if err := modeltest.WriteSparse(path, m, c.layout); err != nil {
			t.Fatal(err)
		}
		m, err := model.Load(path)
		if err != nil || len(m.Warnings) != 1 || !strings.Contains(m.Warnings[0], c.want) {
			t.Errorf("%s of %s as %s: %v, warnings %q, want one with %q", c.preset, c.arch, c.layout, err, m.Warnings, c.want)
		}
	}
}

// What speaks against a file having been made with published tiles is a refusal that says so.
func TestTilesRefused(t *testing.T) {
	type tensor struct {
		name string
		n, k uint64
	}
	up := []tensor{{"blk.0.ffn_up.weight", 4096, 1536}}
	for _, c := range []struct {
		name     string
		arch     string
		fileType int
		kind     string
		tensors  []tensor
		want     string
	}{
		{"shape of no model", "bitnet", 39, "tl2", []tensor{{"w", 6912, 2560}}, "is tl2 of 6912 x 2560, in tiles that the file does not tell and bitnet.cpp has no default for: want BM, BK and bm"},
		{"other file type", "bitnet", 40, "tl2", up, "general.file_type is uint64 40 rather than 39"},
		{"file type missing", "bitnet", 0, "tl1", up, "general.file_type is missing rather than 38"},
		{"other architecture", "llama", 39, "tl2", up, `general.architecture is the string "llama" rather than "bitnet"`},
		{"beside a shape of another model", "bitnet", 39, "tl2", append(up, tensor{"blk.0.attn_q.weight", 3200, 3200}), `tensor "blk.0.attn_q.weight" is 3200 x 3200`},
		{"published twice", "llama", 38, "tl1", []tensor{{"w", 4096, 4096}}, "BM 128, BK 64, bm 64 (setup_env.py) and BM 128, BK 64, bm 32 (preset_kernels)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := new(modeltest.Writer)
			w.String("general.architecture", c.arch)
			if c.fileType > 0 {
				w.Uint32("general.file_type", c.fileType)
			}
			offset := uint64(0)
			for _, tensor := range c.tensors {
				w.Tensor(tensor.name, tileTypes[c.kind], offset, tensor.k, tensor.n)
				bytes := tensor.n*tensor.k/4 + 32
				if c.kind == "tl2" {
					bytes = ((tensor.k-256)*tensor.n/3*5/8+256*tensor.n/2*4/8+31)/32*32 + 32
				}
				offset += bytes
			}
			head := w.Header()
			size := int64(len(head)) + int64(offset)
			f, err := model.Read(sparse{head, size}, size)
			if err != nil {
				t.Fatal(err)
			}
			_, _, _, _, err = f.Ternary(c.tensors[0].name)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "in Packing.Tiles") {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			oneLine(t, err)
		})
	}
}

func TestImpossibleTiles(t *testing.T) {
	for _, c := range []struct {
		kind  string
		tiles model.TileParameters
		want  string
	}{
		{"tl1", model.TileParameters{BM: 128, BK: 64, Bm: 16}, "want a bm of 32, or of 64"},
		{"tl2", model.TileParameters{BM: 128, BK: 96, Bm: 64}, "want a bm of 32"},
		{"tl1", model.TileParameters{BM: 128, BK: 64, Bm: -32}, "want a bm of 32"},
		{"tl1", model.TileParameters{BM: 96, BK: 64, Bm: 32}, "divides the 256 rows"},
		{"tl1", model.TileParameters{BM: 32, BK: 64, Bm: 64}, "a multiple of bm"},
		{"tl1", model.TileParameters{BM: -256, BK: 64, Bm: 32}, "divides the 256 rows"},
		{"tl1", model.TileParameters{BM: 0, BK: 64, Bm: 32}, "divides the 256 rows"},
		{"tl1", model.TileParameters{BM: 128, BK: 96, Bm: 32}, "divides the 1024 columns"},
		{"tl1", model.TileParameters{BM: 128, BK: 4, Bm: 32}, "a multiple of 8"},
		{"tl1", model.TileParameters{BM: 128, BK: 0, Bm: 32}, "divides the 1024 columns"},
		{"tl2", model.TileParameters{BM: 128, BK: 64, Bm: 32}, "a multiple of 24"},
		{"tl2", model.TileParameters{BM: 128, BK: 0, Bm: 32}, "a multiple of 24"},
		{"tl2", model.TileParameters{BM: 128, BK: -24, Bm: 32}, "a multiple of 24"},
		{"tl2", model.TileParameters{BM: 128, BK: 1056, Bm: 32}, "of the 1024 columns"},
		{"tl2", model.TileParameters{BM: 128, BK: 144, Bm: 32}, "leaves a multiple of 32"},
		{"tl2", model.TileParameters{BM: 128, BK: 672, Bm: 32}, "at most 256"},
	} {
		t.Run(fmt.Sprintf("%s in %v", c.kind, c.tiles), func(t *testing.T) {
			const n, k = 256, 1024
			packed := packTiles(c.kind, make([]int8, n*k), n, k, tilesFor(c.kind, n, k))
			if _, _, err := loadTiles(t, c.kind, packed, n, k, c.tiles); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// Data that no converter writes is refused with the byte: it is damaged, or was packed in another way.
func TestTilesDamaged(t *testing.T) {
	const n, k = 64, 1024 // 960 columns in triples, 64 in pairs
	const signs, pairs, end = n * 960 / 6, n * 960 * 5 / 24, n*960*5/24 + n*64/4
	for _, c := range []struct {
		kind string
		at   int
		b    byte
		want string
	}{
		{"tl1", 77, 0x94, "byte 77 holds 0x94,"},
		{"tl1", n*k/4 - 1, 0x4f, fmt.Sprintf("byte %d holds 0x4f,", n*k/4-1)},
		{"tl2", 40, 0x0e, "byte 40 holds 0x0e,"},
		{"tl2", signs - 1, 0xf0, "holds 0xf0,"},
		{"tl2", signs + 6, 0x80, fmt.Sprintf("byte %d holds the sign of three zeros,", signs+6)},
		{"tl2", pairs + 1, 0x90, fmt.Sprintf("byte %d holds 0x90,", pairs+1)},
		{"tl2", end + 2, 1, fmt.Sprintf("byte %d holds 0x01 behind the last weight,", end+2)},
	} {
		t.Run(fmt.Sprintf("%s byte %d", c.kind, c.at), func(t *testing.T) {
			tiles := tilesFor(c.kind, n, k)
			packed := packTiles(c.kind, make([]int8, n*k), n, k, tiles)
			packed[c.at] = c.b
			_, _, err := loadTiles(t, c.kind, packed, n, k, tiles)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasSuffix(err.Error(), tiles.String()) {
				t.Errorf("error %v, want one with %q that ends with the tiles", err, c.want)
			}
		})
	}
}

// Tiles that move the border between triples and pairs are found out; others only permute the weights, which no check
// can notice: the reason why tiles are never guessed.
func TestWrongTiles(t *testing.T) {
	const n, k = 256, 1536 + 64
	for _, c := range []struct {
		kind     string
		was, as  model.TileParameters
		detected bool
	}{
		{"tl2", model.TileParameters{BM: 128, BK: 96, Bm: 32}, model.TileParameters{BM: 128, BK: 384, Bm: 32}, false},
		{"tl2", model.TileParameters{BM: 128, BK: 480, Bm: 32}, model.TileParameters{BM: 128, BK: 96, Bm: 32}, true},
		{"tl2", model.TileParameters{BM: 128, BK: 96, Bm: 32}, model.TileParameters{BM: 128, BK: 480, Bm: 32}, true},
		{"tl2", model.TileParameters{BM: 128, BK: 96, Bm: 32}, model.TileParameters{BM: 256, BK: 96, Bm: 32}, false},
		{"tl1", model.TileParameters{BM: 128, BK: 64, Bm: 32}, model.TileParameters{BM: 128, BK: 64, Bm: 64}, false},
		{"tl1", model.TileParameters{BM: 128, BK: 64, Bm: 32}, model.TileParameters{BM: 128, BK: 32, Bm: 32}, false},
	} {
		t.Run(fmt.Sprintf("%s in %v as %v", c.kind, c.was, c.as), func(t *testing.T) {
			want, _ := modeltest.Weights(9, "w", n, k)
			codes, _, err := loadTiles(t, c.kind, packTiles(c.kind, want, n, k, c.was), n, k, c.as)
			if (err != nil) != c.detected {
				t.Errorf("error %v, want it detected: %v", err, c.detected)
			}
			if err == nil && slices.Equal(want, codes) {
				t.Error("loaded the right weights with the wrong tiles")
			}
		})
	}
}

// A scale that is apart has to be one float32, and a number.
func TestScaleApart(t *testing.T) {
	const n, k = 64, 1024
	tiles := tilesFor("tl1", n, k)
	for _, c := range []struct {
		name  string
		kind  uint32
		dims  []uint64
		value float32
		want  string
	}{
		{"no dimensions", 0, nil, 2.5, ""},
		{"one dimension", 0, []uint64{1}, 2.5, ""},
		{"two scales", 0, []uint64{2}, 2.5, "is 1 x 2 of f32: want one f32"},
		{"f16", 1, nil, 2.5, "is 1 x 1 of f16: want one f32"},
		{"not a number", 0, nil, float32(math.NaN()), "its scale is NaN"},
		{"infinite", 0, nil, float32(math.Inf(-1)), "its scale is -Inf"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, _ := modeltest.Weights(2, "w", n, k)
			w := new(modeltest.Writer)
			w.Tensor("w", 38, 0, k, n)
			w.Tensor("w_scale", c.kind, n*k/4, c.dims...)
			b := append(w.Header(), modeltest.PackTL1(want, n, k, tiles)...)
			b = append(binary.LittleEndian.AppendUint32(b, math.Float32bits(c.value)), make([]byte, 28)...)
			f, err := readBytes(b)
			if err != nil {
				t.Fatal(err)
			}
			codes, scale, _, _, err := f.TernaryAs("w", model.Packing{Tiles: tiles})
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("error %v, want one with %q", err, c.want)
				}
				oneLine(t, err)
			} else if err != nil || scale != c.value || !slices.Equal(want, codes) {
				t.Errorf("%v, scale %v, right weights: %v", err, scale, slices.Equal(want, codes))
			}
		})
	}
}

// A file that shrinks while it is read is an error wherever it ends.
func TestTilesShrinkingFile(t *testing.T) {
	const n, k = 32, 320
	for kind := range tileTypes {
		tiles := tilesFor(kind, n, k)
		b := tileFile(kind, packTiles(kind, pattern(n, k), n, k, tiles), n, k)
		for size := 0; size < len(b)-28; size++ {
			if f, err := model.Read(bytes.NewReader(b[:size]), int64(len(b))); err != nil {
				oneLine(t, err)
			} else if _, _, _, _, err := f.TernaryAs("w", model.Packing{Tiles: tiles}); err == nil {
				t.Errorf("%s: loaded from %d of %d bytes", kind, size, len(b))
			} else {
				oneLine(t, err)
			}
		}
	}
}

// Besides its codes a tensor costs a window of the file, however large it is.
func TestTernaryAllocatesLittle(t *testing.T) {
	const n, k = 640, 2560
	for kind := range tileTypes {
		tiles := tilesFor(kind, n, k)
		f, err := readBytes(tileFile(kind, packTiles(kind, pattern(n, k), n, k, tiles), n, k))
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, _, _, _, err := f.TernaryAs("w", model.Packing{Tiles: tiles}); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > n*k+128<<10 {
			t.Errorf("%s: %d bytes allocated for %d codes, want at most 128 KiB more", kind, got, n*k)
		}
	}
}

// FuzzTernaryAs feeds any bytes to any format in any packing: an error or codes, and little more memory than the codes.
func FuzzTernaryAs(f *testing.F) {
	const n, k = 32, 320
	want := pattern(n, k)
	for kind, id := range tileTypes {
		tiles := tilesFor(kind, n, k)
		f.Add(id, uint16(n), uint16(k), int16(tiles.BM), int16(tiles.BK), int16(tiles.Bm), "", packTiles(kind, want, n, k, tiles))
	}
	f.Add(uint32(34), uint16(1), uint16(512), int16(0), int16(0), int16(0), "", modeltest.PackTQ1(want[:512], 1))
	f.Add(uint32(35), uint16(2), uint16(256), int16(0), int16(0), int16(0), "", modeltest.PackTQ2(want[:512], 1))
	f.Add(uint32(36), uint16(2), uint16(256), int16(0), int16(0), int16(0), string(model.I2SRows4), modeltest.Pack(want[:512], 1))
	f.Add(uint32(36), uint16(4), uint16(128), int16(0), int16(0), int16(0), string(model.I2SBlocks64), modeltest.PackI2SRows4(want[:512], 1, 128))
	f.Add(uint32(134), uint16(2), uint16(256), int16(0), int16(0), int16(0), "", modeltest.PackIQ1(want[:512], 1, 256))
	f.Add(uint32(135), uint16(2), uint16(256), int16(0), int16(0), int16(0), "", modeltest.PackIQ2(want[:512], 1, 256))
	f.Fuzz(func(t *testing.T, id uint32, n, k uint16, bm, bk, bmm int16, order string, data []byte) {
		w := new(modeltest.Writer)
		w.Tensor("w", id, 0, uint64(k), uint64(n))
		file, err := readBytes(append(append(w.Header(), data...), make([]byte, 96)...))
		if err != nil {
			return
		}
		packing := model.Packing{Tiles: model.TileParameters{BM: int(bm), BK: int(bk), Bm: int(bmm)}, I2S: model.I2SOrder(order)}
		codes, scale, gotN, gotK, err := file.TernaryAs("w", packing)
		if err != nil {
			oneLine(t, err)
			return
		}
		if gotN != int(n) || gotK != int(k) || len(codes) != gotN*gotK || math.IsNaN(float64(scale)) || math.IsInf(float64(scale), 0) {
			t.Errorf("%d codes of %d x %d, scale %v: want %d x %d", len(codes), gotN, gotK, scale, n, k)
		}
		if i := slices.IndexFunc(codes, func(c int8) bool { return c < -1 || c > 1 }); i >= 0 {
			t.Errorf("code %d is %d", i, codes[i])
		}
	})
}

func BenchmarkTernary(b *testing.B) {
	const n, k = 640, 2560
	for kind := range tileTypes {
		tiles := tilesFor(kind, n, k)
		f, err := readBytes(tileFile(kind, packTiles(kind, pattern(n, k), n, k, tiles), n, k))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("type=%s/n=%d/k=%d", kind, n, k), func(b *testing.B) {
			b.SetBytes(n * k)
			for b.Loop() {
				if _, _, _, _, err := f.TernaryAs("w", model.Packing{Tiles: tiles}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
