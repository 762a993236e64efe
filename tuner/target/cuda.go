package target

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	gpukernels "github.com/bitnet-autotune/bitnet-autotune/cuda/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// CUDAOptions are what a CUDA target may be told.
type CUDAOptions struct {
	// Layouts are the layouts of the arms that will come; at least one.
	Layouts []kernels.Layout
	// MaxBatch is the largest batch that will come. If MaxBatch is 0, room is made when a larger one comes.
	MaxBatch int
	// Seed draws the weights, the activations and the words of the checks. Any value will do.
	Seed uint64
	// MaxBytes bounds the memory for weights; inputs and outputs may take half as much again. If 0, it is half of what is
	// free on the device.
	MaxBytes uint64
}

// CUDA is a GPU as a Target. It holds the ternary weights of the model twice over, or as often as memory allows, so that a
// pass reads what a real one reads, and from as far. Its methods may be called concurrently: they take turns.
//
// After an error that loses the device, such as a kernel that reads where it must not, it resets the device and goes on with
// the next arm, a few times; from then on it refuses everything, and Lost says why.
type CUDA struct {
	driver  *driver.Driver
	device  *driver.Device
	card    Card
	model   model.Model
	options CUDAOptions

	turn    chan struct{} // held by whoever uses what follows
	closed  bool
	lost    error
	resets  int
	state   *cudaState // what lives on the device; nil before the first use and after a reset
	notes   map[string]bool
	words   *rand.Rand
	checked uint64 // runs whose outputs were checked
}

var _ Target = (*CUDA)(nil)

// maxResets is how often a target resets a device that was lost. A search that meets a third fatal kernel is not worth
// what it does to whoever shares the card.
const maxResets = 2

// NewCUDA returns a target on a device of a driver. It takes no memory there before it is used.
func NewCUDA(d *driver.Driver, device *driver.Device, card Card, m model.Model, opt CUDAOptions) (*CUDA, error) {
	if len(opt.Layouts) == 0 {
		panic("target: a CUDA target without layouts")
	}
	if err := checkModel(m); err != nil {
		return nil, fmt.Errorf("target: hold %s on %s: %w", m.Name, device, err)
	}
	return &CUDA{
		driver: d, device: device, card: card, model: m, options: opt, turn: make(chan struct{}, 1), notes: map[string]bool{},
		words: rand.New(rand.NewPCG(opt.Seed, streamWords)),
	}, nil
}

// Name implements Target.
func (c *CUDA) Name() string { return "cuda" }

// Note says how what is measured differs from the whole model; "" = not at all.
func (c *CUDA) Note() string {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	return strings.Join(slices.Sorted(maps.Keys(c.notes)), "; ")
}

// Lost returns why the device is refused for good, or nil.
func (c *CUDA) Lost() error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	return c.lost
}

// Close frees what the target holds on the device. Subjects return an error from then on. It may be called again.
func (c *CUDA) Close() error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.closed = true
	return c.drop()
}

// drop frees everything on the device.
func (c *CUDA) drop() error {
	if c.state == nil {
		return nil
	}
	err := c.state.close()
	c.state = nil
	return err
}

// take waits for the caller's turn; give ends it.
func (c *CUDA) take(ctx context.Context) (give func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch {
	case c.closed:
		err = errors.New("the target is closed")
	case c.lost != nil:
		err = c.lost
	}
	if err != nil {
		<-c.turn
		return nil, err
	}
	return func() { <-c.turn }, nil
}

// Prepare implements Target. One iteration of the subject is a pass through all layers that are held, or half of them, in
// order, as graphs of launches: see pass for how it is timed. Every distinct shape is verified here, outputs poisoned
// before; and after every run of the subject the outputs of a matmul again.
func (c *CUDA) Prepare(ctx context.Context, regime Regime, arm Arm) (measure.Subject, error) {
	fail := func(err error) (measure.Subject, error) {
		return measure.Subject{}, fmt.Errorf("target: prepare %s for %s: %w", arm.Kernel, regime, err)
	}
	give, err := c.take(ctx)
	if err != nil {
		return fail(err)
	}
	defer give()
	kernel, err := c.check(regime, arm)
	if err != nil {
		return fail(err)
	}
	p := &cudaPass{target: c, arm: arm, kernel: kernel}
	if err := c.judged(p.prepare(ctx)); err != nil {
		return fail(err)
	}
	return measure.Subject{Name: arm.String(), Units: p.units(), Run: p.run}, nil
}

// check finds the kernel of an arm and refuses what this target cannot do, naming the field.
func (c *CUDA) check(regime Regime, arm Arm) (gpukernels.Kernel, error) {
	reject := func(field string, got any, want string, args ...any) error {
		return fmt.Errorf("%s %v: want %s: %w", field, got, fmt.Sprintf(want, args...), ErrRejected)
	}
	kernel, known := gpukernels.ByName(arm.Kernel)
	switch {
	case regime != Decode && regime != SmallBatch && regime != Prefill:
		return kernel, reject("regime", regime, "%s, %s or %s", Decode, SmallBatch, Prefill)
	case !known:
		return kernel, reject("kernel", arm.Kernel, "one of package cuda/kernels")
	case arm.Layout != kernel.Layout:
		return kernel, reject("layout", arm.Layout, "%s, which kernel %s works on", kernel.Layout, kernel.Name)
	case arm.Batch < 1 || regime == Decode && arm.Batch != 1:
		return kernel, reject("batch", arm.Batch, "1 for %s, else 1 or more", Decode)
	case arm.Launch.SplitK < 0 || arm.Launch.MaxRegisters < 0:
		return kernel, reject("launch", arm.Launch, "numbers of 0 or more")
	}
	for _, mm := range c.model.Layer() {
		if _, err := kernel.Shape(kernels.Shape{M: arm.Batch, N: mm.N, K: mm.K}, max(1, arm.Launch.SplitK)); err != nil {
			return kernel, fmt.Errorf("%w: %w", err, ErrRejected)
		}
	}
	return kernel, nil
}

// judged sorts the driver's errors into those of a Target, and takes care of a device that was lost.
func (c *CUDA) judged(err error) error {
	var e *driver.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrDeviceLost):
		c.revive(err)
		return err
	case errors.Is(err, driver.ErrOutOfMemory):
		return fmt.Errorf("%w: %w", ErrOutOfMemory, err)
	case errors.Is(err, driver.ErrInvalidPTX), errors.Is(err, driver.ErrDriverTooOld), errors.Is(err, driver.ErrNoCompiler),
		errors.As(err, &e) && e.Code == driver.LaunchOutOfResources:
		return fmt.Errorf("%w: %w", ErrRejected, err)
	}
	return err
}

// revive resets a device that was lost, or gives it up.
func (c *CUDA) revive(why error) {
	c.drop() // of objects that are gone with the context
	if c.resets == maxResets {
		c.lost = fmt.Errorf("%s was lost %d times, the last time by %w", c.device, c.resets+1, why)
		return
	}
	c.resets++
	if err := c.device.Reset(); err != nil {
		c.lost = fmt.Errorf("%s was lost by %w, and could not be reset: %w", c.device, why, err)
	}
}
