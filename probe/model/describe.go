package model

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
)

// Model describes the model of the file. Dimensions come from its keys, or from its tensors where a key is missing; what
// contradicts itself or had to be assumed is in Warnings. A file without ternary matmuls is described as far as it goes:
// see Model.Tunable.
func (f *File) Model() (Model, error) {
	m, err := f.model()
	if err != nil {
		return Model{}, fmt.Errorf("model: describe %s: %w", printable(m.Source), err)
	}
	return m, nil
}

func (f *File) model() (Model, error) {
	m := Model{Source: f.path}
	if m.Source == "" {
		m.Source = "GGUF"
	}
	arch, err := f.architecture()
	if err != nil {
		return m, err
	}
	if shards, _ := f.Keys["split.count"].(uint64); shards > 1 {
		return m, fmt.Errorf("key \"split.count\": the file is one of %d parts: want a whole model (llama-gguf-split --merge)", shards)
	}
	m.Name, m.Architecture, m.Family = f.name(), arch, f.familyOf(arch)
	if err := f.dimensions(&m); err != nil {
		return m, err
	}
	if err := f.matmuls(&m); err != nil {
		return m, err
	}
	f.embedding(&m)
	m.derive()
	m.checkInputs()
	m.checkCounts()
	f.checkType(&m)
	return m, nil
}

// architecture is the key under whose name the dimensions are.
func (f *File) architecture() (string, error) {
	switch arch := f.Keys["general.architecture"].(type) {
	case string:
		if arch == "" || len(arch) > maxNameBytes || printable(arch) != arch {
			return "", fmt.Errorf("key \"general.architecture\": %q: want a name such as bitnet-b1.58", shorten(arch))
		}
		return arch, nil
	case nil:
		return "", errors.New("key \"general.architecture\": is missing: want a name such as bitnet-b1.58")
	default:
		return "", fmt.Errorf("key \"general.architecture\": is %s: want a string", quote(arch))
	}
}

// name is general.name, or else the name of the file, or "" where there is neither.
func (f *File) name() string {
	if name, _ := f.Keys["general.name"].(string); name != "" {
		return printable(name)
	}
	if f.path == "" {
		return ""
	}
	return printable(strings.TrimSuffix(filepath.Base(f.path), ".gguf"))
}

// dimensions fills in what the keys of the architecture tell.
func (f *File) dimensions(m *Model) error {
	for _, d := range []struct {
		key   string
		field *int
	}{
		{"block_count", &m.Layers}, {"embedding_length", &m.Hidden}, {"feed_forward_length", &m.FFN},
		{"attention.head_count", &m.Heads}, {"attention.head_count_kv", &m.KVHeads},
		{"attention.key_length", &m.HeadDim}, {"vocab_size", &m.Vocab},
	} {
		if err := f.integer(m, m.Architecture+"."+d.key, d.field); err != nil {
			return err
		}
	}
	if m.KVHeads == 0 {
		m.KVHeads = m.Heads
	}
	if tokens, ok := f.Keys["tokenizer.ggml.tokens"].(Skipped); ok && m.Vocab == 0 {
		m.Vocab = int(tokens.Count)
	}
	return nil
}

// integer reads a dimension. A missing key leaves the field as it is; so does an array, with a warning.
func (f *File) integer(m *Model, key string, field *int) error {
	value, given := f.Keys[key]
	if !given {
		return nil
	}
	v, ok := value.(uint64)
	if signed, is := value.(int64); is {
		v, ok = uint64(signed), signed >= 0
	}
	if array, is := value.(Skipped); is && array.Type != "string" {
		m.warn("key %q differs between layers: not used", key)
		return nil
	}
	if !ok || v > math.MaxInt32 {
		return fmt.Errorf("key %q: is %s: want an integer from 0 to %d", key, quote(value), math.MaxInt32)
	}
	*field = int(v)
	return nil
}

// roleOf tells what the tensors of a layer do: blk.LAYER.NAME.weight.
var roleOf = map[string]string{
	"attn_qkv": "qkv", "attn_q": "q", "attn_k": "k", "attn_v": "v", "attn_output": "o",
	"ffn_gate": "gate", "ffn_up": "up", "ffn_down": "down",
}

// role splits the name of a tensor into its layer and what it does there; ok is false outside of layers.
func (t Tensor) role() (layer int, role string, ok bool) {
	rest, in := strings.CutPrefix(t.Name, "blk.")
	number, rest, dotted := strings.Cut(rest, ".")
	name, weight := strings.CutSuffix(rest, ".weight")
	layer, err := strconv.Atoi(number)
	role, known := roleOf[name]
	return layer, role, in && dotted && weight && known && err == nil && layer >= 0
}

// matmuls fills in the shapes and the type of the ternary tensors.
func (f *File) matmuls(m *Model) error {
	var all []Matmul
	weights := make(map[string]uint64) // by type
	layers := make(map[int]bool)
	outside := 0
	for _, t := range f.Tensors {
		layer, role, ok := t.role()
		if !t.Ternary {
			continue
		}
		if !ok {
			outside++
			continue
		}
		if len(t.Dims) != 2 || t.N() > math.MaxInt32 || t.K() > math.MaxInt32 {
			return fmt.Errorf("tensor %q: dimensions %v: want a matrix", t.Name, t.Dims)
		}
		all = append(all, Matmul{Role: role, N: int(t.N()), K: int(t.K())})
		weights[t.Type] += t.N() * t.K()
		layers[layer] = true
	}
	if outside > 0 {
		m.warn("%d ternary tensors are not matmuls of a layer: not counted", outside)
	}
	if claimed := m.Layers; len(layers) > 0 {
		if m.Layers = len(layers); claimed > 0 && claimed != m.Layers {
			m.warn("the keys say %d layers, but %d have ternary matmuls: the latter are counted", claimed, m.Layers)
		}
	}
	m.Shapes = shapes(all)
	m.FileType = m.mostly(weights)
	return nil
}

// mostly is the ternary type with the most weights.
func (m *Model) mostly(weights map[string]uint64) string {
	most := ""
	for name, n := range weights {
		if n > weights[most] || n == weights[most] && name < most {
			most = name
		}
	}
	if len(weights) > 1 {
		m.warn("the ternary tensors have %d types, most of them %s", len(weights), most)
	}
	return most
}

// embedding fills in the token embedding and the output head, and the vocabulary, which is their number of rows.
func (f *File) embedding(m *Model) {
	m.Tied = true
	for _, t := range f.Tensors {
		switch t.Name {
		case "token_embd.weight":
			m.EmbeddingBytes = t.Bytes
			m.Vocab = int(min(t.N(), math.MaxInt32))
		case "output.weight":
			m.HeadBytes, m.Tied = t.Bytes, false
		}
	}
	if m.EmbeddingBytes == 0 {
		m.Tied = false
	}
	if m.Tied && m.Family != Embedding {
		m.HeadBytes = m.EmbeddingBytes
	}
}

// derive fills in the dimensions that the keys left out.
func (m *Model) derive() {
	for _, mm := range m.Layer() {
		switch mm.Role {
		case "q":
			setUnknown(&m.Hidden, mm.K)
			m.deriveHeadDim(mm.N)
		case "up":
			setUnknown(&m.FFN, mm.N)
		}
	}
	m.deriveHeadDim(m.Hidden)
}

// deriveHeadDim divides the outputs of q among the heads.
func (m *Model) deriveHeadDim(outputs int) {
	if m.Heads > 0 {
		setUnknown(&m.HeadDim, outputs/m.Heads)
	}
}

// setUnknown sets a dimension that is not known yet.
func setUnknown(dimension *int, v int) {
	if *dimension == 0 {
		*dimension = v
	}
}

// checkInputs notes where keys and tensors contradict each other.
func (m *Model) checkInputs() {
	for _, mm := range m.Layer() {
		inputs := m.Hidden
		switch mm.Role {
		case "o":
			inputs = m.Heads * m.HeadDim
		case "down":
			inputs = m.FFN
		}
		if inputs > 0 && inputs != mm.K {
			m.warn("the keys say %d inputs for %s, the tensors have %d", inputs, mm.Role, mm.K)
		}
	}
}

// checkCounts notes where layers differ: where a matmul of a layer does not occur once in each.
func (m *Model) checkCounts() {
	total := 0
	for _, s := range m.Shapes {
		total += s.Count
	}
	if perLayer := len(m.Layer()); total != perLayer*m.Layers {
		m.warn("the layers differ: %d ternary matmuls in %d layers, %d in the usual one", total, m.Layers, perLayer)
	}
}

// fileTypes are the values of general.file_type that bitnet.cpp writes.
var fileTypes = map[string]uint64{"tl1": 38, "tl2": 39, "i2_s": 40}

// checkType notes what had to be assumed of the ternary type.
func (f *File) checkType(m *Model) {
	kind, given := f.Keys["general.file_type"].(uint64)
	if usual := fileTypes[m.FileType]; given && usual > 0 && kind != usual {
		m.warn("general.file_type is %d, but the type ids and sizes of the tensors are those of %s (%d)", kind, m.FileType, usual)
	}
	switch m.FileType {
	case "":
		m.warn("no ternary matmuls: nothing to tune")
	case "i2_s":
		m.warn("i2_s has three byte orders and the file does not tell which: assumed is that of x86 (blocks of 128); weights packed on ARM (blocks of 64), or on x86 without ACT_PARALLEL (4 rows), decode to garbage")
	case "tl1", "tl2":
		m.warn("%s", f.tileWarning(m.FileType))
	}
}

// tileWarning tells what is assumed of the tiles of the tensors of kind, or that nothing can be.
func (f *File) tileWarning(kind string) string {
	for _, t := range f.Tensors {
		if t.Type != kind {
			continue
		}
		if _, err := f.publishedTiles(t); err != nil {
			return fmt.Sprintf("%s is packed in the tiles of the build that wrote it, which the file does not tell: its shapes are known, but its weights cannot be loaded without them", kind)
		}
	}
	return fmt.Sprintf("%s is packed in the tiles of the build that wrote it, which the file does not tell: assumed are those of setup_env.py of bitnet.cpp; weights packed in others are loaded in the wrong order", kind)
}

func (m *Model) warn(format string, args ...any) {
	m.Warnings = append(m.Warnings, fmt.Sprintf(format, args...))
}
