package tuner

import (
	"fmt"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
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
	// Card is the GPU of the target cuda; nil = none is known.
	Card *target.Card

	unused string         // why nothing that was learned is to be used; "" = it is
	prior  prior          // what a site ships
	device device.Options // how facts become an answer
	gpus   gpu.Survey
	// knobs are pinned by an operator; knobNote says of others that they are not possible here.
	knobs    []history.PinnedKnob
	knobNote string
	// context is how many tokens of a sequence there must be room for; 0 = the default of device.
	context int
}

// threads is the bound that holds: the host's or the caller's, whichever is less.
func (p Problem) threads() int {
	if p.MaxThreads > 0 {
		return min(p.MaxThreads, p.Host.CPU.UsableCores)
	}
	return p.Host.CPU.UsableCores
}

func fields(list []probe.Field) map[string]string {
	m := make(map[string]string, len(list))
	for _, f := range list {
		m[f.Name] = f.Value
	}
	return m
}
