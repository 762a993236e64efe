package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// Shelf is the live processor as a Target for arms of several layouts. It holds a CPU for each layout from the first arm
// of it on. Its methods are for one caller at a time.
type Shelf struct {
	host    probe.Host
	model   model.Model
	options CPUOptions
	layouts []kernels.Layout
	held    map[kernels.Layout]*CPU
}

var _ Target = (*Shelf)(nil)

// NewShelf returns a target for the given layouts, of which at least one is needed. opt.MaxBytes, by default half of what
// the host has available, is shared out among the layouts evenly; opt.Layout is not used.
func NewShelf(host probe.Host, m model.Model, layouts []kernels.Layout, opt CPUOptions) *Shelf {
	if len(layouts) == 0 {
		panic("target: a shelf without layouts")
	}
	if opt.MaxBytes == 0 {
		opt.MaxBytes = host.Memory.AvailableBytes / 2
	}
	opt.MaxBytes /= uint64(len(layouts))
	return &Shelf{host: host, model: m, options: opt, layouts: layouts, held: map[kernels.Layout]*CPU{}}
}

// Name implements Target.
func (s *Shelf) Name() string { return "cpu" }

// Hold returns the weights in a layout, made if this is the first time they are needed.
func (s *Shelf) Hold(ctx context.Context, layout kernels.Layout) (*CPU, error) {
	if c := s.held[layout]; c != nil {
		return c, nil
	}
	if !slices.Contains(s.layouts, layout) {
		return nil, fmt.Errorf("target: layout %s: want one of %v: %w", layout, s.layouts, ErrRejected)
	}
	opt := s.options
	opt.Layout = layout
	c, err := NewCPU(ctx, s.host, s.model, opt)
	if err != nil {
		return nil, err
	}
	s.held[layout] = c
	return c, nil
}

// Prepare implements Target.
func (s *Shelf) Prepare(ctx context.Context, regime Regime, arm Arm) (measure.Subject, error) {
	c, err := s.Hold(ctx, arm.Layout)
	if err != nil {
		return measure.Subject{}, err
	}
	return c.Prepare(ctx, regime, arm)
}

// Note says how what is measured differs from the whole model; "" = not at all.
func (s *Shelf) Note() string {
	var notes []string
	for _, layout := range s.layouts {
		if c := s.held[layout]; c != nil && c.Note() != "" {
			notes = append(notes, fmt.Sprintf("%s in layout %s", c.Note(), layout))
		}
	}
	return strings.Join(notes, "; ")
}

// Close frees the weights. Subjects return an error from then on. It may be called again.
func (s *Shelf) Close() error {
	var failed []error
	for _, c := range s.held {
		failed = append(failed, c.Close())
	}
	return errors.Join(failed...)
}

// repackSample is how long packing is watched.
const repackSample = 20 * time.Millisecond

// Repack returns how long one thread takes to bring all ternary weights of the model into a layout, from int8 values:
// extrapolated from packing one block of rows of its largest matrix again and again.
func (s *Shelf) Repack(ctx context.Context, layout kernels.Layout) (time.Duration, error) {
	format, ok := kernels.FormatOf(layout)
	if !ok {
		return 0, fmt.Errorf("target: layout %q: want one of %v: %w", layout, kernels.Layouts(), ErrRejected)
	}
	largest := slices.MaxFunc(s.model.Shapes, func(a, b model.Shape) int { return a.N*a.K - b.N*b.K })
	rows := min(format.BlockRows, largest.N)
	values := make([]int8, rows*largest.K)
	data := make([]byte, format.Bytes(rows, largest.K))
	format.Random(data, rows, largest.K, s.options.Seed)
	format.Unpack(values, data, rows, largest.K)
	packed, start := 0, time.Now()
	for ; time.Since(start) < repackSample; packed += len(values) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		format.Pack(data, values, rows, largest.K)
	}
	weights := 0
	for _, shape := range s.model.Shapes {
		weights += shape.N * shape.K * shape.Count
	}
	return time.Duration(float64(time.Since(start)) / float64(packed) * float64(weights)), nil
}
