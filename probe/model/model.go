package model

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNoTernary is why a model without ternary matmuls cannot be tuned.
var ErrNoTernary = errors.New("no ternary matmuls")

// Model is what is known of a model. Unknown numbers are 0.
type Model struct {
	Name         string `json:"name"`
	Architecture string `json:"architecture"` // general.architecture: "bitnet-b1.58", "llama" …
	Family       string `json:"family"`       // TextGeneration, Embedding …
	Layers       int    `json:"layers"`
	Hidden       int    `json:"hidden"`
	FFN          int    `json:"ffn"`
	Heads        int    `json:"heads"`
	KVHeads      int    `json:"kv_heads"`
	HeadDim      int    `json:"head_dim"`
	Vocab        int    `json:"vocab"`
	// Shapes are the distinct ternary matmuls, in the order in which a layer first uses them.
	Shapes   []Shape `json:"shapes"`
	FileType string  `json:"file_type"` // of the ternary tensors: "i2_s", "tl1" …; "" for a preset or where there are none
	Source   string  `json:"source"`    // "preset", or the path of the file
	Tied     bool    `json:"tied"`      // the output head is the token embedding
	// HeadBytes is what one decode step reads of the output head, in f16 unless the file has another type. It can be
	// more than all ternary weights. It is 0 for an embedding model, which has no head.
	HeadBytes      uint64   `json:"head_bytes"`
	EmbeddingBytes uint64   `json:"embedding_bytes"` // of the token embedding, likewise
	Warnings       []string `json:"warnings"`
}

// Shape is a ternary matmul of N outputs and K inputs that occurs Count times in the model.
type Shape struct {
	N     int    `json:"n"`
	K     int    `json:"k"`
	Count int    `json:"count"`
	Roles string `json:"roles"` // "q,o": what it does in a layer
}

// Matmul is one ternary matmul of a layer: N outputs, K inputs.
type Matmul struct {
	Role string // one of q, k, v, o, gate, up, down; qkv where a file fuses the first three
	N, K int
}

// roles are what a matmul can do in a layer, in order of use.
var roles = []string{"qkv", "q", "k", "v", "o", "gate", "up", "down"}

// Weights is the number of weights of one matmul of this shape.
func (s Shape) Weights() uint64 { return uint64(s.N) * uint64(s.K) }

// TernaryWeights is the number of weights in all ternary matmuls.
func (m Model) TernaryWeights() uint64 {
	var sum uint64
	for _, s := range m.Shapes {
		sum += uint64(s.Count) * s.Weights()
	}
	return sum
}

// Layer returns the ternary matmuls of one layer in order of use. Running it Layers times touches every ternary weight
// of the model in order; where a file's layers differ, which Warnings tells, it is the layer made of the most frequent
// shapes.
func (m Model) Layer() []Matmul {
	var layer []Matmul
	for _, role := range roles {
		most := Shape{}
		for _, s := range m.Shapes {
			if s.Count > most.Count && s.has(role) {
				most = s
			}
		}
		if most.Count > 0 {
			layer = append(layer, Matmul{Role: role, N: most.N, K: most.K})
		}
	}
	return layer
}

// Fingerprint identifies what decides the speed of the ternary matmuls: the number of layers, the matmuls of a layer in
// order, and the shapes with their counts. Models of equal fingerprint share what was learned; a preset and a file of the
// same model have the same. It has 32 hex digits.
func (m Model) Fingerprint() string {
	h := sha256.New()
	fmt.Fprintf(h, "layers %d\n", m.Layers)
	for _, mm := range m.Layer() {
		fmt.Fprintf(h, "%s %d %d\n", mm.Role, mm.N, mm.K)
	}
	for _, s := range m.Shapes {
		fmt.Fprintf(h, "%d x %d %d\n", s.Count, s.N, s.K)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Tunable returns nil if the model has ternary matmuls, and otherwise an error that wraps ErrNoTernary.
func (m Model) Tunable() error {
	if len(m.Shapes) > 0 {
		return nil
	}
	return fmt.Errorf("model: %s: %w: want a model whose layers have i2_s, tl1, tl2, tq1_0, tq2_0, iq1_bn or iq2_bn tensors", printable(m.Source), ErrNoTernary)
}

// MarshalJSON adds to the fields what is computed from them.
func (m Model) MarshalJSON() ([]byte, error) {
	type fields Model
	m.Shapes = append([]Shape{}, m.Shapes...)
	m.Warnings = append([]string{}, m.Warnings...)
	return json.Marshal(struct {
		fields
		TernaryWeights uint64            `json:"ternary_weights"`
		Bytes          map[string]uint64 `json:"bytes"`
		Fingerprint    string            `json:"fingerprint"`
	}{fields(m), m.TernaryWeights(), m.Bytes(), m.Fingerprint()})
}

// shapes counts the matmuls of all layers and merges those of one size, in order of use.
func shapes(matmuls []Matmul) []Shape {
	var list []Shape
	index := make(map[[2]int]int)
	for _, role := range roles {
		for _, mm := range matmuls {
			if mm.Role != role {
				continue
			}
			i, known := index[[2]int{mm.N, mm.K}]
			if !known {
				i = len(list)
				index[[2]int{mm.N, mm.K}] = i
				list = append(list, Shape{N: mm.N, K: mm.K, Roles: role})
			}
			list[i].Count++
			if !list[i].has(role) {
				list[i].Roles += "," + role
			}
		}
	}
	return list
}

// has reports whether role is among the roles of s.
func (s Shape) has(role string) bool { return slices.Contains(strings.Split(s.Roles, ","), role) }
