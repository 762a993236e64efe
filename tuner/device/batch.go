package device

import (
	"fmt"
	"slices"
)

// batch is the largest candidate that memory holds, the model included; 1 where it holds none.
func (d *decision) batch() {
	candidates := slices.Clone(d.Requirements.Batches)
	if len(candidates) == 0 {
		candidates = slices.Clone(d.c.Batches)
	}
	slices.Sort(candidates)
	available, what, limit := d.Facts.AvailableBytes, "memory", LimitMemory
	if d.Strategy.Value == GPUOnly {
		available, what, limit = 0, "GPU memory", LimitGPUMemory
		if d.card != nil {
			available = d.card.AvailableBytes
		}
	}
	best, stopped := 0, 0
	for _, n := range candidates {
		if d.viable(n, available) {
			best = n
		} else if stopped == 0 {
			stopped = n
		}
	}
	b := Choice[int]{Value: max(1, best), Limit: LimitModel, Basis: weakest(Probe, d.Requirements.Working.Basis)}
	each := fmt.Sprintf("%s for each sequence, beside %s for the model", size(d.Requirements.Working.Value), size(d.Requirements.ModelBytes.Value))
	switch {
	case available == 0:
		b.Limit, b.Reason = limit, fmt.Sprintf("available %s is unknown", what)
	case best == 0:
		b.Limit, b.Reason = limit, fmt.Sprintf("no candidate fits %s of %s: %s", size(available), what, each)
	case stopped > best:
		b.Limit, b.Reason = limit, fmt.Sprintf("the largest candidate that fits %s of %s: %s", size(available), what, each)
	default:
		b.Reason = fmt.Sprintf("the largest candidate; %s of %s would hold more: %s", size(available), what, each)
	}
	d.Batch = b
	if need := d.Requirements.Required(1); available > 0 && need > available {
		d.warn(fmt.Sprintf("the model does not fit: one sequence takes %s, and %s of %s are available", size(need), size(available), what))
	}
	d.log.Debug().Ints("candidates", candidates).Uint64("working_bytes", d.Requirements.Working.Value).Uint64("available_bytes", available).Int("batch", b.Value).Msg("device: batch")
}

// viable reports whether a batch may be served: its working memory takes less than a share of what is available, and
// the model fits beside it.
func (d *decision) viable(batch int, available uint64) bool {
	working := times(d.Requirements.Working.Value, uint64(batch))
	return float64(working) < d.c.BatchMemory*float64(available) && d.Requirements.Required(batch) <= available
}
