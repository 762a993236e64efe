package modeltest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

// Small is a model of 3 layers and 1.8 million ternary weights, for WriteI2S.
func Small() model.Model {
	return model.Model{Name: "small", Architecture: "bitnet-b1.58", Layers: 3, Hidden: 256, FFN: 512, Heads: 4, KVHeads: 2, HeadDim: 64, Vocab: 512, Tied: true}
}

// Weights returns the n*k ternary codes, row by row, and the scale that Write gives the tensor called name. The scale is
// one that half precision can hold.
func Weights(seed uint64, name string, n, k int) (codes []int8, scale float32) {
	h := fnv.New64a()
	h.Write([]byte(name))
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	scale = 0.5 + float32(rng.IntN(512))/1024
	codes = make([]int8, n*k)
	for i := range codes {
		codes[i] = int8(rng.IntN(3)) - 1
	}
	return codes, scale
}

// WriteI2S is Write of i2_s. Every input size of m has to be a multiple of 128.
func WriteI2S(path string, m model.Model, seed uint64) error {
	return Write(path, m, "i2_s", seed, nil)
}

// Write writes a GGUF file with the dimensions of m, whose ternary tensors are packed in layout from the weights that
// Weights makes of seed: as x86 builds of bitnet.cpp pack i2_s; as its converter packs tl1 and tl2, in the tiles that
// tiles returns for a shape and with each scale in a tensor of its own without dimensions; as ggml packs tq1_0 and tq2_0
// and ik_llama.cpp iq1_bn and iq2_bn.
func Write(path string, m model.Model, layout string, seed uint64, tiles func(n, k int) model.TileParameters) error {
	f := newFile(m, layout, 16, layout == "tl1" || layout == "tl2")
	return f.write(path, func(w *bufio.Writer, t tensor) error {
		data, n, k := make([]byte, t.bytes), int(t.n), int(t.k)
		if name, ok := strings.CutSuffix(t.name, "_scale"); ok {
			_, scale := Weights(seed, name, 0, 0)
			binary.LittleEndian.PutUint32(data, math.Float32bits(scale))
		} else if t.kind == typeIDs[layout] {
			codes, scale := Weights(seed, t.name, n, k)
			switch layout {
			case "tl1":
				copy(data, PackTL1(codes, n, k, tiles(n, k)))
			case "tl2":
				copy(data, PackTL2(codes, n, k, tiles(n, k)))
			default:
				copy(data, packs[layout](codes, scale, n, k))
			}
		}
		_, err := w.Write(data)
		return err
	})
}

// WriteSparse writes the header of a full-size file with the dimensions of m and as many tokens as it has, and leaves the
// data a hole. layout is the type of the ternary tensors: i2_s, tl1, tl2, tq1_0, tq2_0, iq1_bn or iq2_bn.
func WriteSparse(path string, m model.Model, layout string) error {
	return newFile(m, layout, m.Vocab, false).write(path, nil)
}

// typeIDs and fileTypes are what files call the layouts.
var (
	typeIDs   = map[string]uint32{"f32": 0, "f16": 1, "tq1_0": 34, "tq2_0": 35, "i2_s": 36, "tl1": 38, "tl2": 39, "iq1_bn": 134, "iq2_bn": 135}
	fileTypes = map[string]int{"tq1_0": 36, "tq2_0": 37, "tl1": 38, "tl2": 39, "i2_s": 40, "iq1_bn": 128, "iq2_bn": 129}
)

// tensor is a tensor of a file that is being laid out.
type tensor struct {
	name  string
	kind  uint32
	n, k  uint64 // n = 0: one dimension; k = 0: none
	bytes uint64
}

// file is a file that is being laid out.
type file struct {
	header  Writer
	tensors []tensor
	bytes   uint64 // of data
	apart   bool   // ternary tensors have their scale in a tensor of its own
}

// newFile lays out a file like those of bitnet.cpp's converters.
func newFile(m model.Model, layout string, tokens int, apart bool) *file {
	f := &file{apart: apart}
	w, arch := &f.header, m.Architecture+"."
	w.String("general.architecture", m.Architecture)
	w.String("general.name", m.Name)
	w.Uint32(arch+"block_count", m.Layers)
	w.Uint32(arch+"embedding_length", m.Hidden)
	w.Uint32(arch+"feed_forward_length", m.FFN)
	w.Uint32(arch+"attention.head_count", m.Heads)
	w.Uint32(arch+"attention.head_count_kv", m.KVHeads)
	w.Float32(arch+"attention.layer_norm_rms_epsilon", 1e-5)
	if m.HeadDim*m.Heads != m.Hidden {
		w.Uint32(arch+"attention.key_length", m.HeadDim)
	}
	if m.Family == model.Embedding {
		w.Uint32(arch+"pooling_type", 3)
	}
	w.Uint32("general.file_type", fileTypes[layout])
	w.Strings("tokenizer.ggml.tokens", tokens, func(i int) string { return "token" + strconv.Itoa(i) })
	w.Strings("tokenizer.ggml.merges", 2*tokens, func(i int) string { return "to " + strconv.Itoa(i) })
	f.body(m, layout)
	return f
}

// body adds the tensors.
func (f *file) body(m model.Model, layout string) {
	hidden, ffn := uint64(m.Hidden), uint64(m.FFN)
	q, kv := uint64(m.Heads*m.HeadDim), uint64(m.KVHeads*m.HeadDim)
	f.add("token_embd.weight", "f16", uint64(m.Vocab), hidden)
	if !m.Tied {
		f.add("output.weight", "f16", uint64(m.Vocab), hidden)
	}
	for i := range m.Layers {
		blk := fmt.Sprintf("blk.%d.", i)
		f.add(blk+"attn_norm.weight", "f32", 0, hidden)
		f.add(blk+"ffn_down.weight", layout, hidden, ffn)
		f.add(blk+"ffn_gate.weight", layout, ffn, hidden)
		f.add(blk+"ffn_up.weight", layout, ffn, hidden)
		f.add(blk+"ffn_norm.weight", "f32", 0, hidden)
		if strings.HasPrefix(m.Architecture, "bitnet") {
			f.add(blk+"attn_sub_norm.weight", "f32", 0, q)
			f.add(blk+"ffn_sub_norm.weight", "f32", 0, ffn)
		}
		f.add(blk+"attn_k.weight", layout, kv, hidden)
		f.add(blk+"attn_output.weight", layout, hidden, q)
		f.add(blk+"attn_q.weight", layout, q, hidden)
		f.add(blk+"attn_v.weight", layout, kv, hidden)
	}
	f.add("output_norm.weight", "f32", 0, hidden)
}

// add puts a tensor behind the others.
func (f *file) add(name, layout string, n, k uint64) {
	dims := []uint64{k, n}
	switch {
	case k == 0:
		dims = nil
	case n == 0:
		dims = dims[:1]
	}
	t := tensor{name: name, kind: typeIDs[layout], n: n, k: k, bytes: size(layout, max(n, 1), max(k, 1))}
	ternary := layout != "f16" && layout != "f32"
	if f.apart && ternary {
		t.bytes -= 32
	}
	f.header.Tensor(name, t.kind, f.bytes, dims...)
	f.tensors = append(f.tensors, t)
	f.bytes += (t.bytes + 31) / 32 * 32
	if f.apart && ternary {
		f.add(name+"_scale", "f32", 0, 0)
	}
}

// size is how many bytes n rows of k weights take.
func size(layout string, n, k uint64) uint64 {
	switch layout {
	case "f32":
		return n * k * 4
	case "f16":
		return n * k * 2
	case "i2_s", "tl1":
		return n*k/4 + 32
	case "tl2":
		return ((k-256)*n/3*5/8+256*n/2*4/8+31)/32*32 + 32
	case "tq1_0":
		return n * k / 256 * 54
	case "tq2_0":
		return n * k / 256 * 66
	case "iq1_bn":
		return n*k/64*13 + 2*n
	case "iq2_bn":
		return n*k/64*16 + 4*n
	}
	panic("modeltest: unknown layout")
}

// write creates the file. data writes each tensor's bytes; nil leaves a hole.
func (f *file) write(path string, data func(*bufio.Writer, tensor) error) error {
	header := f.header.Header()
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("modeltest: write model: %w", err)
	}
	defer out.Close()
	if _, err = out.Write(header); err == nil && data != nil {
		err = f.writeData(out, data)
	}
	if err == nil {
		err = out.Truncate(int64(len(header)) + int64(f.bytes))
	}
	if err != nil {
		return fmt.Errorf("modeltest: write model %s: %w", path, err)
	}
	return out.Close()
}

// writeData writes the tensors one after another, each padded to 32 bytes.
func (f *file) writeData(out *os.File, data func(*bufio.Writer, tensor) error) error {
	w := bufio.NewWriter(out)
	for _, t := range f.tensors {
		if err := data(w, t); err != nil {
			return err
		}
		if _, err := w.Write(make([]byte, (32-t.bytes%32)%32)); err != nil {
			return err
		}
	}
	return w.Flush()
}
