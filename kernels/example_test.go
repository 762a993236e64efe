package kernels_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// Engine is what the layers of a model share: one pool of workers, and the two settings that were learned for the host.
// A Pool serves one goroutine at a time, and so does an Engine. An engine with several requests at once puts their tokens
// into one batch, which reads the weights once for all; or it has several Engines, each on CPUs of its own and with layers
// of its own over the same Packed weights, which nobody writes to any more.
type Engine struct {
	Pool            *kernels.Pool
	Quantize        func(a *kernels.Activations, x []float32)
	Decode, Prefill Setting
}

// Setting is how batches of one kind are multiplied. The example of package tuner takes it from what was learned.
type Setting struct {
	Kernel   kernels.Kernel
	Blocking kernels.Blocking
}

// Linear is a BitNet linear layer without its norm. Its buffers grow to the largest batch, and stay.
type Linear struct {
	weights *kernels.Packed
	tokens  kernels.Activations
	sums    []int32
}

// NewLinear packs n x k ternary codes, row by row, of which a 1 stands for scale. The codes of a GGUF file are what
// File.Ternary of package model returns.
func NewLinear(layout kernels.Layout, codes []int8, scale float32, n, k int) (*Linear, error) {
	weights, err := kernels.Pack(layout, codes, n, k, nil)
	if err != nil {
		return nil, err
	}
	weights.Scale = scale
	return &Linear{weights: weights}, nil
}

// Forward sets y, m tokens of N, to the product of the weights and x, m tokens of K.
func (l *Linear) Forward(e *Engine, y, x []float32, m int) {
	n, k := l.weights.N, l.weights.K
	if l.tokens.M != m {
		l.tokens.Resize(m, k)
	}
	if cap(l.sums) < m*n {
		l.sums = make([]int32, m*n)
	}
	l.sums = l.sums[:m*n]
	setting := &e.Prefill
	if m == 1 {
		setting = &e.Decode
	}
	e.Quantize(&l.tokens, x)
	e.Pool.Mul(&setting.Kernel, l.sums, l.weights, &l.tokens, setting.Blocking)
	for i := range m {
		scale := l.weights.Scale / l.tokens.Scale[i]
		for j, sum := range l.sums[i*n : (i+1)*n] {
			y[i*n+j] = float32(sum) * scale
		}
	}
}

// A BitNet linear layer: float32 tokens are quantised, multiplied by ternary weights, and scaled back.
func Example() {
	host, err := probe.Local(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	const layout = kernels.Layout("i2s")
	var widest kernels.Kernel // nothing was learned: the widest kernel that the host can run, as it blocks by default
	for _, k := range kernels.Usable(host.CPU.Features) {
		if k.Layout == layout && k.Needs >= widest.Needs {
			widest = k
		}
	}
	pool, err := kernels.NewPool(host.CPU.CPUs[:1])
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	engine := &Engine{
		Pool: pool, Quantize: kernels.Quantizer(host.CPU.Features),
		Decode: Setting{Kernel: widest}, Prefill: Setting{Kernel: widest},
	}

	layer, err := NewLinear(layout, []int8{
		1, 0, -1, 1,
		0, 1, 1, 0,
		-1, -1, 0, 1,
	}, 0.5, 3, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	x := []float32{
		1, 0.5, -0.25, 0,
		-2, 0, 4, 4,
	}
	y := make([]float32, 2*3)
	layer.Forward(engine, y, x, 2) // in floats [0.625 0.125 -0.75] [-1 2 3]
	fmt.Printf("%.2f %.2f\n", y[:3], y[3:])
	layer.Forward(engine, y[:3], x[4:], 1)
	fmt.Printf("%.2f\n", y[:3])

	calls := testing.AllocsPerRun(10, func() { layer.Forward(engine, y[:3], x[:4], 1) })
	fmt.Println(calls, "allocations per call")
	// Output:
	// [0.63 0.13 -0.75] [-1.01 2.00 3.01]
	// [-1.01 2.00 3.01]
	// 0 allocations per call
}
