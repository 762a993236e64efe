package device

import (
	"fmt"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/memory"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
)

// workspace sizes what the matmuls work in: on the selected GPU by cuda/memory, else as the CPU kernels state.
func (d *decision) workspace() {
	largest := d.Requirements.Largest
	demand := memory.Demand{InputFeatures: uint64(largest.K), OutputFeatures: uint64(largest.N), Quantization: memory.Quantization(d.Requirements.Layout), Stated: d.opt.Need}
	if d.card != nil {
		d.gpuWorkspace(demand)
		return
	}
	if d.opt.Stated != nil {
		stated := d.opt.Stated(d.Threads.Value)
		d.WorkspaceTokens = stated.Batch
		d.WorkspaceBytes = Choice[uint64]{Value: stated.Bytes, Limit: LimitModel, Basis: Probe, Reason: fmt.Sprintf("as the kernels state for %d tokens at once", stated.Batch)}
		return
	}
	tokens := d.opt.memory().WithoutCUDA(demand).Batch
	// A token's activations in int8, its results in int32, its scale and sum.
	bytes := times(uint64(tokens), uint64(largest.K)+4*uint64(largest.N)+8)
	d.WorkspaceTokens = tokens
	d.WorkspaceBytes = Choice[uint64]{Value: bytes, Limit: LimitModel, Basis: Estimate, Reason: fmt.Sprintf("activations and results of %d tokens in the %d x %d matmul", tokens, largest.N, largest.K)}
}

// gpuWorkspace sizes the workspace for what the model leaves free. In a hybrid it comes first, and weights fill the rest.
func (d *decision) gpuWorkspace(demand memory.Demand) {
	taken := d.Requirements.Required(d.Batch.Value)
	if d.Strategy.Value == Hybrid {
		taken = 0
	}
	left := gpu.Memory{TotalBytes: d.card.TotalBytes, FreeBytes: d.card.FreeBytes - min(taken, d.card.FreeBytes)}
	w, err := d.opt.memory().Workspace(demand, d.card.Index, left)
	if err != nil {
		d.WorkspaceBytes = Choice[uint64]{Limit: LimitGPUMemory, Basis: Estimate, Reason: err.Error()}
		d.warn(d.card.title() + " has no room for a workspace beside the model")
		return
	}
	d.WorkspaceTokens = w.Batch
	d.WorkspaceBytes = Choice[uint64]{Value: w.Bytes, Limit: LimitGPUMemory, Basis: Basis(w.Basis), Reason: fmt.Sprintf("%d tokens at once, limited by %s; %s available for it", w.Batch, w.Limit, size(w.AvailableBytes))}
	if w.Limit == "class" || w.Limit == "request" {
		d.WorkspaceBytes.Limit = LimitModel
	}
}
