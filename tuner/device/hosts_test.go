package device

import (
	"path/filepath"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

const gib = 1 << 30

// machine is a host with its GPUs, captured or modelled.
type machine struct {
	name string
	what string
	host probe.Host
	gpus gpu.Survey
}

// noGPU is what a look for GPUs finds on most hosts.
var noGPU = gpu.Survey{Note: "libnvidia-ml.so.1 is not installed"}

// machines are the rows of decisions.golden.
func machines(t testing.TB) []machine {
	t.Helper()
	desktop, server := plain(16, 64*gib), plain(128, 1024*gib)
	server.CPU.NUMANodes = 2
	busy, tight, small := desktop, desktop, plain(4, 16*gib)
	busy.Load.CPUUtilization = 0.7
	tight.Memory.AvailableBytes = 2 * gib
	list := []machine{
		{"vm-2-cores", "a virtual machine with 2 cores and 8 GiB", plain(2, 8*gib), noGPU},
		captured(t, "vm-without-caches", "amd64"),
		captured(t, "vm-zen4", "amd64"),
		captured(t, "container-quota-1.5", "amd64"),
		captured(t, "container-cgroup1", "amd64"),
		{"desktop", "16 cores, 64 GiB", desktop, noGPU},
		captured(t, "desktop-offline-cpus", "amd64"),
		captured(t, "laptop-hybrid", "amd64"),
		captured(t, "server-2-sockets-64-cores", "amd64"),
		{"server-2x64", "two sockets of 64 cores, 1 TiB", server, noGPU},
		captured(t, "server-arm64", "arm64"),
		captured(t, "board-big-little", "arm64"),
		{"desktop-busy", "the desktop, its CPUs 70 % busy", busy, noGPU},
		{"desktop-tight", "the desktop, with 2 GiB of memory available", tight, noGPU},
		{"unknown", "a host that could not be analysed", probe.Host{}, gpu.Survey{}},
	}
	for _, size := range []uint64{2, 4, 8, 16, 24, 48, 80, 141} {
		name := map[uint64]string{2: "gpu-2", 4: "gpu-4", 8: "gpu-8", 16: "gpu-16", 24: "gpu-24", 48: "gpu-48", 80: "gpu-80", 141: "gpu-141"}[size]
		list = append(list, machine{name, "the desktop with a GPU of that many GiB", desktop, cards(size * gib)})
	}
	full := cards(24 * gib)
	full.GPUs[0].FreeBytes = 3 * gib
	broken := cards(24 * gib)
	broken.GPUs[0].Trouble = "libcuda.so.1 is not installed"
	return append(list,
		machine{"gpu-8x80", "the server with eight GPUs of 80 GiB, the first two in use", server, inUse(cards(80*gib, 80*gib, 80*gib, 80*gib, 80*gib, 80*gib, 80*gib, 80*gib), 2)},
		machine{"gpu-full", "the desktop with a GPU of 24 GiB, 3 GiB of them free", desktop, full},
		machine{"gpu-broken", "the desktop with a GPU of 24 GiB that cannot be used", desktop, broken},
		machine{"gpu-4-small-host", "4 cores and 16 GiB with a GPU of 4 GiB", small, cards(4 * gib)},
	)
}

// captured is a machine of the probe's own tests.
func captured(t testing.TB, name, arch string) machine {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("../../probe/testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	tree := make(fstest.MapFS)
	for _, f := range archive.Files {
		tree[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	h, err := probe.Read(tree, probe.Inputs{Arch: arch})
	if err != nil {
		t.Fatal(err)
	}
	return machine{name, "captured: probe/testdata", h, noGPU}
}

// plain is an idle host of one socket without limits.
func plain(cores int, memory uint64) probe.Host {
	return probe.Host{
		CPU:    probe.CPU{PhysicalCores: cores, LogicalCores: 2 * cores, UsablePhysical: cores, UsableCores: 2 * cores, NUMANodes: 1, Features: probe.AVX | probe.AVX2},
		Memory: probe.Memory{TotalBytes: memory, LimitBytes: memory, AvailableBytes: memory / 16 * 15},
		Load:   probe.Load{MemoryUtilization: 1. / 16},
	}
}

// cards are idle GPUs, of which the driver keeps 1 %.
func cards(total ...uint64) gpu.Survey {
	var s gpu.Survey
	for i, bytes := range total {
		s.GPUs = append(s.GPUs, gpu.GPU{Index: i, UUID: "GPU-" + string(rune('a'+i)), Name: "modelled", ComputeCapability: gpu.Capability{Major: 8, Minor: 6},
			Memory: gpu.Memory{TotalBytes: bytes, FreeBytes: bytes / 100 * 99}})
	}
	return s
}

// inUse leaves 2 % of the first n GPUs free.
func inUse(s gpu.Survey, n int) gpu.Survey {
	for i := range n {
		s.GPUs[i].FreeBytes, s.GPUs[i].Utilization = s.GPUs[i].TotalBytes/50, 0.97
	}
	return s
}

// models are the columns of decisions.golden; the last is one that could not be analysed.
func models(t testing.TB) []model.Model {
	t.Helper()
	var list []model.Model
	for _, name := range []string{"bitnet-b1.58-large", "bitnet-b1.58-2b-4t", "llama3-8b-1.58", "falcon3-10b-1.58", "bitnet-embedding-270m"} {
		list = append(list, preset(t, name))
	}
	return append(list, large, model.Model{})
}

// large is a ternary model of the shapes of Llama 3 70B, larger than any preset.
var large = model.Model{
	Name: "modelled-70b", Source: "preset", Family: model.TextGeneration, Layers: 80, Hidden: 8192, FFN: 28672, Heads: 64, KVHeads: 8, HeadDim: 128, Vocab: 128256,
	Shapes: []model.Shape{{N: 8192, K: 8192, Count: 160, Roles: "q,o"}, {N: 1024, K: 8192, Count: 160, Roles: "k,v"},
		{N: 28672, K: 8192, Count: 160, Roles: "gate,up"}, {N: 8192, K: 28672, Count: 80, Roles: "down"}},
	EmbeddingBytes: 2 * 128256 * 8192, HeadBytes: 2 * 128256 * 8192,
}

func preset(t testing.TB, name string) model.Model {
	t.Helper()
	m, ok := model.Preset(name)
	if !ok {
		t.Fatalf("no preset %s", name)
	}
	return m
}

// decide is Decide for options that make sense.
func decide(t testing.TB, h probe.Host, s gpu.Survey, r Requirements, opt Options) Decision {
	t.Helper()
	d, err := Decide(h, s, r, opt)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
