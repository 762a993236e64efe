package target

import (
	"bytes"
	"context"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

func TestWeightsAreTheModelInOrder(t *testing.T) {
	c := openCPU(t, nil)
	format := formatI2S(t)
	layer := odd.Layer()
	if got, want := len(c.weights.matmuls), odd.Layers*len(layer); got != want {
		t.Fatalf("%d matmuls, want %d", got, want)
	}
	offset := 0
	seen := make(map[string]int)
	for i, w := range c.weights.matmuls {
		want := layer[i%len(layer)]
		if w.N != want.N || w.K != want.K {
			t.Errorf("matmul %d is %d x %d, want %s of %d x %d", i, w.N, w.K, want.Role, want.N, want.K)
		}
		if &w.Data[0] != &c.weights.memory.Bytes[offset] {
			t.Errorf("matmul %d does not follow the one before in memory", i)
		}
		offset += matrixBytes(format, want)
		if first, twice := seen[string(w.Data)]; twice {
			t.Errorf("matmuls %d and %d have the same weights", first, i)
		}
		seen[string(w.Data)] = i
		codes := make([]int8, w.N*w.K)
		format.Unpack(codes, w.Data, w.N, w.K)
		count := make(map[int8]int)
		for _, code := range codes {
			count[code]++
		}
		for code := int8(-1); code <= 1; code++ {
			// Each has a share of 5/16 or more; 1/5 is more than 6 sigma away for the smallest matrix, 1e-9 per run.
			if count[code] < len(codes)/5 || len(count) != 3 {
				t.Errorf("matmul %d: %v of %d weights, want about a third each of -1, 0 and 1", i, count, len(codes))
			}
		}
	}
	again := openCPU(t, nil)
	if !bytes.Equal(c.weights.memory.Bytes, again.weights.memory.Bytes) {
		t.Error("the same seed drew other weights")
	}
}

func TestSamplesAreOfTheLastLayer(t *testing.T) {
	c := openCPU(t, nil)
	matmuls := c.weights.matmuls
	samples := c.weights.samples()
	if len(samples) != len(odd.Shapes) {
		t.Fatalf("%d samples of %d shapes", len(samples), len(odd.Shapes))
	}
	if samples[0] != matmuls[len(matmuls)-1] {
		t.Error("the last matmul of a pass, whose outputs stay, is no sample")
	}
}

func TestSharesAreAllBytes(t *testing.T) {
	format := formatI2S(t)
	for _, n := range []int{1, 16, 17, 100, 640, 2560} {
		for _, workers := range []int{1, 2, 3, 16} {
			w := &kernels.Packed{N: n, K: 70, Data: make([]byte, format.Bytes(n, 70))}
			for worker := range workers {
				for i := range share(w, workers, worker) {
					share(w, workers, worker)[i]++
				}
			}
			for i, times := range w.Data {
				if times != 1 {
					t.Fatalf("N %d, %d workers: byte %d of %d is in %d shares", n, workers, i, len(w.Data), times)
				}
			}
		}
	}
}

// TestPacedWeightsAreTheSame: made layer by layer, with rests, they are what they are without; and the arms of a paced run
// give way between matmuls and are right.
func TestPacedWeightsAreTheSame(t *testing.T) {
	rests := 0
	p := &measure.Pacer{Ask: func(context.Context) (bool, error) { rests++; return true, nil }}
	paced := measure.WithPacer(t.Context(), p)
	var held [2]*CPU
	for i, ctx := range []context.Context{t.Context(), paced} {
		c, err := NewCPU(ctx, localHost(t), odd, CPUOptions{Layout: kernels.I2S, Seed: 7})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held[i] = c
	}
	if rests != odd.Layers {
		t.Errorf("%d rests for %d layers", rests, odd.Layers)
	}
	if !bytes.Equal(held[0].weights.memory.Bytes, held[1].weights.memory.Bytes) {
		t.Error("the weights differ")
	}
	s, err := held[1].Prepare(paced, Prefill, Arm{Layout: kernels.I2S, Kernel: "mul/i2s/generic", Threads: held[1].maxThreads(), Batch: 64})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(paced, 3); err != nil {
		t.Error(err)
	}
}
