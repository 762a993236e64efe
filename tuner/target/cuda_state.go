package target

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	gpukernels "github.com/bitnet-autotune/bitnet-autotune/cuda/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/memory"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// cudaState is what a CUDA target has on its device. A pass that was made for another one makes itself anew.
type cudaState struct {
	target *CUDA
	stream *driver.Stream
	events [3]*driver.Event
	loader *gpukernels.Loader
	memory *memory.Manager
	budget uint64 // bytes that weights may take

	layers map[kernels.Layout]*cudaLayers
	room   *cudaRoom
	passes []*cudaPass // whose graphs end with it
}

// ready returns what the target has on the device, made if there is nothing.
func (c *CUDA) ready() (*cudaState, error) {
	if c.state != nil {
		return c.state, nil
	}
	s := &cudaState{target: c, layers: map[kernels.Layout]*cudaLayers{}}
	c.state = s
	if err := s.open(); err != nil {
		return nil, errors.Join(err, c.drop())
	}
	return s, nil
}

func (s *cudaState) open() (err error) {
	device := s.target.device
	if s.stream, err = device.NewStream(); err != nil {
		return err
	}
	for i := range s.events {
		if s.events[i], err = device.NewEvent(); err != nil {
			return err
		}
	}
	if s.loader, err = gpukernels.NewLoader(device); err != nil {
		return err
	}
	if s.memory, err = memory.NewManager(s.target.driver, slices.Index(s.target.driver.Devices(), device), memory.Options{}); err != nil {
		return err
	}
	s.budget = s.target.options.MaxBytes
	if s.budget == 0 {
		now, err := s.memory.Memory()
		if err != nil {
			return err
		}
		s.budget = memory.Defaults.Available(now.Memory) / 2
	}
	return nil
}

// alloc takes memory for what name says.
func (s *cudaState) alloc(bytes uint64, name string) (memory.Allocation, error) {
	return s.memory.Alloc(memory.Request{Bytes: bytes, Name: name})
}

// free gives back what was taken, if it was.
func (s *cudaState) free(a memory.Allocation) error {
	if a.Bytes == 0 || s.target.device.Lost() != nil { // nothing, or gone with the context
		return nil
	}
	return s.memory.Free(a)
}

// close frees everything. What went with its context is gone already.
func (s *cudaState) close() error {
	var errs []error
	for _, p := range s.passes {
		errs = append(errs, p.one.Close(), p.two.Close())
	}
	for _, l := range s.layers {
		errs = append(errs, s.free(l.data))
	}
	if s.room != nil {
		errs = append(errs, s.room.free(s))
	}
	if s.memory != nil && s.target.device.Lost() == nil {
		errs = append(errs, s.memory.Close())
	}
	if s.loader != nil {
		errs = append(errs, s.loader.Close())
	}
	for _, e := range s.events {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	if s.stream != nil {
		errs = append(errs, s.stream.Close())
	}
	return errors.Join(errs...)
}

// cudaLayers are whole layers of weights in one layout, one after the other in one piece of device memory. The matrices of
// one shape are copies of one random matrix, each in a place of its own: what is read from where is as in a model, and one
// reference serves all of them.
type cudaLayers struct {
	data    memory.Allocation
	count   int
	bytes   uint64                    // of a layer
	matmuls []cudaMatmul              // of a layer, in order of use
	of      map[[2]int]*cudaReference // by N and K
}

// cudaMatmul is a matmul of a layer.
type cudaMatmul struct {
	n, k   int
	offset uint64 // of its weights in the layer
}

// cudaReference knows what is right for the matrices of a shape.
type cudaReference struct {
	*reference
	format kernels.Format
}

// align keeps matrices apart at what every load of the kernels needs, and a line of the cache.
func align(bytes uint64) uint64 { return (bytes + 255) &^ 255 }

// at is where the weights of a matmul of a layer lie.
func (l *cudaLayers) at(layer, matmul int) driver.Ptr {
	return l.data.Ptr + driver.Ptr(uint64(layer)*l.bytes+l.matmuls[matmul].offset)
}

// hold returns the layers in a layout, made if this is the first time they are needed.
func (s *cudaState) hold(ctx context.Context, layout kernels.Layout) (*cudaLayers, error) {
	if l := s.layers[layout]; l != nil {
		return l, nil
	}
	c := s.target
	l := &cudaLayers{of: map[[2]int]*cudaReference{}}
	for _, mm := range c.model.Layer() {
		l.matmuls = append(l.matmuls, cudaMatmul{mm.N, mm.K, l.bytes})
		l.bytes += align(uint64(gpukernels.Bytes(layout, mm.N, mm.K)))
	}
	budget := s.budget / uint64(len(c.options.Layouts))
	whole := 2 * c.model.Layers // two passes: see cudaPass
	l.count = int(min(uint64(whole), budget/l.bytes)) &^ 1
	if l.count < 2 {
		return nil, fmt.Errorf("weights of two layers in layout %s need %d bytes, and %d may be used: %w", layout, 2*l.bytes, budget, ErrOutOfMemory)
	}
	if l.count < whole {
		c.notes[fmt.Sprintf("holds %d of %d layers in layout %s, because %d bytes may be used for weights and two passes through all need %d",
			l.count/2, c.model.Layers, layout, budget, uint64(whole)*l.bytes)] = true
	}
	var err error
	if l.data, err = s.alloc(uint64(l.count)*l.bytes, "weights in layout "+string(layout)); err != nil {
		return nil, err
	}
	s.layers[layout] = l // whatever happens next, close frees it
	if err := s.fill(ctx, layout, l); err != nil {
		delete(s.layers, layout)
		return nil, errors.Join(err, s.free(l.data))
	}
	return l, nil
}

// fill draws the matrices of the first layer and copies them to all others.
func (s *cudaState) fill(ctx context.Context, layout kernels.Layout, l *cudaLayers) error {
	c := s.target
	format, ok := kernels.FormatOf(kernels.I2S)
	if !ok {
		panic("target: i2s is a layout")
	}
	first := map[[2]int]driver.Ptr{}
	for i, mm := range l.matmuls {
		if err := ctx.Err(); err != nil {
			return err
		}
		shape, to := [2]int{mm.n, mm.k}, l.at(0, i)
		size := uint64(gpukernels.Bytes(layout, mm.n, mm.k))
		if from, known := first[shape]; known {
			if err := s.stream.Copy(to, from, size); err != nil {
				return err
			}
			continue
		}
		packed := &kernels.Packed{Layout: format.Layout, N: mm.n, K: mm.k, Data: make([]byte, format.Bytes(mm.n, mm.k)), Scale: 1}
		format.Random(packed.Data, mm.n, mm.k, c.options.Seed+uint64(len(first)))
		tiles, err := gpukernels.Convert(layout, packed)
		if err != nil {
			return err
		}
		if err := driver.Upload(c.device, to, tiles.Data); err != nil {
			return err
		}
		first[shape] = to
		l.of[shape] = &cudaReference{newReference(format, packed, sampled(mm.n), c.words), format}
	}
	for layer := 1; layer < l.count; layer++ {
		if err := s.stream.Copy(l.data.Ptr+driver.Ptr(uint64(layer)*l.bytes), l.data.Ptr, l.bytes); err != nil {
			return err
		}
	}
	return s.stream.Synchronize()
}
