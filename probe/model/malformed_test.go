package model_test

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model/modeltest"
)

// malformed are headers that have broken other readers, or would break a careless one, and what the message says.
var malformed = []struct {
	name  string
	bytes []byte
	want  string
}{
	{"empty file", nil, "the file is empty"},
	{"two bytes", []byte("GG"), `magic: "GG" is not "GGUF"`},
	{"magic only", []byte("GGUF"), "4 bytes wanted at byte 4, but only 0 are left"},
	{"bad magic", []byte("GGML\x03\x00\x00\x00"), `magic: "GGML" is not "GGUF"`},
	{"version 0", header(modeltest.Writer{}, func(w *modeltest.Writer) {}, 4, 0), "version: 0 is unknown"},
	{"version 99", header(modeltest.Writer{Version: 99}, nothing), "version: 99 is unknown: want 1, 2 or 3"},
	{"big-endian version 4", header(modeltest.Writer{Version: 4, BigEndian: true}, nothing), "version: 4 is unknown"},
	{"key count 2^63", header(modeltest.Writer{Keys: 1 << 63}, nothing), "key count: 9223372036854775808 is more than"},
	{"key count 2^40", header(modeltest.Writer{Keys: 1 << 40}, nothing), "key count: 1099511627776 is more than"},
	{"key count beyond the file", header(modeltest.Writer{Keys: 4000}, nothing), "0 tensors and 4000 keys are claimed"},
	{"tensor count 2^63", header(modeltest.Writer{Tensors: 1 << 63}, nothing), "tensor count: 9223372036854775808 is more than"},
	{"tensor count 2^34", header(modeltest.Writer{Tensors: 1 << 34}, nothing), "tensor count: 17179869184 is more than"},
	{"tensor count beyond the file", header(modeltest.Writer{Tensors: 60000}, nothing), "60000 tensors and 0 keys are claimed"},
	{"key length 2^62", raw(func(w *modeltest.Writer) []byte { return w.Number(1<<62, 8) }), "key 1 of 1: name of 4611686018427387904 bytes: want at most 65535"},
	{"key length 2^31", raw(func(w *modeltest.Writer) []byte { return w.Number(1<<31, 8) }), "key 1 of 1: name of 2147483648 bytes"},
	{"key length beyond the file", raw(func(w *modeltest.Writer) []byte { return w.Number(5000, 8) }), "key 1 of 1: 5000 bytes wanted"},
	{"empty key", key("", modeltest.Uint8, 1, 1), `key "": the name is empty`},
	{"string length 2^60", key("k", modeltest.String, 1<<60, 8), `key "k": string of 1152921504606846976 bytes: want at most`},
	{"string length beyond the file", key("k", modeltest.String, 60000, 8), `key "k": 60000 bytes wanted`},
	{"u8 array length 2^60", array(modeltest.Uint8, 1<<60), `key "k": array of 1152921504606846976 elements`},
	{"u8 array beyond the file", array(modeltest.Uint8, 60000), `key "k": 60000 bytes wanted`},
	{"f64 array beyond the file", array(modeltest.Float64, 1<<24), `key "k": 134217728 bytes wanted`},
	{"string array length 2^33", array(modeltest.String, 1<<33), `key "k": array of 8589934592 elements`},
	{"string array beyond the file", array(modeltest.String, 1<<24), `key "k": 134217728 bytes wanted`},
	{"nested arrays", array(modeltest.Array, 1), `key "k": array of arrays`},
	{"array of type 77", array(77, 1), `key "k": array of unknown type 77`},
	{"value type 77", key("k", 77, 0, 8), `key "k": value type 77 is unknown: want 0 to 12`},
	{"duplicate keys", header(modeltest.Writer{}, func(w *modeltest.Writer) { w.Uint32("k", 1); w.Uint32("k", 2) }), `key "k": occurs twice`},
	{"alignment 0", alignment(0), `key "general.alignment": 0: want a power of two from 8`},
	{"alignment 3", alignment(3), `key "general.alignment": 3: want a power of two`},
	{"alignment 2^30", alignment(1 << 30), `key "general.alignment": 1073741824: want a power of two from 8 to 1048576`},
	{"alignment i32", key("general.alignment", modeltest.Int32, 32, 4), `key "general.alignment": is int64 32: want a u32`},
	{"alignment string", header(modeltest.Writer{}, func(w *modeltest.Writer) { w.String("general.alignment", "32") }), `is the string "32": want a u32`},

	{"tensor name of 65 bytes", tensors(0, func(w *modeltest.Writer) { w.Tensor(strings.Repeat("x", 65), 0, 0, 8) }), "tensor 1 of 1: name of 65 bytes: want at most 64"},
	{"empty tensor name", tensors(32, func(w *modeltest.Writer) { w.Tensor("", 0, 0, 8) }), "the name of tensor 1 is empty"},
	{"duplicate tensors", tensors(64, func(w *modeltest.Writer) { w.Tensor("t", 0, 0, 8); w.Tensor("t", 0, 32, 8) }), `tensor "t": occurs twice`},
	{"5 dimensions", tensors(32, func(w *modeltest.Writer) { w.Tensor("t", 0, 0, 1, 1, 1, 1, 1) }), `tensor "t": 5 dimensions: want 0 to 4`},
	{"2^31 dimensions", tensors(32, func(w *modeltest.Writer) { w.TensorBytes("t", 1<<31, 0, 0, 8) }), `tensor "t": 2147483648 dimensions`},
	{"a dimension of 0", tensors(32, func(w *modeltest.Writer) { w.Tensor("t", 0, 0, 8, 0) }), `tensor "t": dimension 2 is 0`},
	{"4 dimensions of 2^40", tensors(32, func(w *modeltest.Writer) { w.Tensor("t", 0, 0, 1<<40, 1<<40, 1<<40, 1<<40) }), `make more than 2^48 weights`},
	{"dimensions that multiply to 2^64", tensors(32, func(w *modeltest.Writer) { w.Tensor("t", 0, 0, 1<<32, 1<<32) }), `make more than 2^48 weights`},
	{"type 200", tensors(32, func(w *modeltest.Writer) { w.Tensor("t", 200, 0, 8) }), `tensor "t": type 200 is unknown`},
	{"type 4", tensors(32, func(w *modeltest.Writer) { w.Tensor("t", 4, 0, 8) }), `tensor "t": type 4 (q4_2) was removed`},
	{"offset 2^62", tensors(32, func(w *modeltest.Writer) { w.Tensor("t", 0, 1<<62, 8) }), `tensor "t": offset 4611686018427387904 into the data is beyond the end of the file`},
	{"offset 2^64-32", tensors(32, func(w *modeltest.Writer) { w.Tensor("t", 0, 1<<64-32, 8) }), "beyond the end of the file"},
	{"offset 8", tensors(64, func(w *modeltest.Writer) { w.Tensor("t", 0, 8, 8) }), `offset 8 is not a multiple of the alignment, 32`},
	{"no data", tensors(0, func(w *modeltest.Writer) { w.Tensor("t", 0, 0, 8) }), `beyond the end of the file, which has 0 bytes of data`},
	{"data beyond the end", tensors(31, func(w *modeltest.Writer) { w.Tensor("t", 0, 0, 8) }), `tensor "t": f32 takes 32 bytes, but the file ends 31 bytes after its start: the file is truncated`},
	{"i2_s data beyond the end", tensors(63, func(w *modeltest.Writer) { w.Tensor("t", 36, 0, 128) }), `i2_s takes 64 bytes, but the file ends 63 bytes`},
	{"id 39 data beyond the end", tensors(90, func(w *modeltest.Writer) { w.Tensor("t", 39, 0, 256) }), `tl2 takes 96, mxfp4 takes 136 bytes, but the file ends 90 bytes`},
	{"overlap", tensors(64, func(w *modeltest.Writer) { w.Tensor("t", 0, 0, 16); w.Tensor("u", 0, 32, 8) }), `tensor "t": f32 takes 64 bytes, but tensor "u" begins 32 bytes after its start`},
	{"one offset for two", tensors(64, func(w *modeltest.Writer) { w.Tensor("t", 0, 0, 8); w.Tensor("u", 0, 0, 8) }), `tensor "u" begins 0 bytes after its start`},
	{"one offset for two of unknown size", tensors(64, func(w *modeltest.Writer) { w.Tensor("t", 137, 0, 8); w.Tensor("u", 0, 0, 8) }), `tensor "t": shares its offset`},
	{"gap", tensors(128, func(w *modeltest.Writer) { w.Tensor("t", 0, 0, 8); w.Tensor("u", 0, 64, 8) }), `tensor "t": f32 takes 32 bytes, but tensor "u" begins 64 bytes`},
	{"i2_s with the room of 4.5 bits", tensors(320, func(w *modeltest.Writer) { w.Tensor("t", 36, 0, 512); w.Tensor("u", 0, 288, 8) }), `i2_s takes 160 bytes, but tensor "u" begins 288`},
	{"id 39 with the room of neither", tensors(256, func(w *modeltest.Writer) { w.Tensor("t", 39, 0, 256); w.Tensor("u", 0, 224, 8) }), `tl2 takes 96, mxfp4 takes 136 bytes, but tensor "u" begins 224`},
	{"tq2_0 with rows of 128", tensors(66, func(w *modeltest.Writer) { w.Tensor("t", 35, 0, 128, 2) }), `type 35 (tq2_0) cannot hold rows of 128 weights`},

	{"no architecture", header(modeltest.Writer{}, nothing), `key "general.architecture": is missing`},
	{"architecture u32", header(modeltest.Writer{}, func(w *modeltest.Writer) { w.Uint32("general.architecture", 1) }), `key "general.architecture": is uint64 1: want a string`},
	{"architecture empty", architecture("", nothing), `key "general.architecture": "": want a name`},
	{"architecture with a line break", architecture("a\nb", nothing), `"a\nb": want a name`},
	{"block count string", architecture("llama", func(w *modeltest.Writer) { w.String("llama.block_count", "30") }), `key "llama.block_count": is the string "30": want an integer`},
	{"block count -1", architecture("llama", func(w *modeltest.Writer) { w.Key("llama.block_count", modeltest.Int32, w.Number(1<<32-1, 4)) }), `key "llama.block_count": is int64 -1`},
	{"block count 2^63", architecture("llama", func(w *modeltest.Writer) { w.Key("llama.block_count", modeltest.Uint64, w.Number(1<<63, 8)) }), `key "llama.block_count": is uint64 9223372036854775808`},
	{"one of 3 parts", architecture("llama", func(w *modeltest.Writer) { w.Key("split.count", modeltest.Uint16, w.Number(3, 2)) }), `the file is one of 3 parts`},
	{"ternary tensor of experts", append(architecture("llama", func(w *modeltest.Writer) { w.Tensor("blk.0.ffn_up.weight", 36, 0, 128, 4, 2) }), make([]byte, 288)...), `dimensions [128 4 2]: want a matrix`},
}

func nothing(*modeltest.Writer) {}

// header is what w writes after add; then, optionally, byte poke[0] is replaced by poke[1].
func header(w modeltest.Writer, add func(*modeltest.Writer), poke ...int) []byte {
	add(&w)
	b := w.Header()
	if len(poke) == 2 {
		b[poke[0]] = byte(poke[1])
	}
	return b
}

// raw is a header that claims one key, followed by bytes.
func raw(bytes func(*modeltest.Writer) []byte) []byte {
	w := modeltest.Writer{Keys: 1, Align: 1}
	return append(append(w.Header(), bytes(&w)...), make([]byte, 32)...)
}

// key is a header with one key, whose value is v in n bytes.
func key(name string, kind uint32, v uint64, n int) []byte {
	return header(modeltest.Writer{}, func(w *modeltest.Writer) { w.Key(name, kind, w.Number(v, n)) })
}

// array is a header with a key "k" that claims an array of n elements.
func array(kind, n uint64) []byte {
	return header(modeltest.Writer{}, func(w *modeltest.Writer) { w.Key("k", modeltest.Array, w.Number(kind, 4), w.Count(n)) })
}

func alignment(v int) []byte {
	return header(modeltest.Writer{}, func(w *modeltest.Writer) { w.Uint32("general.alignment", v) })
}

// tensors is a header with tensors and so many bytes of data.
func tensors(data int, add func(*modeltest.Writer)) []byte {
	return append(header(modeltest.Writer{}, add), make([]byte, data)...)
}

func architecture(name string, add func(*modeltest.Writer)) []byte {
	return header(modeltest.Writer{}, func(w *modeltest.Writer) { w.String("general.architecture", name); add(w) })
}

func TestMalformed(t *testing.T) {
	for _, c := range malformed {
		t.Run(c.name, func(t *testing.T) {
			m, err := described(c.bytes)
			if err == nil {
				t.Fatalf("accepted as %+v, want an error with %q", m, c.want)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q, want one with %q", err, c.want)
			}
			oneLine(t, err)
		})
	}
}

// A hostile header of a few hundred bytes must not cost more memory than a header of its size needs.
func TestMalformedAllocatesLittle(t *testing.T) {
	for _, c := range malformed {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		described(c.bytes)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 128<<10 {
			t.Errorf("%s: %d bytes allocated, want at most 128 KiB", c.name, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, c := range malformed {
		f.Add(c.bytes)
	}
	for _, w := range []*modeltest.Writer{{}, {Version: 1}, {Version: 2}, {BigEndian: true}} {
		f.Add(minimal(w))
	}
	f.Fuzz(func(t *testing.T, b []byte) { examine(t, b) })
}

// A file that shrinks while it is read is an error, not a panic.
func TestShrinkingFile(t *testing.T) {
	b := minimal(new(modeltest.Writer))
	for n := range b {
		if f, err := model.Read(bytes.NewReader(b[:n]), int64(len(b))); err != nil {
			oneLine(t, err)
		} else if _, _, _, _, err := f.Ternary("blk.0.attn_q.weight"); err == nil {
			t.Errorf("loaded from %d of %d bytes", n, len(b))
		}
	}
}
