package kerneltest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/kernels"
)

// Machine runs kernels.
type Machine interface {
	// Run brings the buffers into device memory, each at an address divisible by 256, runs one launch to its end and
	// brings them back. The parameters of the kernel are the addresses of the buffers and then the numbers.
	Run(ctx context.Context, e kernels.Entry, shape driver.Launch, buffers [][]byte, numbers ...int32) error
	// Capability is that of the device.
	Capability() kernels.Capability
}

// Params packs the parameters of a launch.
func Params(at []driver.Ptr, numbers []int32) []byte {
	var params []byte
	for _, p := range at {
		params = binary.LittleEndian.AppendUint64(params, uint64(p))
	}
	for _, n := range numbers {
		params = binary.LittleEndian.AppendUint32(params, uint32(n))
	}
	return params
}

// Card is a device behind the table of the driver. It runs one kernel at a time.
type Card struct {
	mu     sync.Mutex
	device *driver.Device
	loader *kernels.Loader
	have   kernels.Capability
}

var _ Machine = (*Card)(nil)

// NewCard returns the machine for a device. Close unloads its kernels.
func NewCard(d *driver.Device) (*Card, error) {
	have, err := kernels.CapabilityOf(d)
	if err != nil {
		return nil, err
	}
	loader, err := kernels.NewLoader(d)
	if err != nil {
		return nil, err
	}
	return &Card{device: d, loader: loader, have: have}, nil
}

// Close unloads the kernels.
func (c *Card) Close() error { return c.loader.Close() }

// Capability implements Machine.
func (c *Card) Capability() kernels.Capability { return c.have }

// guard is what lies before and behind a buffer.
var guard = bytes.Repeat([]byte{0xa5}, 256)

// Run implements Machine.
func (c *Card) Run(_ context.Context, e kernels.Entry, shape driver.Launch, buffers [][]byte, numbers ...int32) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := c.loader.Function(e, driver.JIT{})
	if err != nil {
		return err
	}
	at := make([]driver.Ptr, len(buffers))
	for i, b := range buffers {
		p, err := c.device.Alloc(uint64(len(b) + 2*len(guard)))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.device.Free(p)) }()
		if err := driver.Upload(c.device, p, bytes.Join([][]byte{guard, b, guard}, nil)); err != nil {
			return err
		}
		at[i] = p + driver.Ptr(len(guard))
	}
	stream, err := c.device.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	if err := f.Launch(stream, shape, Params(at, numbers)); err != nil {
		return err
	}
	if err := stream.Synchronize(); err != nil {
		return err
	}
	for i, b := range buffers {
		whole := make([]byte, len(b)+2*len(guard))
		if err := driver.Download(c.device, whole, at[i]-driver.Ptr(len(guard))); err != nil {
			return err
		}
		if !bytes.HasPrefix(whole, guard) || !bytes.HasSuffix(whole, guard) {
			return fmt.Errorf("kerneltest: %s wrote outside of buffer %d", e.Symbol(), i)
		}
		copy(b, whole[len(guard):])
	}
	return nil
}
