// A model file for the experiment in README.md: the tensors of a preset in the shapes and types of a real one, with random
// ternary weights. No speed depends on their values; no answer of it makes sense.
//
//	go run ./experiments/2026-11-llama-bench -preset bitnet-b1.58-large model.gguf
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model/modeltest"
)

func main() {
	preset := flag.String("preset", "bitnet-b1.58-large", "the model whose shapes to write")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "llama-bench: want one argument, the file to write")
		os.Exit(2)
	}
	if err := write(flag.Arg(0), *preset); err != nil {
		fmt.Fprintln(os.Stderr, "llama-bench:", err)
		os.Exit(1)
	}
}

func write(path, preset string) error {
	m, err := model.Load(preset)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	w := bufio.NewWriterSize(file, 1<<20)
	if err := writeModel(w, m); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return file.Close()
}

// tensor is a row of a tensor, and how many there are of it.
type tensor struct {
	row   []byte
	times int
}

// Types of ggml.
const (
	f32  = 0
	f16  = 1
	tq2  = 35
	line = 32 // bytes that tensors are aligned to
)

// writeModel writes m as architecture bitnet of llama.cpp: TQ2_0, with embeddings in half precision and without a
// tokenizer, which llama-bench does not need.
func writeModel(w io.Writer, m model.Model) error {
	h := modeltest.Writer{}
	h.String("general.architecture", "bitnet")
	h.String("general.name", m.Name+", random weights")
	h.Uint32("general.file_type", 37)
	h.String("tokenizer.ggml.model", "no_vocab")
	for key, value := range map[string]int{
		"vocab_size": m.Vocab, "context_length": 4096, "block_count": m.Layers, "embedding_length": m.Hidden, "feed_forward_length": m.FFN,
		"attention.head_count": m.Heads, "attention.head_count_kv": m.KVHeads, "rope.dimension_count": m.HeadDim,
	} {
		h.Uint32("bitnet."+key, value)
	}
	h.Float32("bitnet.attention.layer_norm_rms_epsilon", 1e-5)

	var tensors []tensor
	offset := 0
	add := func(name string, kind uint32, row []byte, k, n int) {
		dims := []uint64{uint64(k), uint64(n)}
		if kind == f32 {
			dims = dims[:1]
		}
		h.Tensor(name, kind, uint64(offset), dims...)
		offset += (len(row)*n + line - 1) / line * line
		tensors = append(tensors, tensor{row, n})
	}
	norm := func(name string, k int) {
		add(name, f32, []byte(strings.Repeat("\x00\x00\x80\x3f", k)), k, 1) // ones
	}
	ternary := func(name string, n, k int) {
		codes, _ := modeltest.Weights(1, name, 1, k)
		add(name, tq2, modeltest.PackTQ2(codes, 1.0/32), k, n)
	}
	embedding := strings.Repeat("\x00\x3c\x00\xbc", m.Hidden/2) // 1 and -1 by turns, in half precision
	add("token_embd.weight", f16, []byte(embedding), m.Hidden, m.Vocab)
	for i := range m.Layers {
		block := fmt.Sprintf("blk.%d.", i)
		norm(block+"attn_norm.weight", m.Hidden)
		norm(block+"attn_sub_norm.weight", m.Hidden)
		norm(block+"ffn_norm.weight", m.Hidden)
		norm(block+"ffn_sub_norm.weight", m.FFN)
		ternary(block+"attn_q.weight", m.Heads*m.HeadDim, m.Hidden)
		ternary(block+"attn_k.weight", m.KVHeads*m.HeadDim, m.Hidden)
		ternary(block+"attn_v.weight", m.KVHeads*m.HeadDim, m.Hidden)
		ternary(block+"attn_output.weight", m.Hidden, m.Heads*m.HeadDim)
		ternary(block+"ffn_gate.weight", m.FFN, m.Hidden)
		ternary(block+"ffn_up.weight", m.FFN, m.Hidden)
		ternary(block+"ffn_down.weight", m.Hidden, m.FFN)
	}
	norm("output_norm.weight", m.Hidden)

	if _, err := w.Write(h.Header()); err != nil {
		return err
	}
	for _, t := range tensors {
		for range t.times {
			if _, err := w.Write(t.row); err != nil {
				return err
			}
		}
		if _, err := w.Write(make([]byte, (line-len(t.row)*t.times%line)%line)); err != nil {
			return err
		}
	}
	return nil
}
