package tuner

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// Regimes are tuned in this order.
var Regimes = []target.Regime{target.Decode, target.SmallBatch, target.Prefill}

// SmallBatchTokens is the batch at which the small-batch regime is measured: eight sequences decoded together, the
// middle of the range where the register tile must fit the batch.
const SmallBatchTokens = 8

// Strategy says where the ternary matmuls run.
type Strategy string

// CPUOnly runs every matmul on the CPU.
const CPUOnly Strategy = "cpu_only"

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
	return target.Arm{Layout: c.Layout, Kernel: s.Kernel, Threads: s.Threads, Batch: s.Batch, Blocking: s.Blocking}
}

// with returns c with the setting of a regime replaced by arm.
func (c Config) with(r target.Regime, arm target.Arm) Config {
	*c.setting(r) = Setting{Kernel: arm.Kernel, Threads: arm.Threads, Batch: arm.Batch, Blocking: arm.Blocking}
	return c
}

// Validate reports the first field that this host cannot honour.
func (c Config) Validate(h probe.Host) error {
	if c.Strategy != CPUOnly {
		return fmt.Errorf("config: strategy %q: this build runs %s", c.Strategy, CPUOnly)
	}
	if _, ok := kernels.FormatOf(c.Layout); !ok {
		return fmt.Errorf("config: layout %q: one of %v", c.Layout, kernels.Layouts())
	}
	for _, r := range Regimes {
		if err := validateArm(h, r, c.Arm(r)); err != nil {
			return fmt.Errorf("config: %s: %w", r, err)
		}
	}
	return nil
}

func validateArm(h probe.Host, r target.Regime, a target.Arm) error {
	k, ok := kernels.ByName(a.Kernel)
	switch {
	case !ok:
		return fmt.Errorf("kernel %q is not in this build", a.Kernel)
	case k.Layout != a.Layout:
		return fmt.Errorf("kernel %s works on layout %s, not %s", k.Name, k.Layout, a.Layout)
	case !h.CPU.Features.Has(k.Needs):
		return fmt.Errorf("kernel %s needs %s, this host has %s", k.Name, k.Needs, h.CPU.Features)
	case a.Threads < 1 || a.Threads > h.CPU.UsableCores:
		return fmt.Errorf("threads %d: this host can use 1 to %d", a.Threads, h.CPU.UsableCores)
	case a.Batch < 1 || r == target.Decode && a.Batch != 1:
		return fmt.Errorf("batch %d: decode takes 1, the others at least 1", a.Batch)
	case a.Batch > maxBatch:
		return fmt.Errorf("batch %d: at most %d", a.Batch, maxBatch)
	case a.Blocking.Tile != kernels.Tile{} && !slices.Contains(k.Tiles, a.Blocking.Tile) && a.Blocking.Tile != k.Default(a.Batch).Tile:
		return fmt.Errorf("tile %s: kernel %s has %v", a.Blocking.Tile, k.Name, k.Tiles)
	case a.Blocking.PrefetchBytes < 0 || a.Blocking.ChunkRows < 0:
		return fmt.Errorf("prefetch_bytes %d, chunk_rows %d: at least 0", a.Blocking.PrefetchBytes, a.Blocking.ChunkRows)
	}
	return nil
}

// maxBatch bounds the batch of a config that comes from outside: 128 times the largest that is ever tried.
const maxBatch = 1 << 16

// workspace returns the bytes that the activations, their sums and the results of one matmul take at the largest
// batch of c, with what the kernels ask for besides.
func (c Config) workspace(m model.Model) int64 {
	var most int64
	for _, r := range Regimes {
		most = max(most, armWorkspace(c.Arm(r), m))
	}
	return most
}

func armWorkspace(a target.Arm, m model.Model) int64 {
	k, _ := kernels.ByName(a.Kernel)
	var most int64
	for _, s := range m.Shapes {
		stride := kernels.Stride(s.K)
		bytes := int64(a.Batch) * (int64(stride) + 4*int64(s.N) + 8)
		if k.Work != nil {
			bytes += int64(a.Threads) * int64(k.Work(kernels.Shape{M: a.Batch, N: s.N, K: s.K}))
		}
		most = max(most, bytes)
	}
	return most
}

// armJSON is the canonical form under which history keeps an arm.
func armJSON(a target.Arm) []byte {
	data, err := json.Marshal(a)
	if err != nil {
		panic("tuner: an arm always marshals")
	}
	return data
}
