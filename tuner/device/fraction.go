package device

import "fmt"

// fraction is the share of a GPU's memory that the model may take: what the batch requires, with some headroom.
func (d *decision) fraction() {
	if d.card != nil {
		d.fractionByRule()
	}
	if word := d.opt.Overrides.GPUMemoryFraction; word > 0 {
		if d.GPUMemoryFraction == nil {
			d.GPUMemoryFraction = &Choice[float64]{}
		}
		insist(d.GPUMemoryFraction, word)
	}
}

func (d *decision) fractionByRule() {
	need, total := d.Requirements.Required(d.Batch.Value), d.card.TotalBytes
	share := float64(need) / float64(total) / d.c.FractionHeadroom
	f := Choice[float64]{Value: clamp(share, d.c.LeastFraction, d.c.MostFraction), Limit: LimitModel, Basis: weakest(Probe, d.Requirements.ModelBytes.Basis, d.Requirements.Working.Basis)}
	f.Reason = fmt.Sprintf("%s required for batch %d, over %s in total, over %v: %.3f", size(need), d.Batch.Value, size(total), d.c.FractionHeadroom, share)
	switch {
	case share < d.c.LeastFraction:
		f.Reason += fmt.Sprintf(", but at least %v", d.c.LeastFraction)
	case share > d.c.MostFraction:
		f.Limit, f.Reason = LimitGPUMemory, f.Reason+fmt.Sprintf(", but at most %v", d.c.MostFraction)
	}
	d.GPUMemoryFraction = &f
	if f.Value*float64(total) > float64(d.card.FreeBytes) {
		d.warn(fmt.Sprintf("a fraction is one of the total: %.3f of it are %s, and %s has %s free", f.Value, size(uint64(f.Value*float64(total))), d.card.title(), size(d.card.FreeBytes)))
	}
	d.log.Debug().Uint64("required_bytes", need).Uint64("total_bytes", total).Float64("fraction", f.Value).Msg("device: GPU memory fraction")
}
