package device

import (
	"fmt"
	"math"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

// DefaultModel is the preset whose needs stand for a model of which nothing is known.
const DefaultModel = "bitnet-b1.58-2b-4t"

// DefaultLayout is the layout in which a model's weights are counted where the caller names none.
const DefaultLayout = "i2s"

// Use is how a model is going to be used. The zero value works.
type Use struct {
	Context int    // tokens of a sequence; if 0, Constants.Context or EmbeddingContext
	Batch   int    // sequences at once that there must be room for; if 0, 1
	Layout  string // of the ternary weights; if "", DefaultLayout
	// WeightBytes is what all ternary matmuls take in Layout, by whoever packs them; if 0, what the file format takes.
	WeightBytes uint64
	// TokensPerSecond is what one thread decodes; if 0, it is unknown, and so is the need for bandwidth.
	TokensPerSecond float64
	RateMeasured    bool // TokensPerSecond was timed on this host
}

// Requirements is what a model needs of a device.
type Requirements struct {
	Model   string `json:"model"`
	Layout  string `json:"layout"`
	Context int    `json:"context"`
	Batch   int    `json:"batch"`
	// LayoutBytes is what all ternary matmuls take in the layouts whose formula is known.
	LayoutBytes map[string]uint64 `json:"layout_bytes"`

	Weights     Figure `json:"weight_bytes"`     // of the ternary matmuls, in Layout
	Embedding   Figure `json:"embedding_bytes"`  // of the token embedding
	Head        Figure `json:"head_bytes"`       // of the output head; 0 where it is the embedding
	ModelBytes  Figure `json:"model_bytes"`      // all three; held once, whatever the batch
	KVCache     Figure `json:"kv_cache_bytes"`   // of a sequence
	Activations Figure `json:"activation_bytes"` // of a sequence
	Working     Figure `json:"working_bytes"`    // both; held for each sequence of a batch

	Operations    Figure `json:"operations_per_token"`
	BytesPerToken Figure `json:"bytes_per_token"` // what decoding one token reads
	// Bandwidth is what one thread draws while it decodes; 0 = unknown.
	Bandwidth Figure `json:"bandwidth_bytes_per_second"`
	Batches   []int  `json:"preferred_batches,omitempty"`
	// Largest is the ternary matmul with the most weights.
	Largest model.Shape `json:"largest_matmul"`
	// Defaulted names what was taken from a default because the model does not tell.
	Defaulted []string `json:"defaulted,omitempty"`
}

// Required is what has to be in memory to serve batch sequences at once.
func (r Requirements) Required(batch int) uint64 {
	return saturate(r.ModelBytes.Value, times(r.Working.Value, uint64(max(batch, 1))))
}

// Require returns what a model needs. A model without ternary matmuls is one of which nothing is known: the needs are
// those of DefaultModel then, and Defaulted says so.
func (c Constants) Require(m model.Model, use Use) Requirements {
	var r Requirements
	if len(m.Shapes) == 0 {
		m, _ = model.Preset(DefaultModel)
		use.WeightBytes, use.TokensPerSecond = 0, 0 // of another model
		r.Defaulted = append(r.Defaulted, "model")
	}
	r.Model, r.Layout, r.Context, r.Batch = m.Name, use.Layout, use.Context, max(use.Batch, 1)
	if r.Layout == "" {
		r.Layout = DefaultLayout
	}
	if r.Context <= 0 {
		r.Context = c.Context
		if m.Family == model.Embedding {
			r.Context = c.EmbeddingContext
		}
	}
	if m.Family == model.Embedding {
		r.Batches = slices.Clone(c.EmbeddingBatches)
	}
	for _, s := range m.Shapes {
		if s.Weights() > r.Largest.Weights() {
			r.Largest = s
		}
	}
	r.static(m, use)
	c.working(&r, m)
	r.traffic(m, use)
	return r
}

// static fills in what is held once.
func (r *Requirements) static(m model.Model, use Use) {
	basis := Estimate
	if m.Source != "preset" && m.Source != "" {
		basis = Probe
	}
	r.LayoutBytes = m.Bytes()
	r.Weights = Figure{Value: use.WeightBytes, Basis: Estimate, Reason: "as the kernels of " + r.Layout + " keep them"}
	if bytes, known := r.LayoutBytes[r.Layout]; r.Weights.Value == 0 && known {
		r.Weights = Figure{Value: bytes, Basis: Estimate, Reason: "by the formula of " + r.Layout}
		if sameLayout(m.FileType, r.Layout) {
			r.Weights.Basis, r.Weights.Reason = basis, "as in the file"
		}
	}
	if r.Weights.Value == 0 {
		r.Weights = Figure{Value: (m.TernaryWeights() + 3) / 4, Basis: Estimate, Reason: "2 bits a weight, as no formula of " + r.Layout + " holds this model"}
		r.Defaulted = append(r.Defaulted, "layout")
	}
	r.Embedding = Figure{Value: m.EmbeddingBytes, Basis: basis}
	r.Head = Figure{Value: m.HeadBytes, Basis: basis}
	if m.Tied {
		r.Head = Figure{Basis: basis, Reason: "tied: it is the embedding"}
	}
	r.ModelBytes = sum("ternary weights, embedding and head", r.Weights, r.Embedding, r.Head)
}

// sameLayout reports whether a file of that type holds its weights in layout: i2_s is i2s.
func sameLayout(fileType, layout string) bool {
	return fileType == layout || fileType == "i2_s" && layout == "i2s"
}

// working fills in what is held for each sequence.
//
// The cache is: layers x (keys + values) x width x context x bytes. An embedding model passes over each layer once and
// keeps that of one layer only.
//
// The activations are, in float32 for each token in flight: the residual and its normed copy, queries, keys, values,
// gate and up, and the scores of all heads over the context; int8 for the inputs of the widest matmul; and the logits
// of one token.
func (c Constants) working(r *Requirements, m model.Model) {
	width, heads := uint64(m.KVHeads)*uint64(m.HeadDim), uint64(m.Heads)
	if width == 0 || heads == 0 {
		width, heads = uint64(m.Hidden), max(heads, uint64(m.Hidden)/64)
		r.Defaulted = append(r.Defaulted, "heads")
	}
	layers, kept := uint64(m.Layers), "%d layers"
	if m.Family == model.Embedding {
		layers, kept = 1, "%d layer at a time"
	}
	context := uint64(r.Context)
	r.KVCache = Figure{Value: times(times(2*layers*width, c.CacheValueBytes), context), Basis: Estimate,
		Reason: fmt.Sprintf("keys and values of "+kept+", %d wide, for %d tokens at %d bytes", layers, width, r.Context, c.CacheValueBytes)}
	flight := min(context, uint64(c.FlightTokens))
	hidden, ffn, query := uint64(m.Hidden), uint64(m.FFN), heads*uint64(m.HeadDim)
	token := 4*(2*hidden+query+2*width+2*ffn+times(heads, context)) + max(hidden, query, ffn)
	r.Activations = Figure{Value: saturate(times(flight, token), 4*uint64(m.Vocab)), Basis: Estimate,
		Reason: fmt.Sprintf("%d tokens in flight and the logits of one", flight)}
	r.Working = sum("cache and activations of one sequence", r.KVCache, r.Activations)
}

// traffic fills in what a token costs.
func (r *Requirements) traffic(m model.Model, use Use) {
	head := uint64(0)
	if m.HeadBytes > 0 {
		head = uint64(m.Vocab) * uint64(m.Hidden)
	}
	attention := times(4*uint64(m.Layers)*uint64(m.Heads)*uint64(m.HeadDim), uint64(r.Context))
	r.Operations = Figure{Value: saturate(2*(m.TernaryWeights()+head), attention), Basis: Estimate,
		Reason: "2 for each weight of matmuls and head, and attention over the whole context"}
	r.BytesPerToken = sum("ternary weights, head and cache", r.Weights, Figure{Value: m.HeadBytes, Basis: r.Embedding.Basis}, r.KVCache)
	r.Bandwidth = Figure{Basis: Estimate, Reason: "unknown: it depends on the rate, which nobody has measured"}
	if rate := use.TokensPerSecond; rate > 0 && rate <= math.MaxInt32 {
		r.Bandwidth = Figure{Value: uint64(rate * float64(r.BytesPerToken.Value)), Basis: Estimate, Reason: fmt.Sprintf("%.3g tokens/s with one thread, each reading %d bytes", rate, r.BytesPerToken.Value)}
		if use.RateMeasured {
			r.Bandwidth.Basis = Measured
		}
	}
}

// times multiplies without wrapping around.
func times(a, b uint64) uint64 {
	if a > 0 && b > math.MaxUint64/a {
		return math.MaxUint64
	}
	return a * b
}
