package model_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model/modeltest"
)

// realFile returns the path of a real GGUF file, from $GGUF_DATA or the directory beside the repository. Without the file the
// test is skipped, or fails if BITNET_AUTOTUNE_REQUIRE names gguf.
func realFile(t testing.TB, name string) string {
	dir := os.Getenv("GGUF_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "gguf")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		if strings.Contains(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), "gguf") {
			t.Fatalf("real GGUF file is required: %v: set GGUF_DATA to the directory that has it", err)
		}
		t.Skipf("NOT TESTED with a real GGUF file: %v: set GGUF_DATA to the directory that has it", err)
	}
	return path
}

func TestRealFiles(t *testing.T) {
	for name, want := range map[string]model.Model{
		"ggml-vocab-bert-bge.gguf":  {Name: "bert-bge", Architecture: "bert", Family: "embedding", Layers: 12, Hidden: 384, FFN: 1536, Heads: 12, KVHeads: 12, HeadDim: 32, Vocab: 30522},
		"ggml-vocab-falcon.gguf":    {Name: "Falcon", Architecture: "falcon", Family: "text_generation", Layers: 32, Hidden: 4544, FFN: 18176, Heads: 71, KVHeads: 1, HeadDim: 64, Vocab: 65024},
		"ggml-vocab-gpt-2.gguf":     {Name: "gpt-2", Architecture: "gpt2", Family: "text_generation", Layers: 12, Hidden: 768, FFN: 3072, Heads: 12, KVHeads: 12, HeadDim: 64, Vocab: 50257},
		"ggml-vocab-llama-spm.gguf": {Name: "llama-spm", Architecture: "llama", Family: "text_generation", Layers: 32, Hidden: 4096, FFN: 11008, Heads: 32, KVHeads: 32, HeadDim: 128, Vocab: 32000},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := model.Load(realFile(t, name))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, m, cmpopts.IgnoreFields(model.Model{}, "Source", "Warnings"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err := m.Tunable(); !errors.Is(err, model.ErrNoTernary) || !strings.Contains(err.Error(), name) {
				t.Errorf("tunable: %v, want ErrNoTernary naming the file", err)
			}
		})
	}
}

func TestSparseFileEqualsPreset(t *testing.T) {
	for _, c := range []struct {
		preset, layout string
		tensors        int
	}{
		{"bitnet-b1.58-2b-4t", "i2_s", 332},
		{"bitnet-b1.58-large", "tl1", 168 + 1 + 24*4 + 1},
		{"bitnet-b1.58-3b", "tl2", 182 + 1 + 26*4 + 1},
		{"bitnet-embedding-0.6b", "i2_s", 196 + 1 + 28*2 + 1},
		{"bitnet-embedding-270m", "i2_s", 126 + 1 + 18*2 + 1},
		{"falcon-e-1b", "tq1_0", 168 + 2 + 24*2 + 1},
		{"falcon-e-1b", "tq2_0", 168 + 2 + 24*2 + 1},
		{"falcon-e-1b", "iq1_bn", 168 + 2 + 24*2 + 1},
		{"falcon-e-1b", "iq2_bn", 168 + 2 + 24*2 + 1},
	} {
		t.Run(c.preset+" as "+c.layout, func(t *testing.T) {
			want, _ := model.Preset(c.preset)
			path := filepath.Join(t.TempDir(), "model.gguf")
			if err := modeltest.WriteSparse(path, want, c.layout); err != nil {
				t.Fatal(err)
			}
			f, err := model.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if len(f.Tensors) != c.tensors {
				t.Errorf("%d tensors, want %d", len(f.Tensors), c.tensors)
			}
			got, err := f.Model()
			if err != nil {
				t.Fatal(err)
			}
			want.FileType, want.Source = c.layout, path
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(model.Model{}, "Warnings")); diff != "" {
				t.Errorf("(-preset +file):\n%s", diff)
			}
			if got.Fingerprint() != want.Fingerprint() {
				t.Errorf("fingerprint %s, want that of the preset, %s", got.Fingerprint(), want.Fingerprint())
			}
			var onDisk uint64
			for _, tensor := range f.Tensors {
				if tensor.Ternary {
					onDisk += tensor.Bytes
				}
			}
			if layout := strings.Replace(c.layout, "i2_s", "i2s", 1); onDisk != got.Bytes()[layout] {
				t.Errorf("the tensors have %d bytes, Bytes says %d", onDisk, got.Bytes()[layout])
			}
			for _, w := range got.Warnings {
				if !strings.Contains(w, c.layout) {
					t.Errorf("unexpected warning %q", w)
				}
			}
		})
	}
}

// readBytes reads a file that is in memory.
func readBytes(b []byte) (*model.File, error) {
	return model.Read(bytes.NewReader(b), int64(len(b)))
}

// described is Read and Model at once.
func described(b []byte) (model.Model, error) {
	f, err := readBytes(b)
	if err != nil {
		return model.Model{}, err
	}
	return f.Model()
}

// minimal is a sound file with one I2_S tensor of 4 rows of 128 weights, put together by w, with data behind it.
func minimal(w *modeltest.Writer) []byte {
	w.String("general.architecture", "bitnet")
	w.Tensor("blk.0.attn_q.weight", 36, 0, 128, 4)
	codes, _ := modeltest.Weights(1, "q", 4, 128)
	data := modeltest.Pack(codes, 1)
	if w.BigEndian {
		binary.BigEndian.PutUint32(data[128:], 0x3f800000)
	}
	return append(w.Header(), data...)
}

func TestVersionsAndByteOrders(t *testing.T) {
	for _, version := range []uint32{1, 2, 3} {
		for _, big := range []bool{false, true} {
			t.Run(fmt.Sprintf("v%d big=%v", version, big), func(t *testing.T) {
				f, err := readBytes(minimal(&modeltest.Writer{Version: version, BigEndian: big}))
				if err != nil {
					t.Fatal(err)
				}
				if f.Version != version {
					t.Errorf("version %d, want %d", f.Version, version)
				}
				codes, scale, n, k, err := f.Ternary("blk.0.attn_q.weight")
				if err != nil {
					t.Fatal(err)
				}
				if want, _ := modeltest.Weights(1, "q", 4, 128); n != 4 || k != 128 || scale != 1 || !cmp.Equal(want, codes) {
					t.Errorf("%d x %d, scale %v: the weights differ", n, k, scale)
				}
			})
		}
	}
}

func TestValues(t *testing.T) {
	for _, big := range []bool{false, true} {
		w := &modeltest.Writer{BigEndian: big}
		w.Key("u8", modeltest.Uint8, w.Number(200, 1))
		w.Key("i8", modeltest.Int8, w.Number(0xff, 1))
		w.Key("u16", modeltest.Uint16, w.Number(60000, 2))
		w.Key("i16", modeltest.Int16, w.Number(0xfffe, 2))
		w.Key("u32", modeltest.Uint32, w.Number(4000000000, 4))
		w.Key("i32", modeltest.Int32, w.Number(0xfffffffd, 4))
		w.Float32("f32", 1.5)
		w.Key("bool", modeltest.Bool, w.Number(1, 1))
		w.String("string", "text")
		w.String("long", strings.Repeat("x", 5000))
		w.Strings("strings", 3, func(int) string { return "abc" })
		w.Key("array", modeltest.Array, w.Number(modeltest.Uint16, 4), w.Count(2), make([]byte, 4))
		w.Key("u64", modeltest.Uint64, w.Number(1<<63, 8))
		w.Key("i64", modeltest.Int64, w.Number(1<<64-4, 8))
		w.Key("f64", modeltest.Float64, w.Number(0x3ff8000000000000, 8))
		f, err := readBytes(w.Header())
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"u8": uint64(200), "i8": int64(-1), "u16": uint64(60000), "i16": int64(-2), "u32": uint64(4000000000), "i32": int64(-3),
			"f32": 1.5, "bool": true, "string": "text", "long": model.Skipped{Type: "string", Count: 5000},
			"strings": model.Skipped{Type: "string", Count: 3}, "array": model.Skipped{Type: "u16", Count: 2},
			"u64": uint64(1 << 63), "i64": int64(-4), "f64": 1.5,
		}
		if diff := cmp.Diff(want, f.Keys); diff != "" {
			t.Errorf("big-endian %v (-want +got):\n%s", big, diff)
		}
	}
}

// What type id 39 means: TL2 takes 5 bits for 3 weights, MXFP4 takes 17 bytes for 32.
func TestTypeID39(t *testing.T) {
	const n, k = 96, 768
	tl2 := uint64((k-256)*n/3*5/8 + 256*n/2*4/8)
	tl2 += (32-tl2%32)%32 + 32
	mxfp4 := uint64(n * k / 32 * 17)
	for _, c := range []struct {
		name, arch string
		fileType   int
		room       uint64
		last       bool
		want       string
	}{
		{"room of tl2", "llama", 1, tl2, false, "tl2"},
		{"room of tl2 against the keys", "gpt-oss", 38, tl2, false, "tl2"},
		{"room of mxfp4", "gpt-oss", 38, mxfp4, false, "mxfp4"},
		{"room of mxfp4 against the keys", "bitnet", 39, mxfp4, false, "mxfp4"},
		{"last, room of tl2", "gpt-oss", 38, tl2, true, "tl2"},
		{"last, room of mxfp4", "bitnet", 39, mxfp4, true, "mxfp4"},
		{"last, bytes to spare, file type 39", "llama", 39, mxfp4 + 999, true, "tl2"},
		{"last, bytes to spare, bitnet", "bitnet", 1, mxfp4 + 999, true, "tl2"},
		{"last, bytes to spare, bitnet, file type 38", "bitnet", 38, mxfp4 + 999, true, "mxfp4"},
		{"last, bytes to spare, llama", "llama", 1, mxfp4 + 999, true, "mxfp4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := new(modeltest.Writer)
			w.String("general.architecture", c.arch)
			w.Uint32("general.file_type", c.fileType)
			w.Tensor("blk.0.ffn_up.weight", 39, 0, k, n)
			size := c.room
			if !c.last {
				w.Tensor("output_norm.weight", 0, c.room, 8)
				size += 32
			}
			f, err := readBytes(append(w.Header(), make([]byte, size)...))
			if err != nil {
				t.Fatal(err)
			}
			if got := f.Tensors[0].Type; got != c.want {
				t.Errorf("type %s, want %s", got, c.want)
			}
		})
	}
}

// The converters of bitnet.cpp put the scale of TL1 and TL2 into a tensor of its own, right behind the codes.
func TestScaleInItsOwnTensor(t *testing.T) {
	const n, k = 96, 768
	for id, codes := range map[uint32]uint64{38: n * k / 4, 39: (k-256)*n/3*5/8 + 256*n/2*4/8} {
		for _, name := range []string{"blk.0.ffn_up.weight_scale", "other"} {
			w := new(modeltest.Writer)
			w.String("general.architecture", "bitnet")
			w.Tensor("blk.0.ffn_up.weight", id, 0, k, n)
			w.Tensor(name, 0, codes, 1)
			m, err := described(append(w.Header(), make([]byte, codes+32)...))
			if ok := name != "other"; (err == nil) != ok {
				t.Errorf("type %d before %s: %v, want it accepted: %v", id, name, err, ok)
			}
			if err == nil && (m.TernaryWeights() != n*k || len(m.Warnings) == 0) {
				t.Errorf("type %d: %d weights, warnings %q, want %d weights and a warning", id, m.TernaryWeights(), m.Warnings, n*k)
			}
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		name string
		add  func(*modeltest.Writer)
		want string
	}{
		{"sound", func(w *modeltest.Writer) {}, "blocks of 128"},
		{"file type of another layout", func(w *modeltest.Writer) { w.Uint32("general.file_type", 38) }, "general.file_type is 38"},
		{"two layers claimed", func(w *modeltest.Writer) { w.Uint32("bitnet.block_count", 2) }, "layers differ"},
		{"other hidden size", func(w *modeltest.Writer) { w.Uint32("bitnet.embedding_length", 64) }, "64 inputs for q"},
		{"heads per layer", func(w *modeltest.Writer) {
			w.Key("bitnet.attention.head_count", modeltest.Array, w.Number(modeltest.Int32, 4), w.Count(1), w.Number(8, 4))
		}, "differs between layers"},
		{"ternary head", func(w *modeltest.Writer) {
			w.Tensor("output.weight", 36, 160, 128, 1)
		}, "1 ternary tensors are not matmuls"},
		{"two ternary types", func(w *modeltest.Writer) {
			w.Tensor("blk.0.attn_k.weight", 35, 160, 256, 1)
		}, "2 types"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := new(modeltest.Writer)
			c.add(w)
			m, err := described(append(minimal(w), make([]byte, 96)...))
			if err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(m.Warnings, "\n"); !strings.Contains(all, c.want) {
				t.Errorf("warnings %q, want one with %q", m.Warnings, c.want)
			}
		})
	}
}

func TestDerivedDimensions(t *testing.T) {
	w := new(modeltest.Writer)
	w.String("general.architecture", "gemma3")
	w.Key("gemma3.attention.head_count", modeltest.Int32, w.Number(2, 4))
	w.Uint32("gemma3.pooling_type", 1)
	w.Uint32("gemma3.embedding_length", 128)
	w.Tensor("token_embd.weight", 1, 0, 128, 10)
	w.Tensor("blk.0.attn_q.weight", 36, 2560, 128, 512)
	w.Tensor("blk.0.ffn_gate.weight", 36, 2560+16416, 128, 4)
	m, err := described(append(w.Header(), make([]byte, 2560+16416+160)...))
	if err != nil {
		t.Fatal(err)
	}
	want := model.Model{Architecture: "gemma3", Family: "embedding", Layers: 1, Hidden: 128, FFN: 4, Heads: 2, KVHeads: 2, HeadDim: 256, Vocab: 10,
		Shapes:   []model.Shape{{N: 512, K: 128, Count: 1, Roles: "q"}, {N: 4, K: 128, Count: 1, Roles: "gate"}},
		FileType: "i2_s", Source: "GGUF", Tied: true, EmbeddingBytes: 2560}
	if diff := cmp.Diff(want, m, cmpopts.IgnoreFields(model.Model{}, "Warnings")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Damaged copies of a header: any answer will do, but a panic, a hang or tensors outside the file.
func TestMutations(t *testing.T) {
	small := filepath.Join(t.TempDir(), "small.gguf")
	if err := modeltest.WriteI2S(small, modeltest.Small(), 1); err != nil {
		t.Fatal(err)
	}
	t.Run("minimal", func(t *testing.T) { mutate(t, minimal(new(modeltest.Writer))) })
	t.Run("small", func(t *testing.T) { mutateFile(t, small) })
	for _, name := range []string{"ggml-vocab-bert-bge.gguf", "ggml-vocab-llama-spm.gguf"} {
		t.Run(name, func(t *testing.T) { mutateFile(t, realFile(t, name)) })
	}
}

func mutateFile(t *testing.T, path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mutate(t, b)
}

func mutate(t *testing.T, input []byte) {
	rng := rand.New(rand.NewPCG(1, uint64(len(input))))
	head := min(len(input), 3000) // where the lengths and types are
	for range 300 {
		b := bytes.Clone(input)
		for range 1 + rng.IntN(4) {
			b[rng.IntN(head)] = byte(rng.Uint32()) >> rng.IntN(8)
		}
		examine(t, b)
	}
	for range 100 {
		examine(t, input[:rng.IntN(head)])
	}
}

// examine reads b as a hostile file and checks what holds for every file that is accepted.
func examine(t *testing.T, b []byte) {
	t.Helper()
	f, err := readBytes(b)
	if err != nil {
		oneLine(t, err)
		return
	}
	for _, tensor := range f.Tensors {
		if tensor.Bytes == 0 || tensor.Offset > uint64(len(b)) || tensor.Bytes > uint64(len(b))-tensor.Offset {
			t.Errorf("tensor %q has %d bytes at %d of %d", tensor.Name, tensor.Bytes, tensor.Offset, len(b))
		}
		if _, _, _, _, err := f.Ternary(tensor.Name); err != nil {
			oneLine(t, err)
		}
	}
	m, err := f.Model()
	if err != nil {
		oneLine(t, err)
		return
	}
	if _, err := m.MarshalJSON(); err != nil {
		t.Errorf("marshal: %v", err)
	}
	for _, w := range m.Warnings {
		oneLine(t, errors.New("model: "+w))
	}
}

// oneLine fails unless err is one printable line that begins with the name of the package.
func oneLine(t *testing.T, err error) {
	t.Helper()
	if s := err.Error(); !strings.HasPrefix(s, "model: ") || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) || len(s) > 600 {
		t.Errorf("message %q: want one line of at most 600 characters that begins with model:", s)
	}
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "model.gguf")
	m, _ := model.Preset("bitnet-b1.58-2b-4t")
	if err := modeltest.WriteSparse(path, m, "i2_s"); err != nil {
		b.Fatal(err)
	}
	b.Run("tokens=128256/tensors=332", func(b *testing.B) {
		for b.Loop() {
			f, err := model.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			f.Close()
		}
	})
}
