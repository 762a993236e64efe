package device

import (
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/memory"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

// Options are how a decision is made. The zero value works.
type Options struct {
	Constants *Constants        // if nil, Defaults
	Memory    *memory.Constants // if nil, memory.Defaults
	Overrides Overrides
	Measured  Measurements
	// Runs are the strategies that the caller can run, and Missing says why not the others. If Runs is nil, all.
	Runs    []Strategy
	Missing string
	// Stated is what the CPU kernels say that they take with so many threads. If nil, the workspace is an estimate.
	Stated func(threads int) memory.Workspace
	// Need is what the GPU kernel states that it needs (R1.13). If nil, it is sized by its quantization type.
	Need *memory.Need
	// Off gives the fixed configuration, which looks at nothing. Overrides hold all the same.
	Off bool
	Log *zerolog.Logger // if nil, silent
}

// Overrides are answers that the caller insists on. What is zero is left to the rules.
type Overrides struct {
	Strategy          Strategy
	Device            string // UUID
	Threads           int
	GPUMemoryFraction float64
	Batch             int
	WorkspaceBytes    uint64
}

// Measurements are what was timed on this host before. They replace estimates and rules.
type Measurements struct {
	// ReadBandwidth is bytes per second that all usable threads read together; 0 = unknown.
	ReadBandwidth uint64
	// Curve is the cost of decoding a token by the number of threads, in any unit; nil = unknown.
	Curve map[int]float64
	// CurveOf says what the curve was timed with: "this model", "llama3-8b-1.58".
	CurveOf string
}

// Validate names the first option that cannot be meant.
func (o Options) Validate() error {
	if err := o.constants().Validate(); err != nil {
		return err
	}
	if err := o.memory().Validate(); err != nil {
		return err
	}
	over := o.Overrides
	switch {
	case over.Strategy != "" && !slices.Contains(Strategies, over.Strategy):
		return fmt.Errorf("device: override strategy %q: one of %v", over.Strategy, Strategies)
	case over.Threads < 0:
		return fmt.Errorf("device: override threads %d: want at least 1, or 0 for none", over.Threads)
	case over.Batch < 0:
		return fmt.Errorf("device: override batch %d: want at least 1, or 0 for none", over.Batch)
	case !(over.GPUMemoryFraction >= 0 && over.GPUMemoryFraction <= 1):
		return fmt.Errorf("device: override gpu_memory_fraction %v: want a share above 0 and up to 1, or 0 for none", over.GPUMemoryFraction)
	}
	return nil
}

// Needs returns what a model needs, by the constants in use.
func (o Options) Needs(m model.Model, use Use) Requirements { return o.constants().Require(m, use) }

func (o Options) constants() Constants {
	if o.Constants == nil {
		return Defaults
	}
	return *o.Constants
}

func (o Options) memory() memory.Constants {
	if o.Memory == nil {
		return memory.Defaults
	}
	return *o.Memory
}

// runs reports whether the caller can run a strategy.
func (o Options) runs(s Strategy) bool { return o.Runs == nil || slices.Contains(o.Runs, s) }
