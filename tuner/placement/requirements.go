package placement

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
)

// Resources is what a model asks of a host. 0 is unknown.
type Resources struct {
	MinimumBytes     uint64       `json:"minimum_memory_bytes"`     // weights, and one sequence of the template's context
	RecommendedBytes uint64       `json:"recommended_memory_bytes"` // the same for the template's batch, with headroom
	Cores            int          `json:"cpu_cores"`                // on the CPU; a GPU keeps fewer busy
	DiskBytes        uint64       `json:"disk_bytes"`
	Batch            int          `json:"batch_size"`
	Context          int          `json:"context"`
	Layout           string       `json:"layout,omitempty"`
	Basis            device.Basis `json:"basis"`
	Reason           string       `json:"reason"`
}

// Resources tells what a model asks of a host, of its dimensions where they are known, of its file's size where those
// are not, else of the size that its name states, else nothing.
func (rules Rules) Resources(s Subject, family string, use device.Use) Resources {
	t := TemplateOf(family)
	if use.Batch == 0 {
		use.Batch = t.Batch
	}
	if use.Context == 0 {
		use.Context = t.Context
	}
	r := Resources{Cores: rules.CPUCores, Batch: use.Batch, Context: use.Context, Basis: device.Estimate}
	if s.Model.Tunable() == nil {
		need := rules.Device.Require(s.Model, use)
		r.MinimumBytes, r.DiskBytes = need.Required(1), need.ModelBytes.Value
		r.RecommendedBytes = max(need.Required(use.Batch), rules.headroom(r.MinimumBytes))
		r.Layout, r.Context = need.Layout, need.Context
		r.Reason = fmt.Sprintf("%s, and %s for each sequence", need.ModelBytes.Reason, need.Working.Reason)
		return r
	}
	switch {
	case s.FileBytes > 0:
		r.DiskBytes, r.Reason = s.FileBytes, "all tensors of the file; working memory is not counted, since the model has no ternary matmuls"
	case nameBytes(s.Name) > 0:
		r.DiskBytes = nameBytes(s.Name)
		r.Reason = fmt.Sprintf("%.3g parameters by the name, at 2 bytes each", parameters(s.Name))
		if ternary(s.Name) {
			r.Reason = fmt.Sprintf("%.3g parameters by the name, at 2 bits each", parameters(s.Name))
		}
	default:
		r.Reason = "the size is unknown: name a preset or a GGUF file"
		return r
	}
	r.MinimumBytes, r.RecommendedBytes = r.DiskBytes, rules.headroom(r.DiskBytes)
	return r
}

func (rules Rules) headroom(bytes uint64) uint64 {
	return uint64(rules.RecommendedFactor * float64(bytes))
}

// Need is what a model takes on a device, for one use of it.
type Need struct {
	Layout  string
	Context int
	Batch   int
	// Bytes is weights, embedding, head and the working memory of the batch; GPUBytes what a GPU needs besides.
	Bytes    uint64
	GPUBytes uint64
	// ReadBytes is what one token reads, TernaryBytes the ternary weights of that.
	ReadBytes    uint64
	TernaryBytes uint64
	// TokensPerSecond is how fast the CPU runs the ternary matmuls in this layout, measured on this host; 0 = unknown.
	TokensPerSecond float64
	DiskBytes       uint64
	Basis           device.Basis
	Reason          string
}

// NeedOf returns what a model takes. One without ternary matmuls takes what its file has, as far as is known, in whichever
// layout; ok is false if nothing is known.
func (rules Rules) NeedOf(s Subject, use device.Use) (n Need, ok bool) {
	if s.Model.Tunable() != nil {
		n = Need{Bytes: s.FileBytes, ReadBytes: s.FileBytes, DiskBytes: s.FileBytes, Batch: max(use.Batch, 1), Context: use.Context, Basis: device.Probe,
			Reason: "all tensors of its file"}
		return n, n.Bytes > 0
	}
	r := rules.Device.Require(s.Model, use)
	n = Need{Layout: r.Layout, Context: r.Context, Batch: r.Batch, Bytes: r.Required(r.Batch), ReadBytes: r.BytesPerToken.Value, TernaryBytes: r.Weights.Value, DiskBytes: r.ModelBytes.Value, Basis: device.Estimate}
	if use.RateMeasured {
		n.TokensPerSecond = use.TokensPerSecond
	}
	n.Reason = fmt.Sprintf("weights as %s, and cache and activations of %d tokens, %d times", r.Layout, r.Context, r.Batch)
	// The GPU kernels do not dequantise: they state that they need their results alone (R1.13).
	n.GPUBytes = max(rules.Memory.MinWorkspaceBytes, results(r.Batch, uint64(r.Largest.N)*rules.Memory.ResultBytes))
	return n, true
}

// results is what those of a batch take; forbidden where that is past 64 bits.
func results(batch int, bytes uint64) uint64 {
	high, low := bits.Mul64(uint64(batch), bytes)
	if high > 0 {
		return forbidden
	}
	return low
}

// Alternative is a change of use with what the model would take then.
type Alternative struct {
	Knob   string // what is changed: "layout", "context" or "batch"; "" = all of them
	Change string
	Need   Need
}

// leastContext is the shortest context that is offered as a remedy.
const leastContext = 256

// Alternatives are the uses in which the model takes less: other layouts of those in layoutBytes (by name, what all ternary
// matmuls take), shorter contexts, smaller batches, and last all of it together.
func (rules Rules) Alternatives(s Subject, use device.Use, layoutBytes map[string]uint64) []Alternative {
	now, ok := rules.NeedOf(s, use)
	if !ok || s.Model.Tunable() != nil {
		return nil
	}
	var list []Alternative
	try := func(use device.Use, knob, change string) {
		if n, _ := rules.NeedOf(s, use); n.Bytes < now.Bytes {
			list = append(list, Alternative{Knob: knob, Change: change, Need: n})
		}
	}
	least := use
	for _, layout := range slices.Sorted(maps.Keys(layoutBytes)) {
		other := use
		other.Layout, other.WeightBytes, other.RateMeasured = layout, layoutBytes[layout], false
		try(other, "layout", "layout "+layout)
		if least.WeightBytes == 0 || layoutBytes[layout] < least.WeightBytes {
			least.Layout, least.WeightBytes = layout, layoutBytes[layout]
		}
	}
	slices.SortStableFunc(list, func(a, b Alternative) int { return cmp.Compare(b.Need.Bytes, a.Need.Bytes) })
	for context := now.Context / 2; context >= leastContext; context /= 2 {
		other := use
		other.Context = context
		try(other, "context", fmt.Sprintf("a context of %d", context))
	}
	for batch := now.Batch / 2; batch >= 1; batch /= 2 {
		other := use
		other.Batch = batch
		try(other, "batch", fmt.Sprintf("a batch of %d", batch))
	}
	least.RateMeasured = false
	least.Context, least.Batch = min(now.Context, leastContext), 1
	try(least, "", fmt.Sprintf("layout %s, a context of %d and a batch of 1", least.Layout, least.Context))
	return list
}
