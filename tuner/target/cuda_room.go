package target

import (
	"errors"
	"fmt"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	gpukernels "github.com/bitnet-autotune/bitnet-autotune/cuda/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/memory"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// cudaRoom is the memory of inputs and outputs for a batch: an input for each distinct K, an output for each distinct N. A
// token has the same values in every batch.
type cudaRoom struct {
	batch   int
	inputs  map[int]*cudaInput
	outputs map[int]memory.Allocation // of batch x N int32
}

// cudaInput are the tokens of a K, here and on the device.
type cudaInput struct {
	tokens *kernels.Activations
	x, sum memory.Allocation
}

// free gives all of it back.
func (r *cudaRoom) free(s *cudaState) error {
	var errs []error
	for _, in := range r.inputs {
		errs = append(errs, s.free(in.x), s.free(in.sum))
	}
	for _, a := range r.outputs {
		errs = append(errs, s.free(a))
	}
	return errors.Join(errs...)
}

// grow makes room for a batch. Passes that used the room before have to be captured anew.
func (s *cudaState) grow(batch int) error {
	if s.room != nil && batch <= s.room.batch {
		return nil
	}
	batch = max(batch, s.target.options.MaxBatch)
	r := &cudaRoom{batch: batch, inputs: map[int]*cudaInput{}, outputs: map[int]memory.Allocation{}}
	var perToken uint64
	for _, mm := range s.target.model.Layer() {
		if _, known := r.inputs[mm.K]; !known {
			r.inputs[mm.K], perToken = &cudaInput{}, perToken+uint64(gpukernels.Stride(mm.K))+4
		}
		if _, known := r.outputs[mm.N]; !known {
			r.outputs[mm.N], perToken = memory.Allocation{}, perToken+4*uint64(mm.N)
		}
	}
	if most := s.budget / 2; uint64(batch) > most/perToken {
		return fmt.Errorf("batch %d: inputs and outputs take %d bytes per token, and %d bytes may be used: %w", batch, perToken, most, ErrOutOfMemory)
	}
	if s.room != nil {
		old := s.room
		s.room = nil
		if err := old.free(s); err != nil {
			return err
		}
	}
	if err := s.allocate(r); err != nil {
		return errors.Join(err, r.free(s))
	}
	s.room = r
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
		if in.x, err = s.alloc(uint64(len(rows)), "activations"); err != nil {
			return err
		}
		if in.sum, err = s.alloc(4*uint64(r.batch), "sums of activations"); err != nil {
			return err
		}
		if err := driver.Upload(device, in.x.Ptr, rows); err != nil {
			return err
		}
		if err := driver.Upload(device, in.sum.Ptr, in.tokens.Sum); err != nil {
			return err
		}
	}
	for n := range r.outputs {
		if r.outputs[n], err = s.alloc(4*uint64(r.batch)*uint64(n), "results"); err != nil {
			return err
		}
	}
	return nil
}
