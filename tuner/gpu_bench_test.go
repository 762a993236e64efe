package tuner

import (
	"errors"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/sim"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

func TestGPUBench(t *testing.T) {
	machine, err := sim.New(sim.Config{Devices: []sim.DeviceSpec{{TotalBytes: 1 << 30, BandwidthBytes: 1e12}}})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	tuner, err := Open(Options{
		Host: fourCores(), Now: func() time.Time { return begin.Add(machine.Now()) },
		CUDA: func() (*driver.Driver, error) { return driver.Open(machine.Table()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := tuner.RunGPUBench(t.Context(), GPUBenchOptions{
		Shapes: []kernels.Shape{{N: 48, K: 256}}, Tokens: []int{1, 8}, Spread: 1,
		Timer: &measure.Timer{MinSample: time.Nanosecond, WarmTime: time.Nanosecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Failed) > 0 || len(b.Rows) < 3*2 {
		t.Errorf("%d rows, failed %q: want at least one for each layout and batch", len(b.Rows), b.Failed)
	}
	for _, r := range b.Rows {
		if r.Median <= 0 || r.BytesPerS <= 0 || r.Samples != benchSamples || r.DistinctBytes == 0 {
			t.Errorf("row %+v: want a time and rates", r)
		}
	}
	if b.Copy < 0.5e12 || b.Copy > 1.5e12 {
		t.Errorf("copies %.2g bytes a second, want about the card's 1e12", b.Copy)
	}
	if a := b.Allocator; a.DirectNs <= 0 || a.QueryNs <= 0 || a.Saved < 0.5 {
		t.Errorf("allocator %+v: want the pool to save more than half", a)
	}
	if err := tuner.Close(); err != nil {
		t.Error(err)
	}
	if leaks := machine.Leaks(); len(leaks) > 0 {
		t.Errorf("left on the card: %q", leaks)
	}
	if _, err := quiet(flat).open(t, "", 1).RunGPUBench(t.Context(), GPUBenchOptions{}); !errors.Is(err, ErrNoGPU) {
		t.Errorf("without a GPU: %v", err)
	}
}
