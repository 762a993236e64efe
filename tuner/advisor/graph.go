package advisor

import (
	"slices"
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

// Graph is the model as the list of its operations that have weights, in the order of its file. What has none
// (attention scores, activations) is in no GGUF file and so in no graph here.
type Graph struct {
	Operations []Operation
}

// Operation is one of a graph.
type Operation struct {
	Name    string // of its tensor
	Kind    string // "matmul", "embedding" or "vector" (norms, biases, scales)
	Weights uint64
	Type    string // of its weights: "i2_s", "f16" …
	Ternary bool
}

// NewGraph makes a graph of the tensors of a GGUF file.
func NewGraph(tensors []model.Tensor) *Graph {
	g := &Graph{}
	for _, t := range tensors {
		o := Operation{Name: t.Name, Kind: "vector", Weights: t.K() * t.N(), Type: t.Type, Ternary: t.Ternary}
		switch {
		case strings.HasPrefix(t.Name, "token_embd."):
			o.Kind = "embedding"
		case t.N() > 1:
			o.Kind = "matmul"
		}
		g.Operations = append(g.Operations, o)
	}
	return g
}

// weights is the number of all weights.
func (g *Graph) weights() (sum uint64) {
	for _, o := range g.Operations {
		sum += o.Weights
	}
	return sum
}

// unquantised is the number of weights in floating point.
func (g *Graph) unquantised() (sum uint64) {
	for _, o := range g.Operations {
		if slices.Contains([]string{"f64", "f32", "f16", "bf16"}, o.Type) {
			sum += o.Weights
		}
	}
	return sum
}

// ternary reports whether any operation has ternary weights.
func (g *Graph) ternary() bool {
	return slices.ContainsFunc(g.Operations, func(o Operation) bool { return o.Ternary })
}
