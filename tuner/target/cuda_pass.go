package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	gpukernels "github.com/bitnet-autotune/bitnet-autotune/cuda/kernels"
)

// cudaPass is one arm, ready to run: two graphs of launches, one through the first half of the layers that are held and
// one through all of them. An iteration takes the time of the second less that of the first, so that what launching a
// graph costs cancels, and is a pass through as many layers as a half has. Both begin with the first layer, so that
// between two reads of a weight at least a half is read: as in a real pass, where memory allows a half to be all layers.
type cudaPass struct {
	target *CUDA
	arm    Arm
	kernel gpukernels.Kernel

	state       *cudaState // what the graphs were made for; another one makes them anew
	room        *cudaRoom
	layers      *cudaLayers
	one, two    *driver.Graph
	outputs     []int32
	unitsOfPass float64
}

// units are the tokens of an iteration, as a share of a whole pass.
func (p *cudaPass) units() float64 { return p.unitsOfPass }

// prepare verifies the arm and captures its graphs.
func (p *cudaPass) prepare(ctx context.Context) error {
	s, err := p.target.ready()
	if err != nil {
		return err
	}
	f, err := s.loader.Function(p.kernel, driver.JIT{MaxRegisters: p.arm.Launch.MaxRegisters})
	if err != nil {
		return err
	}
	if p.layers, err = s.hold(ctx, p.arm.Layout); err != nil {
		return err
	}
	if err := s.grow(p.arm.Batch); err != nil {
		return err
	}
	p.unitsOfPass = float64(p.arm.Batch) * float64(p.layers.count/2) / float64(p.target.model.Layers)
	if err := p.verify(ctx, s, f); err != nil {
		return err
	}
	return p.capture(s, f)
}

// mul queues one matmul.
func (p *cudaPass) mul(s *cudaState, f *driver.Function, layer, matmul int) error {
	mm := p.layers.matmuls[matmul]
	in := s.room.inputs[mm.k]
	return p.kernel.Launch(s.stream, f, &gpukernels.MulParams{
		Dst: s.room.outputs[mm.n].Ptr, W: p.layers.at(layer, matmul), X: in.x.Ptr, Sum: in.sum.Ptr,
		M: int32(p.arm.Batch), N: int32(mm.n), K: int32(mm.k), Stride: int32(gpukernels.Stride(mm.k)),
	}, max(1, p.arm.Launch.SplitK))
}

// verify runs one matmul of every distinct shape, its outputs poisoned before, and checks all of them.
func (p *cudaPass) verify(ctx context.Context, s *cudaState, f *driver.Function) error {
	seen := map[[2]int]bool{}
	for i, mm := range p.layers.matmuls {
		shape := [2]int{mm.n, mm.k}
		if seen[shape] {
			continue
		}
		seen[shape] = true
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.poison(s, mm); err != nil {
			return err
		}
		if err := p.mul(s, f, p.layers.count-1, i); err != nil {
			return err
		}
		if err := s.stream.Synchronize(); err != nil {
			return err
		}
		if err := p.compare(s, mm); err != nil {
			return err
		}
	}
	return nil
}

func (p *cudaPass) poison(s *cudaState, mm cudaMatmul) error {
	const bits = uint32(poison & 0xffffffff)
	return s.stream.Fill32(s.room.outputs[mm.n].Ptr, bits, uint64(p.arm.Batch)*uint64(mm.n))
}

// compare checks the outputs of a matmul that has ended.
func (p *cudaPass) compare(s *cudaState, mm cudaMatmul) error {
	need := p.arm.Batch * mm.n
	if len(p.outputs) < need {
		p.outputs = make([]int32, need)
	}
	if err := driver.Download(p.target.device, p.outputs[:need], s.room.outputs[mm.n].Ptr); err != nil {
		return err
	}
	return p.layers.of[[2]int{mm.n, mm.k}].compare(p.outputs[:need], firstTokens(s.room.inputs[mm.k].tokens, p.arm.Batch))
}

// capture makes the two graphs.
func (p *cudaPass) capture(s *cudaState, f *driver.Function) (err error) {
	through := func(layers int) (*driver.Graph, error) {
		return s.stream.Capture(func() error {
			for layer := range layers {
				for i := range p.layers.matmuls {
					if err := p.mul(s, f, layer, i); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	if p.one, err = through(p.layers.count / 2); err != nil {
		return err
	}
	if p.two, err = through(p.layers.count); err != nil {
		return errors.Join(err, p.one.Close())
	}
	if p.state != s {
		s.passes = append(s.passes, p)
	}
	p.state, p.room = s, s.room
	return nil
}

// current captures the graphs anew where the memory that they work on is gone.
func (p *cudaPass) current(ctx context.Context) error {
	s := p.target.state
	if s != nil && p.state == s && p.room == s.room {
		return nil
	}
	if p.state == s && s != nil { // of the same context: only room was made
		if err := errors.Join(p.one.Close(), p.two.Close()); err != nil {
			return err
		}
	}
	return p.prepare(ctx)
}

// run is Subject.Run.
func (p *cudaPass) run(ctx context.Context, n int) (time.Duration, error) {
	give, err := p.target.take(ctx)
	if err == nil {
		defer give()
		var elapsed time.Duration
		if elapsed, err = p.timed(ctx, n); err == nil {
			return elapsed, nil
		}
		err = p.target.judged(err)
	}
	return 0, fmt.Errorf("target: run %s: %w", p.arm, err)
}

// timed runs both graphs n times each between events of the device, and checks the outputs of one matmul of the last layer.
func (p *cudaPass) timed(ctx context.Context, n int) (time.Duration, error) {
	if err := p.current(ctx); err != nil {
		return 0, err
	}
	s := p.state
	witness := p.witness()
	if err := p.poison(s, witness); err != nil {
		return 0, err
	}
	if err := p.one.Launch(s.stream); err != nil { // so that the device is at work before the clock starts, and the host ahead of it
		return 0, err
	}
	if err := s.stream.Record(s.events[0]); err != nil {
		return 0, err
	}
	for i, g := range []*driver.Graph{p.one, p.two} {
		for range n {
			if err := g.Launch(s.stream); err != nil {
				return 0, err
			}
		}
		if err := s.stream.Record(s.events[i+1]); err != nil {
			return 0, err
		}
	}
	if err := s.events[2].Synchronize(); err != nil {
		return 0, err
	}
	half, err := s.events[1].Since(s.events[0])
	if err != nil {
		return 0, err
	}
	all, err := s.events[2].Since(s.events[1])
	if err != nil {
		return 0, err
	}
	if err := p.compare(s, witness); err != nil {
		return 0, err
	}
	if all <= half { // less than the clock of the device can tell: with what launching costs, it is at least no boast
		return all / 2, nil
	}
	return all - half, nil
}

// witness is a matmul whose outputs are still there after a pass: of those of one N the last in order of use, each time
// another one.
func (p *cudaPass) witness() cudaMatmul {
	last := map[int]int{} // by rows
	var order []int
	for i, mm := range p.layers.matmuls {
		if _, seen := last[mm.n]; !seen {
			order = append(order, mm.n)
		}
		last[mm.n] = i
	}
	p.target.checked++
	return p.layers.matmuls[last[order[p.target.checked%uint64(len(order))]]]
}
