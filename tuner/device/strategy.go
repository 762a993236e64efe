package device

import (
	"fmt"
	"strings"
)

// Strategy says where the ternary matmuls run.
type Strategy string

// The strategies.
const (
	CPUOnly Strategy = "cpu_only"
	GPUOnly Strategy = "gpu_only"
	Hybrid  Strategy = "hybrid"
	Auto    Strategy = "auto" // left to the engine; only an override asks for it
)

// Strategies lists all of them.
var Strategies = []Strategy{CPUOnly, GPUOnly, Hybrid, Auto}

// strategy chooses by the first rule that matches: GPU only, hybrid, CPU only.
func (d *decision) strategy() {
	d.strategyByRule()
	if word := d.opt.Overrides.Strategy; word != "" {
		if word != d.Strategy.Value {
			d.card = nil
		}
		if d.card == nil && (word == GPUOnly || word == Hybrid) {
			d.card = d.roomiest()
		}
		insist(&d.Strategy, word)
	}
	d.device()
	d.log.Info().Str("model", d.Requirements.Model).Str("strategy", string(d.Strategy.Value)).Str("reason", d.Strategy.Reason).Msg("device: strategy")
}

func (d *decision) strategyByRule() {
	need := d.Requirements.Required(d.Requirements.Batch)
	var against []string // why the rules before did not match
	faster := d.faster()
	limit, basis := LimitGPU, weakest(Probe, d.Requirements.ModelBytes.Basis, d.Requirements.Working.Basis)
	for i := range d.Facts.GPUs {
		card := &d.Facts.GPUs[i]
		switch {
		case !d.eligible(card):
		case !card.Usable:
			against = append(against, fmt.Sprintf("%s cannot be used: %s", card.title(), card.Trouble))
		case card.AvailableBytes < need:
			limit = LimitGPUMemory
			against = append(against, fmt.Sprintf("%s has %s available of the %s required", card.title(), size(card.AvailableBytes), size(need)))
		case faster == "":
			limit = LimitModel
			against = append(against, "the model is too small to be judged faster on "+card.title())
		case !d.opt.runs(GPUOnly):
			limit = LimitBuild
			against = append(against, fmt.Sprintf("the model fits %s, but %s", card.title(), d.missing(GPUOnly)))
		default:
			d.card = card
			d.Strategy = Choice[Strategy]{Value: GPUOnly, Limit: LimitNone, Basis: basis,
				Reason: fmt.Sprintf("%s has %s available for the %s required, and %s", card.title(), size(card.AvailableBytes), size(need), faster)}
			return
		}
	}
	if len(d.Facts.GPUs) == 0 {
		against = append(against, "no GPU was found"+colon(d.Facts.GPUNote))
	}
	if reason, ok := d.hybrid(need, &limit, &against); ok {
		d.card = d.roomiest()
		d.Strategy = Choice[Strategy]{Value: Hybrid, Reason: reason, Limit: limit, Basis: basis}
		return
	}
	d.Strategy = Choice[Strategy]{Value: CPUOnly, Reason: strings.Join(against, "; "), Limit: limit, Basis: Probe}
	if limit != LimitGPU {
		d.Strategy.Basis = basis
	}
}

// faster says why the GPU is judged faster than the CPU; "" = it is not.
func (d *decision) faster() string {
	r := d.Requirements
	switch {
	case r.ModelBytes.Value >= d.c.GPUModelBytes:
		return fmt.Sprintf("its %s are at least %s", size(r.ModelBytes.Value), size(d.c.GPUModelBytes))
	case r.Operations.Value > d.c.GPUOperations:
		return fmt.Sprintf("a token takes %.2g operations, more than %d", float64(r.Operations.Value), d.c.GPUOperations)
	case d.Facts.PhysicalCores <= d.c.FewCores:
		return fmt.Sprintf("there are no more than %d cores", d.c.FewCores)
	}
	return ""
}

// hybrid says why the model should be shared between a GPU and the CPU, if it should.
func (d *decision) hybrid(need uint64, limit *Limit, against *[]string) (reason string, ok bool) {
	model := d.Requirements.ModelBytes.Value
	card := d.roomiest()
	switch {
	case card == nil || model <= d.c.HybridModelBytes:
		return "", false
	case d.Facts.AvailableBytes < need:
		*against = append(*against, fmt.Sprintf("memory has %s available of the %s that sharing the model would take", size(d.Facts.AvailableBytes), size(need)))
		return "", false
	case !d.opt.runs(Hybrid):
		*limit = LimitBuild
		*against = append(*against, "it could be shared with the CPU, but "+d.missing(Hybrid))
		return "", false
	}
	return fmt.Sprintf("%s; its %s are more than %s, and memory has %s available for the %s required", strings.Join(*against, "; "),
		size(model), size(d.c.HybridModelBytes), size(d.Facts.AvailableBytes), size(need)), true
}

// eligible reports whether a card may be selected: any, unless the caller named one.
func (d *decision) eligible(card *Card) bool {
	name := d.opt.Overrides.Device
	return name == "" || name == card.ID
}

// roomiest is the usable card with the most memory available, the first of equals; nil = there is none.
func (d *decision) roomiest() *Card {
	var most *Card
	for i := range d.Facts.GPUs {
		card := &d.Facts.GPUs[i]
		if card.Usable && d.eligible(card) && (most == nil || card.AvailableBytes > most.AvailableBytes) {
			most = card
		}
	}
	return most
}

// device names the GPU that all later rules go by.
func (d *decision) device() {
	named := d.opt.Overrides.Device
	switch {
	case d.card != nil:
		d.Device = &Choice[string]{Value: d.card.ID, Reason: "the first in the driver's order that fits", Limit: LimitNone, Basis: Probe}
		if d.Strategy.Value != GPUOnly || d.Strategy.Overridden {
			d.Device.Reason = "of the usable ones, that with the most memory available"
		}
		if named != "" {
			insist(d.Device, named)
		}
	case named != "":
		d.warn(fmt.Sprintf("device %s was asked for, and is not used: %s", named, d.Strategy.Reason))
	case d.Strategy.Value == GPUOnly || d.Strategy.Value == Hybrid:
		d.warn(fmt.Sprintf("strategy %s was asked for, but no GPU can be used here", d.Strategy.Value))
	}
}

func (d *decision) missing(s Strategy) string {
	if d.opt.Missing != "" {
		return d.opt.Missing
	}
	return "the caller cannot run " + string(s)
}

// title is a card for people: "GPU 0 (NVIDIA H200)".
func (c *Card) title() string {
	if c.Name == "" {
		return fmt.Sprintf("GPU %d", c.Index)
	}
	return fmt.Sprintf("GPU %d (%s)", c.Index, c.Name)
}

func colon(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

// size is a number of bytes for people, in powers of 1024, as the rules' own limits are.
func size(bytes uint64) string {
	if bytes < 1024*mib {
		return fmt.Sprintf("%.0f MiB", float64(bytes)/mib)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1024*mib))
}
