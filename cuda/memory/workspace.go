package memory

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
)

// Quantization is how the weights are stored, by the names of the kernels' layouts.
type Quantization string

// The types whose workspace is known.
const (
	I2S Quantization = "i2s"
	TL1 Quantization = "tl1"
	TL2 Quantization = "tl2"
)

// Demand is a matmul that wants a workspace.
type Demand struct {
	InputFeatures  uint64
	OutputFeatures uint64
	Quantization   Quantization
	// Stated, if not nil, is what the kernel says that it needs, and replaces the sizes by quantization type.
	Stated *Need
	// MaxBatch is the largest batch that is of use. If MaxBatch is 0, only class and constants limit it.
	MaxBatch int
}

// Need is what a kernel works with besides weights, activations and results.
type Need struct {
	FixedBytes  uint64 // whatever the batch
	SampleBytes uint64 // for each sample of it
}

// Workspace is the room of a matmul on a device and the batch that fits into it.
type Workspace struct {
	Device         int    `json:"device"`
	Bytes          uint64 `json:"bytes"`
	Batch          int    `json:"batch"`
	FixedBytes     uint64 `json:"fixed_bytes"` // dequantised weights
	SampleBytes    uint64 `json:"sample_bytes"`
	WantedBytes    uint64 `json:"wanted_bytes"` // before the caps
	AvailableBytes uint64 `json:"available_bytes"`
	// Limit is what kept the batch from being larger: "class", "memory", "cap", "request" or "no cuda".
	Limit string `json:"limit"`
	Basis string `json:"basis"` // "estimate": sizes by type are formulas, not measurements
}

// Available is what may be taken of a device now: what is free without the reserve of the moment.
func (c Constants) Available(m gpu.Memory) uint64 {
	return below(m.FreeBytes, share(m.TotalBytes, c.ReserveShare))
}

// Reserved is what is never given out of a device's total, for the driver, the context and others.
func (c Constants) Reserved(total uint64) uint64 {
	return min(c.DriverBytes+c.ContextBytes+share(total, c.BudgetShare), c.ReserveCapBytes)
}

// Usable is the budget of a device: its total without what is reserved.
func (c Constants) Usable(total uint64) uint64 { return below(total, c.Reserved(total)) }

// BatchLimit is the largest batch for a card of that many bytes.
func (c Constants) BatchLimit(total uint64) int {
	switch {
	case total < c.SmallCardBytes:
		return c.SmallCardBatch
	case total < c.MediumCardBytes:
		return c.MediumCardBatch
	case total < c.LargeCardBytes:
		return c.LargeCardBatch
	}
	return c.HugeCardBatch
}

// Workspace returns the workspace of d on a device that has m, and the batch that fits into it. The two agree: Bytes
// hold Batch samples, and Batch is at least 1. An error is a *QueryError, *InsufficientError or *WorkspaceError where
// the device is to blame.
func (c Constants) Workspace(d Demand, device int, m gpu.Memory) (Workspace, error) {
	if err := c.Validate(); err != nil {
		return Workspace{}, err
	}
	fixed, sample, err := c.need(d)
	if err != nil {
		return Workspace{}, err
	}
	if m.TotalBytes == 0 {
		return Workspace{}, &QueryError{Device: device, Err: errors.New("its total is unknown")}
	}
	least := c.MinWorkspaceBytes
	if d.Stated != nil {
		least = sample
	}
	w := Workspace{Device: device, FixedBytes: fixed, SampleBytes: sample, AvailableBytes: c.Available(m), Basis: "estimate"}
	usable := share(w.AvailableBytes, c.UsableShare)
	left := below(usable, fixed)
	if left < least || fixed > usable {
		return Workspace{}, &InsufficientError{Device: device, RequiredBytes: saturate(fixed, least), AvailableBytes: w.AvailableBytes, UsableBytes: usable}
	}
	w.Batch, w.Limit = c.batch(d, m.TotalBytes, left, sample)
	return c.capped(w, d.Stated == nil)
}

// WithoutCUDA is the answer for a device that has no CUDA: nothing is asked of a GPU and nothing taken there.
func (c Constants) WithoutCUDA(d Demand) Workspace {
	w := Workspace{Device: -1, Batch: c.CPUBatch, Limit: "no cuda", Basis: "estimate"}
	if d.MaxBatch > 0 && d.MaxBatch < w.Batch {
		w.Batch, w.Limit = d.MaxBatch, "request"
	}
	return w
}

// batch is the largest batch for what is left, and what keeps it from being larger.
func (c Constants) batch(d Demand, total, left, sample uint64) (int, string) {
	batch, limit := c.BatchLimit(total), "class"
	if d.MaxBatch > 0 && d.MaxBatch < batch {
		batch, limit = d.MaxBatch, "request"
	}
	if sample > 0 && left/sample < uint64(batch) {
		batch, limit = int(left/sample), "memory"
	}
	return max(batch, 1), limit
}

// capped sizes w for its batch, and cuts both to what a workspace may take. A workspace by the formula is at least the
// minimum.
func (c Constants) capped(w Workspace, minimum bool) (Workspace, error) {
	single, least := saturate(w.FixedBytes, w.SampleBytes), uint64(0)
	if minimum {
		least = c.MinWorkspaceBytes
	}
	ceiling := min(c.MaxWorkspaceBytes, share(w.AvailableBytes, c.WorkspaceShare))
	need, err := total(w.FixedBytes, uint64(w.Batch), w.SampleBytes)
	if err != nil {
		return Workspace{}, err
	}
	w.WantedBytes = max(need, least)
	if max(single, least) > ceiling {
		return Workspace{}, &WorkspaceError{Device: w.Device, RequestedBytes: w.WantedBytes, AvailableBytes: w.AvailableBytes, MinimumBytes: max(single, least)}
	}
	if need > ceiling {
		w.Batch, w.Limit = int((ceiling-w.FixedBytes)/w.SampleBytes), "cap"
		need = w.FixedBytes + uint64(w.Batch)*w.SampleBytes
	}
	w.Bytes = max(need, least)
	return w, nil
}

// need is what d takes whatever the batch, and for each sample.
func (c Constants) need(d Demand) (fixed, sample uint64, err error) {
	if d.Stated != nil {
		return d.Stated.FixedBytes, d.Stated.SampleBytes, nil
	}
	if d.InputFeatures == 0 || d.OutputFeatures == 0 {
		return 0, 0, fmt.Errorf("memory: workspace of %d x %d features: both have to be at least 1", d.InputFeatures, d.OutputFeatures)
	}
	var factor uint64
	switch d.Quantization {
	case I2S:
		factor = c.DequantBytesI2S
	case TL1:
		factor = c.DequantBytesTL1
	case TL2:
		factor = c.DequantBytesTL2
	default:
		return 0, 0, fmt.Errorf("memory: workspace of quantization type %q: want %s, %s or %s, or a kernel's stated need", d.Quantization, I2S, TL1, TL2)
	}
	base, err := total(0, d.InputFeatures, d.OutputFeatures)
	if err != nil {
		return 0, 0, err
	}
	if fixed, err = total(0, base, factor); err != nil {
		return 0, 0, err
	}
	sample, err = total(0, d.OutputFeatures, c.ResultBytes)
	return fixed, sample, err
}

// total is a + b*c, or an error where that is more than a machine can address.
func total(a, b, c uint64) (uint64, error) {
	high, low := bits.Mul64(b, c)
	sum, carry := bits.Add64(low, a, 0)
	if high != 0 || carry != 0 {
		return 0, fmt.Errorf("memory: workspace of %d + %d x %d bytes overflows 64 bits", a, b, c)
	}
	return sum, nil
}

// below is a - b, never below 0.
func below(a, b uint64) uint64 { return a - min(a, b) }

// saturate is a + b, at most the largest number.
func saturate(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	return sum | -carry
}

// share is a part of n bytes, rounded down. The part is taken in thousandths of a percent, since a float64 has fewer
// digits than n.
func share(n uint64, part float64) uint64 {
	const unit = 100_000
	high, low := bits.Mul64(n, uint64(part*unit+0.5))
	quotient, _ := bits.Div64(high, low, unit)
	return quotient
}
