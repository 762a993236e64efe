package tuner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// ErrNoGPU means that there is no GPU here to tune on.
var ErrNoGPU = errors.New("no GPU")

// gpus is what this process sees of its GPUs, looked for once.
type gpus struct {
	driver *driver.Driver
	err    error
	looked chan struct{} // closed when the two are known; nil while nobody has asked
	asked  time.Time
}

// driverPatience is how long an answer at once waits for a driver, counted from when this process first asked for it: one that
// nobody keeps awake initialises for seconds, and one that hangs does so for ever.
var driverPatience = 5 * time.Second

// errDriverLate means that the driver may answer yet.
var errDriverLate = errors.New("no answer from its driver so far")

// lookForGPUs opens the driver, beside whoever asks.
func (t *Tuner) lookForGPUs() gpus {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gpus.looked == nil {
		t.gpus.looked, t.gpus.asked = make(chan struct{}), time.Now()
		go func() {
			d, err := t.opt.CUDA()
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.closed && d != nil {
				d.Close()
				d, err = nil, errors.New("the tuner was closed")
			}
			t.gpus.driver, t.gpus.err = d, err
			close(t.gpus.looked)
		}()
	}
	return t.gpus
}

// cardAtOnce is card for an answer that nobody wants to wait for.
func (t *Tuner) cardAtOnce(ctx context.Context) (*target.Card, error) {
	ctx, cancel := context.WithDeadline(ctx, t.lookForGPUs().asked.Add(driverPatience))
	defer cancel()
	card, err := t.card(ctx, "")
	if err != nil && !errors.Is(err, ErrNoGPU) { // which leaves that of ctx
		err = fmt.Errorf("%w: %w", ErrNoGPU, errDriverLate)
	}
	return card, err
}

// device returns the GPU of a UUID, or the one with the most memory if uuid is "", and waits for the driver. It makes no context
// on it. The error wraps ErrNoGPU and says why there is none, or is that of ctx.
func (t *Tuner) device(ctx context.Context, uuid string) (*driver.Device, error) {
	looked := t.lookForGPUs().looked
	select {
	case <-looked:
	case <-ctx.Done():
		select {
		case <-looked: // also by now
		default:
			return nil, ctx.Err()
		}
	}
	g := t.lookForGPUs()
	if g.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoGPU, g.err)
	}
	if uuid != "" {
		device, err := g.driver.Device(uuid)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoGPU, err)
		}
		return device, nil
	}
	var best *driver.Device
	for _, d := range g.driver.Devices() {
		if best == nil || d.TotalBytes() > best.TotalBytes() {
			best = d
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%w: the driver lists none", ErrNoGPU)
	}
	return best, nil
}

// card returns the facts about the device that would be used.
func (t *Tuner) card(ctx context.Context, uuid string) (*target.Card, error) {
	d, err := t.device(ctx, uuid)
	if err != nil {
		return nil, err
	}
	major, minor, known := d.Capability()
	if !known {
		return nil, fmt.Errorf("%w: the driver does not tell the compute capability of %s", ErrNoGPU, d)
	}
	attribute := func(a driver.Attribute) int {
		value, _ := d.Attribute(a)
		return value
	}
	return &target.Card{
		UUID: d.UUID(), Name: d.Name(), Capability: gpu.Capability{Major: major, Minor: minor}, TotalBytes: d.TotalBytes(),
		DriverVersion: t.gpus.driver.Version(), Multiprocessors: attribute(driver.MultiprocessorCount),
		SharedBytes: attribute(driver.MaxSharedPerBlockOptin), L2Bytes: uint64(max(0, attribute(driver.L2CacheBytes))),
	}, nil
}

// why is the reason in an error that wraps ErrNoGPU, without saying twice that there is none.
func why(err error) string {
	return strings.TrimPrefix(err.Error(), ErrNoGPU.Error()+": ")
}
