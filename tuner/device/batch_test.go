package device

import (
	"math"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/memory"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
)

// having is a host with that much memory available.
func having(available uint64) probe.Host {
	h := plain(16, 64*gib)
	h.Memory.AvailableBytes = available
	return h
}

func TestBatch(t *testing.T) {
	preferring := of(gib, 100*mib, 2000)
	preferring.Batches = []int{32, 3, 6}
	for name, c := range map[string]struct {
		host  probe.Host
		gpus  gpu.Survey
		needs Requirements
		want  int
		limit Limit
	}{
		"R0.26 the model's preference":          {having(60 * gib), noGPU, preferring, 32, LimitModel},
		"R0.26 in any order":                    {having(2 * gib), noGPU, preferring, 6, LimitMemory},
		"R0.26 without a preference":            {having(60 * gib), noGPU, of(gib, 100*mib, 2000), 16, LimitModel},
		"R0.27 at 80 %":                         {having(1000 * mib), noGPU, of(0, 100*mib, 2000), 4, LimitMemory}, // 8 x 100 is not below 800
		"R0.27 just below 80 %":                 {having(1001 * mib), noGPU, of(0, 100*mib, 2000), 8, LimitMemory},
		"R0.27 beside the model":                {having(4000 * mib), noGPU, of(3000*mib, 100*mib, 2000), 8, LimitMemory}, // 16 would be below 80 %
		"R0.27 beside the model, to the byte":   {having(3800 * mib), noGPU, of(3000*mib, 100*mib, 2000), 8, LimitMemory},
		"R0.27 beside the model, a byte less":   {having(3800*mib - 1), noGPU, of(3000*mib, 100*mib, 2000), 4, LimitMemory},
		"R0.27 GPU memory for GPU only":         {having(2 * gib), free(2400*mib, 10*gib), of(2000*mib, 100*mib, 2000), 4, LimitGPUMemory},
		"R0.27 memory for a hybrid":             {having(8 * gib), cards(4 * gib), of(5000*mib, 400*mib, 2000), 4, LimitMemory},
		"R0.28 none is viable":                  {having(100 * mib), noGPU, of(gib, 100*mib, 2000), 1, LimitMemory},
		"R0.28 nothing known of the memory":     {having(0), noGPU, of(gib, 100*mib, 2000), 1, LimitMemory},
		"R0.28 a model that works in no memory": {having(gib), noGPU, of(gib, 0, 2000), 16, LimitModel},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(t, c.host, c.gpus, c.needs, Options{})
			if d.Batch.Value != c.want || d.Batch.Limit != c.limit {
				t.Errorf("got %d, limited by %s (%s), want %d by %s", d.Batch.Value, d.Batch.Limit, d.Batch.Reason, c.want, c.limit)
			}
		})
	}
}

// R0.27: a model that does not fit at all is a warning beside the answer.
func TestAModelThatDoesNotFitIsAWarning(t *testing.T) {
	d := decide(t, having(gib), noGPU, of(2*gib, mib, 2000), Options{})
	if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "does not fit") {
		t.Errorf("warnings %q", d.Warnings)
	}
}

func TestFraction(t *testing.T) {
	for name, c := range map[string]struct {
		modelBytes, total uint64
		want              float64
	}{
		"R0.25 over 0.9":     {4500 * mib, 10000 * mib, 0.5},
		"R0.25 at least 0.1": {mib, 80 * gib, 0.10},
		"R0.25 at most 0.95": {8700 * mib, 10000 * mib, 0.95},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(t, plain(8, 64*gib), cards(c.total), of(c.modelBytes, 0, 2000), Options{})
			if d.GPUMemoryFraction == nil || math.Abs(d.GPUMemoryFraction.Value-c.want) > 1e-12 {
				t.Errorf("got %+v, want %v (%s)", d.GPUMemoryFraction, c.want, d.Strategy.Reason)
			}
		})
	}
	// R0.25: absent where no GPU is used.
	for _, opt := range []Options{{}, {Overrides: Overrides{Strategy: Auto}}} {
		if d := decide(t, plain(8, 64*gib), noGPU, of(gib, mib, 2000), opt); d.GPUMemoryFraction != nil {
			t.Errorf("%s has a fraction: %+v", d.Strategy.Value, d.GPUMemoryFraction)
		}
	}
	// R0.25: working memory is that of the batch that is advised beside it.
	d := decide(t, plain(8, 64*gib), cards(100*gib), of(10*gib, gib, 2000), Options{})
	if want := 26. / 100 / 0.9; d.Batch.Value != 16 || math.Abs(d.GPUMemoryFraction.Value-want) > 1e-12 {
		t.Errorf("batch %d with %+v, want 16 with %v", d.Batch.Value, d.GPUMemoryFraction, want)
	}
}

// R1.12, R1.16, R1.17: the workspace of a GPU is cuda/memory's, for what model and batch leave free.
func TestWorkspaceOfAGPU(t *testing.T) {
	r, s := Defaults.Require(preset(t, "bitnet-b1.58-2b-4t"), Use{}), cards(24*gib)
	d := decide(t, plain(16, 64*gib), s, r, Options{})
	left := s.GPUs[0].Memory
	left.FreeBytes -= r.Required(d.Batch.Value)
	want, err := memory.Defaults.Workspace(memory.Demand{InputFeatures: 2560, OutputFeatures: 6912, Quantization: memory.I2S}, 0, left)
	if err != nil {
		t.Fatal(err)
	}
	if d.WorkspaceBytes.Value != want.Bytes || d.WorkspaceTokens != want.Batch {
		t.Errorf("%d bytes for %d tokens, want %d for %d", d.WorkspaceBytes.Value, d.WorkspaceTokens, want.Bytes, want.Batch)
	}
	// R1.13: a kernel that states its need is believed.
	d = decide(t, plain(16, 64*gib), s, r, Options{Need: &memory.Need{SampleBytes: 1000}})
	if d.WorkspaceBytes.Value != uint64(1000*d.WorkspaceTokens) {
		t.Errorf("%d bytes for %d tokens of 1000", d.WorkspaceBytes.Value, d.WorkspaceTokens)
	}
}

// R1.30: no room for a workspace is told, with the error's own words.
func TestNoRoomForAWorkspace(t *testing.T) {
	r := Defaults.Require(preset(t, "bitnet-b1.58-2b-4t"), Use{})
	d := decide(t, plain(16, 64*gib), free(r.Required(1), 10*gib), r, Options{})
	if d.Strategy.Value != GPUOnly || d.WorkspaceBytes.Value != 0 || d.WorkspaceBytes.Limit != LimitGPUMemory || len(d.Warnings) != 1 {
		t.Errorf("%s with %+v and warnings %q", d.Strategy.Value, d.WorkspaceBytes, d.Warnings)
	}
}

// R1.18: without CUDA 64 tokens, unless the kernels state otherwise.
func TestWorkspaceOfACPU(t *testing.T) {
	r := Defaults.Require(preset(t, "bitnet-b1.58-2b-4t"), Use{})
	d := decide(t, plain(16, 64*gib), noGPU, r, Options{})
	if want := uint64(64 * (2560 + 4*6912 + 8)); d.WorkspaceBytes.Value != want || d.WorkspaceTokens != 64 || d.WorkspaceBytes.Basis != Estimate {
		t.Errorf("%+v for %d tokens, want %d for 64", d.WorkspaceBytes, d.WorkspaceTokens, want)
	}
	d = decide(t, plain(16, 64*gib), noGPU, r, Options{Stated: func(threads int) memory.Workspace { return memory.Workspace{Bytes: uint64(1000 * threads), Batch: 128} }})
	if d.WorkspaceBytes.Value != 16000 || d.WorkspaceTokens != 128 || d.WorkspaceBytes.Basis != Probe {
		t.Errorf("%+v for %d tokens, want what the kernels state", d.WorkspaceBytes, d.WorkspaceTokens)
	}
}
