package model

import "strings"

// presets are the published models that can be named without having their file. Dimensions: bitnet.cpp's gpu/model.py,
// preset_kernels and conversion guides, and the model cards; the shapes agree with the sizes of the published files to
// within their headers.
var presets = []Model{
	{Name: "bitnet-b1.58-2b-4t", Architecture: "bitnet-b1.58", Layers: 30, Hidden: 2560, FFN: 6912, Heads: 20, KVHeads: 5, HeadDim: 128, Vocab: 128256, Tied: true},
	{Name: "bitnet-b1.58-large", Architecture: "bitnet", Layers: 24, Hidden: 1536, FFN: 4096, Heads: 16, KVHeads: 16, HeadDim: 96, Vocab: 32002, Tied: true},
	{Name: "bitnet-b1.58-3b", Architecture: "bitnet", Layers: 26, Hidden: 3200, FFN: 8640, Heads: 32, KVHeads: 32, HeadDim: 100, Vocab: 32002, Tied: true},
	{Name: "llama3-8b-1.58", Architecture: "llama", Layers: 32, Hidden: 4096, FFN: 14336, Heads: 32, KVHeads: 8, HeadDim: 128, Vocab: 128256},
	{Name: "falcon3-1b-1.58", Architecture: "llama", Layers: 18, Hidden: 2048, FFN: 8192, Heads: 8, KVHeads: 4, HeadDim: 256, Vocab: 131072},
	{Name: "falcon3-3b-1.58", Architecture: "llama", Layers: 22, Hidden: 3072, FFN: 9216, Heads: 12, KVHeads: 4, HeadDim: 256, Vocab: 131072},
	{Name: "falcon3-7b-1.58", Architecture: "llama", Layers: 28, Hidden: 3072, FFN: 23040, Heads: 12, KVHeads: 4, HeadDim: 256, Vocab: 131080},
	{Name: "falcon3-10b-1.58", Architecture: "llama", Layers: 40, Hidden: 3072, FFN: 23040, Heads: 12, KVHeads: 4, HeadDim: 256, Vocab: 131072},
	{Name: "falcon-e-1b", Architecture: "llama", Layers: 24, Hidden: 2048, FFN: 9216, Heads: 16, KVHeads: 2, HeadDim: 128, Vocab: 32768},
	{Name: "falcon-e-3b", Architecture: "llama", Layers: 32, Hidden: 2048, FFN: 13312, Heads: 16, KVHeads: 2, HeadDim: 128, Vocab: 32768},
	{Name: "bitnet-embedding-0.6b", Architecture: "qwen3", Family: Embedding, Layers: 28, Hidden: 1024, FFN: 3072, Heads: 16, KVHeads: 8, HeadDim: 128, Vocab: 151936, Tied: true},
	{Name: "bitnet-embedding-270m", Architecture: "gemma3", Family: Embedding, Layers: 18, Hidden: 640, FFN: 2048, Heads: 4, KVHeads: 1, HeadDim: 256, Vocab: 262144, Tied: true},
}

// Presets returns the models that can be named without a file, in a fixed order.
func Presets() []Model {
	list := make([]Model, len(presets))
	for i, p := range presets {
		list[i] = complete(p)
	}
	return list
}

// Preset returns the preset called name; case does not matter.
func Preset(name string) (Model, bool) {
	for _, p := range presets {
		if strings.EqualFold(p.Name, name) {
			return complete(p), true
		}
	}
	return Model{}, false
}

// complete fills in what follows from the dimensions.
func complete(m Model) Model {
	m.Source = "preset"
	if m.Family == "" {
		m.Family = TextGeneration
	}
	m.Shapes = shapes(m.transformer())
	m.EmbeddingBytes = uint64(m.Vocab) * uint64(m.Hidden) * 2
	if m.Family != Embedding {
		m.HeadBytes = m.EmbeddingBytes
	}
	return m
}

// transformer returns the matmuls of all layers of a transformer with a gated feed-forward network.
func (m Model) transformer() []Matmul {
	q, kv := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	var all []Matmul
	for range m.Layers {
		all = append(all,
			Matmul{"q", q, m.Hidden}, Matmul{"k", kv, m.Hidden}, Matmul{"v", kv, m.Hidden}, Matmul{"o", m.Hidden, q},
			Matmul{"gate", m.FFN, m.Hidden}, Matmul{"up", m.FFN, m.Hidden}, Matmul{"down", m.Hidden, m.FFN})
	}
	return all
}
