package target

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// weights are the ternary matrices of whole layers, each distinct, one after the other in order of use in one block of
// memory.
type weights struct {
	memory   *kernels.Memory
	matmuls  []*kernels.Packed
	perLayer int
}

// layerBytes is what the matmuls of a layer take.
func layerBytes(format kernels.Format, layer []model.Matmul) uint64 {
	var sum uint64
	for _, mm := range layer {
		sum += uint64(matrixBytes(format, mm))
	}
	return sum
}

// matrixBytes is the size of a matrix with what aligns the next one.
func matrixBytes(format kernels.Format, mm model.Matmul) int {
	return (format.Bytes(mm.N, mm.K) + kernels.DataAlign - 1) &^ (kernels.DataAlign - 1)
}

// newWeights allocates the layers and fills them with random weights. Each worker of the pool first touches the rows
// that will be its own where all workers share a matmul, so that they lie on its NUMA node.
func newWeights(ctx context.Context, format kernels.Format, layer []model.Matmul, layers int, seed uint64, pool *kernels.Pool) (*weights, error) {
	memory, err := kernels.Alloc(int(layerBytes(format, layer)) * layers)
	if errors.Is(err, kernels.ErrOutOfMemory) {
		return nil, fmt.Errorf("%w: %w", ErrOutOfMemory, err)
	} else if err != nil {
		return nil, err
	}
	w := &weights{memory: memory, perLayer: len(layer)}
	rest := memory.Bytes
	for range layers {
		for _, mm := range layer {
			size := format.Bytes(mm.N, mm.K)
			w.matmuls = append(w.matmuls, &kernels.Packed{Layout: format.Layout, N: mm.N, K: mm.K, Data: rest[:size:size], Scale: 1})
			rest = rest[matrixBytes(format, mm):]
		}
	}
	if err := w.fill(ctx, format, seed, pool); err != nil {
		return nil, errors.Join(err, memory.Free())
	}
	return w, nil
}

func (w *weights) fill(ctx context.Context, format kernels.Format, seed uint64, pool *kernels.Pool) error {
	rng := rand.New(rand.NewPCG(seed, streamWeights))
	seeds := make([]uint64, len(w.matmuls))
	for i := range seeds {
		seeds[i] = rng.Uint64()
	}
	defer pool.Enter()()
	var next atomic.Int64
	piece := len(w.matmuls)
	if measure.PacerOf(ctx) != nil { // so that it can rest in between
		piece = w.perLayer
	}
	for from := 0; from < len(w.matmuls); from += piece {
		if _, err := measure.Rest(ctx); err != nil {
			return err
		}
		part := w.matmuls[from : from+piece]
		pool.Run(func(worker int) {
			for _, m := range part {
				touch(share(m, pool.Threads(), worker))
			}
		})
		next.Store(0)
		pool.Run(func(int) {
			for i := next.Add(1) - 1; int(i) < len(part) && ctx.Err() == nil; i = next.Add(1) - 1 {
				m := part[i]
				format.Random(m.Data, m.N, m.K, seeds[from+int(i)])
			}
		})
	}
	return ctx.Err()
}

// The streams keep what is drawn for different purposes from one seed apart.
const (
	streamWeights = iota
	streamActivations
	streamWords
)

// touch makes the OS provide the pages.
func touch(data []byte) {
	const page = 4096
	for i := 0; i < len(data); i += page {
		data[i] = 0
	}
}

// share returns the bytes of the rows that a worker computes. A layout may mix the rows of a block; then it is as many
// bytes, at about the same place.
func share(m *kernels.Packed, workers, worker int) []byte {
	rows := kernels.Share(m.N, workers, worker)
	at := func(row int) int { return len(m.Data) * row / m.N &^ (kernels.DataAlign - 1) }
	if rows.To == m.N {
		return m.Data[at(rows.From):]
	}
	return m.Data[at(rows.From):at(rows.To)]
}

// witness returns the matmul of a layer whose outputs are looked at after it: one of those that no later matmul of the
// layer overwrites, as it has the last outputs of that many rows; another for each layer. first is any matmul of the
// layer, counted on through as many passes as one likes.
func (w *weights) witness(first int) int {
	n := len(w.matmuls)
	layer := ((first%n + n) % n) / w.perLayer
	seen := make(map[int]bool) // by rows
	var survivors []int
	for i := (layer+1)*w.perLayer - 1; i >= layer*w.perLayer; i-- {
		if rows := w.matmuls[i].N; !seen[rows] {
			seen[rows] = true
			survivors = append(survivors, i)
		}
	}
	return survivors[layer%len(survivors)]
}

// samples returns one matmul of each distinct shape: of those of a shape the last one in order of use, whose outputs
// are still there after a pass.
func (w *weights) samples() []*kernels.Packed {
	type shape struct{ n, k int }
	seen := make(map[shape]bool)
	var list []*kernels.Packed
	for i := len(w.matmuls) - 1; i >= len(w.matmuls)-w.perLayer; i-- {
		m := w.matmuls[i]
		if s := (shape{m.N, m.K}); !seen[s] {
			seen[s] = true
			list = append(list, m)
		}
	}
	return list
}
