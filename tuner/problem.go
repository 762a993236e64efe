package tuner

import (
	"fmt"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// Objective is what a tune run makes fast.
type Objective string

// The objectives. Mixed is the time of one request of MixedPrompt prompt tokens and MixedGenerated generated ones.
const (
	ObjectiveDecode  Objective = "decode"
	ObjectivePrefill Objective = "prefill"
	ObjectiveMixed   Objective = "mixed"
)

// The request that ObjectiveMixed stands for: llama-bench's own pp512 and tg128.
const (
	MixedPrompt    = 512
	MixedGenerated = 128
)

// ParseObjective returns the objective of that name; the empty name is ObjectiveMixed.
func ParseObjective(name string) (Objective, error) {
	switch o := Objective(name); o {
	case "":
		return ObjectiveMixed, nil
	case ObjectiveDecode, ObjectivePrefill, ObjectiveMixed:
		return o, nil
	}
	return "", fmt.Errorf("objective %q: one of decode, prefill, mixed", name)
}

// share is the part of a run's measuring time that each regime gets.
func (o Objective) share(r target.Regime) float64 {
	switch {
	case o == ObjectiveDecode && r == target.Decode, o == ObjectivePrefill && r == target.Prefill:
		return 1
	case o != ObjectiveMixed:
		return 0
	case r == target.Decode:
		return 0.45
	case r == target.SmallBatch:
		return 0.15
	}
	return 0.4
}

// tokens is how many tokens of a regime one request of the objective costs; regimes with none are tuned on the side
// and do not enter the ratio.
func (o Objective) tokens(r target.Regime) float64 {
	switch {
	case o == ObjectiveDecode && r == target.Decode, o == ObjectivePrefill && r == target.Prefill:
		return 1
	case o == ObjectiveMixed && r == target.Decode:
		return MixedGenerated
	case o == ObjectiveMixed && r == target.Prefill:
		return MixedPrompt
	}
	return 0
}

// Problem is what is tuned: a model on a host for an objective. What was learned is kept under it.
type Problem struct {
	Host      probe.Host
	Model     model.Model
	Target    string
	Objective Objective
	// Layout is the only one that may be tried; "" = any.
	Layout kernels.Layout
	// MaxThreads bounds the threads that may be tried; 0 = every usable core.
	MaxThreads int

	prior prior // what a site ships
}

// threads is the bound that holds: the host's or the caller's, whichever is less.
func (p Problem) threads() int {
	if p.MaxThreads > 0 {
		return min(p.MaxThreads, p.Host.CPU.UsableCores)
	}
	return p.Host.CPU.UsableCores
}

// Default is the configuration that a tuned one has to beat: what an engine of bitnet.cpp's class does on this host
// with nobody tuning it. That is one thread for each usable physical core, the AVX2 kernel on x86 (its I2_S path for
// this class of hosts has no wider one) or the portable one elsewhere, static shares of the rows, no software
// prefetch, and llama.cpp's n_ubatch of 512 tokens for a prompt; 32 with the portable kernel, which takes as long for
// each token at any batch, and would take a minute for one sample of 512.
func (p Problem) Default() Config {
	p.Layout = DefaultLayout
	kernel, batch := "mul/"+string(p.Layout)+"/generic", 32
	for _, k := range p.usable() {
		if k.Needs == probe.AVX2 {
			kernel, batch = k.Name, 512
		}
	}
	return p.config(kernel, batch, func(b kernels.Blocking) kernels.Blocking {
		b.PrefetchBytes = 0
		return b
	})
}

// Heuristic is the configuration chosen from facts alone, before anything was measured here: the kernel that needs
// the most of what the host has, one thread for each usable physical core, and the kernel's own blocking.
func (p Problem) Heuristic() Config {
	if p.Layout == "" {
		p.Layout = DefaultLayout
	}
	batch := 128
	if p.widest().Needs == 0 {
		batch = 32
	}
	return p.config(p.widest().Name, batch, func(b kernels.Blocking) kernels.Blocking { return b })
}

// usable are the kernels of the layouts worth trying that this host can run.
func (p Problem) usable() []kernels.Kernel {
	layouts := p.layouts()
	return slices.DeleteFunc(kernels.Usable(p.Host.CPU.Features), func(k kernels.Kernel) bool { return !slices.Contains(layouts, k.Layout) })
}

// widest is the usable kernel of the layouts worth trying with the most demands.
func (p Problem) widest() kernels.Kernel { return widestOf(p.usable()) }

// widestOf is the kernel with the most demands: a wider vector unit is faster unless proven otherwise.
func widestOf(list []kernels.Kernel) kernels.Kernel {
	best := list[0]
	for _, k := range list[1:] {
		if k.Needs > best.Needs {
			best = k
		}
	}
	return best
}

func (p Problem) config(kernel string, batch int, adjust func(kernels.Blocking) kernels.Blocking) Config {
	k, _ := kernels.ByName(kernel)
	threads := max(1, min(p.Host.CPU.UsablePhysical, p.threads()))
	of := func(batch int) Setting {
		return Setting{Kernel: kernel, Threads: threads, Batch: batch, Blocking: adjust(k.Default(batch))}
	}
	c := Config{Strategy: CPUOnly, Layout: p.Layout, Decode: of(1), SmallBatch: of(SmallBatchTokens), Prefill: of(batch), Devices: []string{"cpu"}}
	c.WorkspaceBytes = c.workspace(p.Model)
	return c
}

// key stands for the kernel table and the yardstick, which must agree before a stored cost may be compared with a new
// one: costs are ratios to the yardstick, so another one is another scale.
func key(yardstick target.Arm) string {
	return kernels.Signature() + "/" + shortHash(armJSON(yardstick))
}

func fields(list []probe.Field) map[string]string {
	m := make(map[string]string, len(list))
	for _, f := range list {
		m[f.Name] = f.Value
	}
	return m
}
