package main

import (
	"math"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

func machineOf(t *testing.T, name string) machine {
	t.Helper()
	for _, m := range machines {
		if m.name == name {
			return m
		}
	}
	t.Fatalf("no machine %s", name)
	return machine{}
}

func big(t *testing.T) model.Model {
	t.Helper()
	m, ok := model.Preset("falcon3-10b-1.58")
	if !ok {
		t.Fatal("no such preset")
	}
	return m
}

// decode is an arm of two bits a weight that waits for memory only.
func decode(threads int) target.Arm {
	return target.Arm{Layout: kernels.I2S, Kernel: "mul/i2s/avx512vnni", Threads: threads, Batch: 1,
		Blocking: kernels.Blocking{Tile: kernels.Tile{Groups: 4, Tokens: 1}, PrefetchBytes: 8 << 10}}
}

// No arm reads faster than the cores or the memory that the figures describe.
func TestMachinesKeepWithinTheirBandwidth(t *testing.T) {
	m := big(t)
	var bytes float64
	format, _ := kernels.FormatOf(kernels.I2S)
	for _, s := range m.Shapes {
		bytes += float64(s.Count * format.Bytes(s.N, s.K))
	}
	for _, host := range machines {
		for threads := 1; threads <= host.host().CPU.UsableCores; threads++ {
			cores := min(threads, host.cores*host.nodes)
			limit := math.Min(float64(cores)*host.core, float64(host.nodes)*host.node)
			if got := bytes / host.cost(m, decode(threads)); got > limit*1.0001 {
				t.Errorf("%s: %d threads read %.1f GB/s; want at most %.1f", host.name, threads, got, limit)
			}
		}
	}
}

// The shapes for which the machines are there.
func TestMachinesScaleAsTheirHostsDo(t *testing.T) {
	m := big(t)
	best := func(host machine) int {
		fastest, at := math.Inf(1), 0
		for threads := 1; threads <= host.host().CPU.UsableCores; threads++ {
			if cost := host.cost(m, decode(threads)); cost < fastest {
				fastest, at = cost, threads
			}
		}
		return at
	}
	t.Run("bandwidth saturates before the cores are all busy", func(t *testing.T) {
		// The host of the source had most tokens with about 60 of 192 threads.
		if got := best(machineOf(t, "epyc-9654")); got < 16 || got > 96 {
			t.Errorf("best with %d threads; want 16 to 96", got)
		}
	})
	t.Run("a quota throttles what is beyond it", func(t *testing.T) {
		if got := best(machineOf(t, "epyc-9654-quota-12")); got < 8 || got > 12 {
			t.Errorf("best with %d threads; want 8 to 12", got)
		}
	})
	t.Run("one node of two waits for the link", func(t *testing.T) {
		host := machineOf(t, "2x-icelake")
		one, both := host.cost(m, decode(host.cores)), host.cost(m, decode(2*host.cores))
		if one < 1.5*both {
			t.Errorf("one node %.0f ns, both %.0f; want one to take at least half as long again", one, both)
		}
	})
	t.Run("chunks help where cores differ", func(t *testing.T) {
		host := machineOf(t, "hybrid-8+16")
		prompt := target.Arm{Layout: kernels.I2S, Kernel: "mul/i2s/avxvnni", Threads: 24, Batch: 128, Blocking: kernels.Blocking{Tile: kernels.Tile{Groups: 4, Tokens: 4}}}
		gate := model.Shape{N: 23040, K: 3072}
		shares := host.matmul(gate, prompt)
		prompt.Blocking.ChunkRows = 256
		if chunks := host.matmul(gate, prompt); chunks > 0.9*shares {
			t.Errorf("chunks %.0f ns, shares %.0f; want chunks to be a tenth faster at the least", chunks, shares)
		}
	})
}

// Every machine has a space of the tuner, in which everything costs something; in most something is better than the default.
// Prefill, of which the spaces are large, is left to the command.
func TestMachinesAreFields(t *testing.T) {
	better := 0
	for _, m := range machines {
		l, err := m.live(big(t), target.Decode)
		if err != nil {
			t.Fatal(err)
		}
		for i, truth := range l.Truth {
			if !(truth > 0) || math.IsInf(truth, 1) {
				t.Fatalf("%s: point %v costs %v", m.name, l.Space.At(i), truth)
			}
		}
		if l.Regret(l.Default) > near {
			better++
		}
	}
	if better < len(machines)/2 {
		t.Errorf("the default is near the best on %d of %d machines; want more to search for", len(machines)-better, len(machines))
	}
}
