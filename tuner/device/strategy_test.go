package device

import (
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/memory"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
)

// of is the needs of an imagined model.
func of(modelBytes, working, operations uint64) Requirements {
	return Requirements{Model: "imagined", Batch: 1, Layout: "i2s", ModelBytes: Figure{Value: modelBytes, Basis: Estimate}, Working: Figure{Value: working, Basis: Estimate}, Operations: Figure{Value: operations, Basis: Estimate}}
}

// free is a GPU with exactly that much available: the reserve of the moment is a tenth of the total.
func free(available, total uint64) gpu.Survey {
	s := cards(total)
	s.GPUs[0].FreeBytes = available + total/10
	return s
}

func TestStrategy(t *testing.T) {
	const model, work = 2000 * mib, 100 * mib
	off := cards(80 * gib)
	off.GPUs[0].Trouble = "lost"
	large := of(5000*mib, work, 2000)
	for name, c := range map[string]struct {
		host  probe.Host
		gpus  gpu.Survey
		needs Requirements
		want  Strategy
		limit Limit
	}{
		// R0.10: available memory of the GPU against model and working memory.
		"R0.10 fits exactly":            {plain(16, 64*gib), free(model+work, 10*gib), of(model, work, 2000), GPUOnly, LimitNone},
		"R0.10 one byte short":          {plain(16, 64*gib), free(model+work-1, 10*gib), of(model, work, 2000), CPUOnly, LimitGPUMemory},
		"R0.10 not usable":              {plain(16, 64*gib), off, of(model, work, 2000), CPUOnly, LimitGPU},
		"R0.10 memory unknown":          {plain(16, 64*gib), cards(0), of(model, work, 2000), CPUOnly, LimitGPU},
		"R0.11 at the model size":       {plain(16, 64*gib), cards(80 * gib), of(1024*mib, work, 1000), GPUOnly, LimitNone},
		"R0.11 below the model size":    {plain(16, 64*gib), cards(80 * gib), of(1024*mib-1, work, 1000), CPUOnly, LimitModel},
		"R0.11 above the operations":    {plain(16, 64*gib), cards(80 * gib), of(mib, work, 1001), GPUOnly, LimitNone},
		"R0.11 few cores":               {plain(8, 64*gib), cards(80 * gib), of(mib, work, 1000), GPUOnly, LimitNone},
		"R0.11 one core too many":       {plain(9, 64*gib), cards(80 * gib), of(mib, work, 1000), CPUOnly, LimitModel},
		"R0.12 shared":                  {plain(16, 64*gib), cards(4 * gib), large, Hybrid, LimitGPUMemory},
		"R0.12 at the model size":       {plain(16, 64*gib), cards(4 * gib), of(4096*mib, work, 2000), CPUOnly, LimitGPUMemory},
		"R0.12 above the model size":    {plain(16, 64*gib), cards(4 * gib), of(4096*mib+1, work, 2000), Hybrid, LimitGPUMemory},
		"R0.12 memory too small":        {plain(16, 5*gib), cards(4 * gib), large, CPUOnly, LimitGPUMemory},
		"R0.12 no GPU":                  {plain(16, 64*gib), noGPU, large, CPUOnly, LimitGPU},
		"R0.12 a GPU that is unusable":  {plain(16, 64*gib), off, large, CPUOnly, LimitGPU},
		"R0.13 no GPU":                  {plain(16, 64*gib), noGPU, of(model, work, 2000), CPUOnly, LimitGPU},
		"R0.31 no GPU and no reason":    {plain(16, 64*gib), gpu.Survey{}, of(model, work, 2000), CPUOnly, LimitGPU},
		"R0.11 quota makes cores few":   {quota(64, 4), cards(80 * gib), of(mib, work, 1000), GPUOnly, LimitNone},
		"R0.10 available, not total":    {plain(16, 64*gib), free(mib, 80*gib), of(model, work, 2000), CPUOnly, LimitGPUMemory},
		"R0.10 free is not available":   {plain(16, 64*gib), cards(2101 * mib), of(model, work, 2000), CPUOnly, LimitGPUMemory},
		"R0.11 more cores with no need": {plain(64, 64*gib), cards(80 * gib), of(mib, work, 1), CPUOnly, LimitModel},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(t, c.host, c.gpus, c.needs, Options{})
			if d.Strategy.Value != c.want || d.Strategy.Limit != c.limit {
				t.Errorf("got %s, limited by %s (%s), want %s by %s", d.Strategy.Value, d.Strategy.Limit, d.Strategy.Reason, c.want, c.limit)
			}
		})
	}
}

// quota is a host of many cores of which a container may use few.
func quota(cores, usable int) probe.Host {
	h := plain(cores, 64*gib)
	h.CPU.UsablePhysical, h.CPU.UsableCores, h.Cgroup.QuotaCPUs = usable, usable, float64(usable)+0.5
	return h
}

// R0.10, R0.14: the first GPU that fits is selected, and fraction, batch and workspace go by it.
func TestTheSelectedGPUIsTheOneThatCounts(t *testing.T) {
	s := cards(80*gib, 80*gib, 16*gib)
	s.GPUs[0].FreeBytes = 9 * gib // 1 GiB beside the reserve
	s.GPUs[1].Trouble = "ECC error"
	r := of(3*gib, 2*gib, 2000)
	d := decide(t, plain(16, 64*gib), s, r, Options{})
	if d.Strategy.Value != GPUOnly || d.Device.Value != "GPU-c" {
		t.Fatalf("%s on %+v, want gpu_only on GPU-c", d.Strategy.Value, d.Device)
	}
	if d.Batch.Value != 4 { // 8 sequences take 16 of the 14.2 GiB available
		t.Errorf("batch %d, want 4: that of the GPU of 16 GiB", d.Batch.Value)
	}
	if want := 11. / 16 / 0.9; d.GPUMemoryFraction.Value != want {
		t.Errorf("fraction %v, want %v: of the GPU of 16 GiB", d.GPUMemoryFraction.Value, want)
	}
}

// R0.14: a hybrid uses the usable GPU with the most memory available.
func TestAHybridTakesTheRoomiest(t *testing.T) {
	s := cards(4*gib, 8*gib, 24*gib)
	s.GPUs[2].Trouble = "lost"
	d := decide(t, plain(16, 256*gib), s, of(50*gib, gib, 2000), Options{})
	if d.Strategy.Value != Hybrid || d.Device.Value != "GPU-b" || d.GPUMemoryFraction.Value != 0.95 {
		t.Errorf("%s on %+v with %+v, want hybrid on GPU-b with 0.95", d.Strategy.Value, d.Device, d.GPUMemoryFraction)
	}
}

// R0.10: what the caller cannot run is not advised, and the reason says that it would have been.
func TestWhatTheCallerCannotRunIsNotAdvised(t *testing.T) {
	opt := Options{Runs: []Strategy{CPUOnly}, Missing: "this build has no GPU kernels"}
	for name, c := range map[string]struct {
		gpus  gpu.Survey
		needs Requirements
	}{
		"gpu_only": {cards(80 * gib), of(2*gib, gib, 2000)},
		"hybrid":   {cards(4 * gib), of(8*gib, gib, 2000)},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(t, plain(16, 64*gib), c.gpus, c.needs, opt)
			if d.Strategy.Value != CPUOnly || d.Strategy.Limit != LimitBuild || !strings.Contains(d.Strategy.Reason, opt.Missing) {
				t.Errorf("got %+v", d.Strategy)
			}
		})
	}
}

// R0.3, R0.7, RX.1: what a GPU has available is the driver's answer less cuda/memory's reserve, unknown stays unknown.
func TestGPUsAreAsTheDriverSays(t *testing.T) {
	s := gpu.Survey{GPUs: []gpu.GPU{{UUID: "GPU-1", Name: "NVIDIA H200", Memory: gpu.Memory{TotalBytes: 141 * gib, FreeBytes: 100 * gib}, Utilization: 0.3}}}
	f := decide(t, plain(16, 64*gib), s, of(gib, gib, 2000), Options{}).Facts
	got := f.GPUs[0]
	if want := memory.Defaults.Available(s.GPUs[0].Memory); got.AvailableBytes != want || got.TotalBytes != 141*gib {
		t.Errorf("available %d of %d, want %d", got.AvailableBytes, got.TotalBytes, want)
	}
	if got.Name != "NVIDIA H200" || got.ID != "GPU-1" || got.Capability != (gpu.Capability{}) || got.BandwidthBytes != 0 || !got.Usable {
		t.Errorf("got %+v", got)
	}
	if f.Load.GPUs["GPU-1"] != 0.3 {
		t.Errorf("load of the GPUs %v, want 0.3", f.Load.GPUs)
	}
	half := memory.Defaults
	half.ReserveShare = 0.5
	d := decide(t, plain(16, 64*gib), s, of(gib, gib, 2000), Options{Memory: &half})
	if want := half.Available(s.GPUs[0].Memory); d.Facts.GPUs[0].AvailableBytes != want {
		t.Errorf("with another reserve %d available, want %d", d.Facts.GPUs[0].AvailableBytes, want)
	}
}

// R0.2, R0.4, R0.6, R0.9: cores and memory within the limits of captured containers, their load and their features.
func TestFactsOfCapturedHosts(t *testing.T) {
	for name, c := range map[string]struct {
		arch             string
		cores, logical   int
		total, available uint64
		load             float64
		features         probe.Feature
	}{
		"container-quota-1.5":       {"amd64", 1, 1, 4 * gib, 2952790016, 0.75, probe.AVX | probe.AVX2},
		"container-cgroup1":         {"amd64", 2, 2, gib, 549453824, 0.02, probe.AVX | probe.AVX2},
		"server-2-sockets-64-cores": {"amd64", 64, 128, 527986104 << 10, 498123456 << 10, 3.2 / 128, probe.AVX | probe.AVX2 | probe.AVX512 | probe.AVX512VNNI},
		"server-arm64":              {"arm64", 9, 9, 16 * gib, 0, 0, probe.NEON | probe.DotProd | probe.I8MM},
	} {
		t.Run(name, func(t *testing.T) {
			m := captured(t, name, c.arch)
			f := decide(t, m.host, m.gpus, of(gib, gib, 2000), Options{}).Facts
			if f.PhysicalCores != c.cores || f.LogicalCores != c.logical || f.TotalBytes != c.total {
				t.Errorf("%d physical, %d logical cores, %d bytes, want %d, %d, %d", f.PhysicalCores, f.LogicalCores, f.TotalBytes, c.cores, c.logical, c.total)
			}
			if c.available > 0 && f.AvailableBytes != c.available || f.AvailableBytes > f.TotalBytes {
				t.Errorf("%d bytes available of %d, want %d", f.AvailableBytes, f.TotalBytes, c.available)
			}
			if c.load > 0 && (f.Load.CPU < c.load-0.01 || f.Load.CPU > c.load+0.01) {
				t.Errorf("load %.3f, want %.3f", f.Load.CPU, c.load)
			}
			if used := 1 - float64(f.AvailableBytes)/float64(f.TotalBytes); f.Load.Memory < used-0.01 || f.Load.Memory > used+0.01 {
				t.Errorf("memory %.2f in use, want %.2f", f.Load.Memory, used)
			}
			if !f.Features.Has(c.features) {
				t.Errorf("features %s lack some of %s", f.Features, c.features)
			}
		})
	}
}
