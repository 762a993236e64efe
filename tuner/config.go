package tuner

import (
	"encoding/json"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// Regimes are tuned in this order.
var Regimes = []target.Regime{target.Decode, target.SmallBatch, target.Prefill}

// SmallBatchTokens is the batch at which the small-batch regime is measured: eight sequences decoded together, the
// middle of the range where the register tile must fit the batch.
const SmallBatchTokens = 8

// Strategy says where the ternary matmuls run.
type Strategy string

// The strategies. Auto is only ever asked for: an answer is one of the others.
const (
	CPUOnly Strategy = "cpu_only" // every matmul on the CPU
	GPUOnly Strategy = "gpu_only" // every matmul on a GPU
	Hybrid  Strategy = "hybrid"   // the first layers on a GPU, which cannot hold all of them, and the rest on the CPU
	Auto    Strategy = "auto"     // the best of these, by measurement
)

// Config is what a deployment needs to know to run a model on a host: one setting per regime over one layout.
type Config struct {
	Strategy          Strategy       `json:"strategy"`
	Layout            kernels.Layout `json:"layout"`
	Decode            Setting        `json:"decode"`
	SmallBatch        Setting        `json:"small_batch"`
	Prefill           Setting        `json:"prefill"`
	WorkspaceBytes    int64          `json:"workspace_bytes"` // activations, sums and results of the largest batch
	GPUMemoryFraction float64        `json:"gpu_memory_fraction"`
	Devices           []string       `json:"devices"`
}

// Setting is the part of a Config that belongs to one regime.
type Setting struct {
	Kernel   string           `json:"kernel"`
	Threads  int              `json:"threads"`
	Batch    int              `json:"batch"`
	Blocking kernels.Blocking `json:"blocking"`
	Launch   target.Launch    `json:"launch,omitzero"`
}

// setting returns the setting of a regime for reading and writing.
func (c *Config) setting(r target.Regime) *Setting {
	switch r {
	case target.Decode:
		return &c.Decode
	case target.SmallBatch:
		return &c.SmallBatch
	case target.Prefill:
		return &c.Prefill
	}
	panic("tuner: unknown regime")
}

// Arm returns the setting of a regime as a target measures it.
func (c Config) Arm(r target.Regime) target.Arm {
	s := c.setting(r)
	return target.Arm{Layout: c.Layout, Kernel: s.Kernel, Threads: s.Threads, Batch: s.Batch, Blocking: s.Blocking, Launch: s.Launch}
}

// with returns c with the setting of a regime replaced by arm.
func (c Config) with(r target.Regime, arm target.Arm) Config {
	*c.setting(r) = Setting{Kernel: arm.Kernel, Threads: arm.Threads, Batch: arm.Batch, Blocking: arm.Blocking, Launch: arm.Launch}
	return c
}

// Validate reports the first field that this host cannot honour.
func (c Config) Validate(h probe.Host) error {
	return Problem{Host: h, Target: targetCPU}.validate(c)
}

// maxBatch bounds the batch of a config that comes from outside: 128 times the largest that is ever tried.
const maxBatch = 1 << 16

// armJSON is the canonical form under which history keeps an arm.
func armJSON(a target.Arm) []byte {
	data, err := json.Marshal(a)
	if err != nil {
		panic("tuner: an arm always marshals")
	}
	return data
}
