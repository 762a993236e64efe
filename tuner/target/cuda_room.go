package target

import (
	"fmt"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	gpukernels "github.com/bitnet-autotune/bitnet-autotune/cuda/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// cudaRoom is the memory of inputs and outputs for a batch: an input for each distinct K, an output for each distinct N. A
// token has the same values in every batch.
type cudaRoom struct {
	batch   int
	inputs  map[int]*cudaInput
	outputs map[int]driver.Ptr // of batch x N int32
}

// cudaInput are the tokens of a K, here and on the device.
type cudaInput struct {
	tokens *kernels.Activations
	x, sum driver.Ptr
}

// each calls f for every piece of memory.
func (r *cudaRoom) each(f func(driver.Ptr)) {
	for _, in := range r.inputs {
		f(in.x)
		f(in.sum)
	}
	for _, p := range r.outputs {
		f(p)
	}
}

// grow makes room for a batch. Passes that used the room before have to be captured anew.
func (s *cudaState) grow(batch int) error {
	if s.room != nil && batch <= s.room.batch {
		return nil
	}
	batch = max(batch, s.target.options.MaxBatch)
	r := &cudaRoom{batch: batch, inputs: map[int]*cudaInput{}, outputs: map[int]driver.Ptr{}}
	var perToken uint64
	for _, mm := range s.target.model.Layer() {
		if _, known := r.inputs[mm.K]; !known {
			r.inputs[mm.K], perToken = &cudaInput{}, perToken+uint64(gpukernels.Stride(mm.K))+4
		}
		if _, known := r.outputs[mm.N]; !known {
			r.outputs[mm.N], perToken = 0, perToken+4*uint64(mm.N)
		}
	}
	if most := s.budget / 2; uint64(batch) > most/perToken {
		return fmt.Errorf("batch %d: inputs and outputs take %d bytes per token, and %d bytes may be used: %w", batch, perToken, most, ErrOutOfMemory)
	}
	if s.room != nil {
		s.room.each(func(p driver.Ptr) { s.target.device.Free(p) })
	}
	s.room = r // whatever happens next, close frees it
	if err := s.allocate(r); err != nil {
		r.each(func(p driver.Ptr) {
			if p != 0 {
				s.target.device.Free(p)
			}
		})
		s.room = nil
		return err
	}
	return nil
}

func (s *cudaState) allocate(r *cudaRoom) (err error) {
	device := s.target.device
	for k, in := range r.inputs {
		in.tokens = randomTokens(r.batch, k, s.target.options.Seed)
		stride := gpukernels.Stride(k)
		rows := make([]int8, r.batch*stride)
		for m := range r.batch {
			copy(rows[m*stride:], tokenOf(in.tokens, m))
		}
		if in.x, err = device.Alloc(uint64(len(rows))); err != nil {
			return err
		}
		if in.sum, err = device.Alloc(4 * uint64(r.batch)); err != nil {
			return err
		}
		if err := driver.Upload(device, in.x, rows); err != nil {
			return err
		}
		if err := driver.Upload(device, in.sum, in.tokens.Sum); err != nil {
			return err
		}
	}
	for n := range r.outputs {
		if r.outputs[n], err = device.Alloc(4 * uint64(r.batch) * uint64(n)); err != nil {
			return err
		}
	}
	return nil
}
