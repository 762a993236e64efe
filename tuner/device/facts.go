package device

import (
	"fmt"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/memory"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
)

// Facts is what a decision rests on: what this process may use of the host, and what its GPUs have free.
type Facts struct {
	PhysicalCores   int           `json:"physical_cores"` // within affinity, cpuset and quota
	LogicalCores    int           `json:"logical_cores"`  // likewise
	Quota           float64       `json:"quota_cpus,omitempty"`
	TotalBytes      uint64        `json:"memory_total_bytes"` // within the cgroup's limit; 0 unknown
	AvailableBytes  uint64        `json:"memory_available_bytes"`
	Features        probe.Feature `json:"features"`
	Load            Load          `json:"load"`
	SystemBandwidth Figure        `json:"system_bandwidth"` // bytes per second
	GPUs            []Card        `json:"gpus"`
	GPUNote         string        `json:"gpu_note,omitempty"` // why there are none
	Unread          []string      `json:"unread,omitempty"`   // what the probe could not read, a sentence each
}

// Load is how busy host and GPUs are, each from 0 to 1.
type Load struct {
	CPU    float64            `json:"cpu"`
	Memory float64            `json:"memory"`
	GPUs   map[string]float64 `json:"gpus,omitempty"` // by device id
}

// Card is a GPU as the rules see it.
type Card struct {
	ID             string         `json:"id"` // UUID, or "gpu 0" where the driver tells none
	Index          int            `json:"index"`
	Name           string         `json:"name"`
	TotalBytes     uint64         `json:"memory_total_bytes"`
	FreeBytes      uint64         `json:"memory_free_bytes"`
	AvailableBytes uint64         `json:"memory_available_bytes"` // free without the reserve of the moment
	Capability     gpu.Capability `json:"compute_capability"`
	BandwidthBytes uint64         `json:"memory_bandwidth_bytes_per_second,omitempty"`
	Usable         bool           `json:"usable"`
	Trouble        string         `json:"trouble,omitempty"` // why it is not usable
}

// look gathers the facts, and names what had to be defaulted.
func look(h probe.Host, s gpu.Survey, c Constants, mem memory.Constants, known Measurements) (f Facts, defaulted []string) {
	f = Facts{PhysicalCores: h.CPU.UsablePhysical, LogicalCores: h.CPU.UsableCores, Quota: h.Cgroup.QuotaCPUs,
		TotalBytes: h.Memory.LimitBytes, AvailableBytes: h.Memory.AvailableBytes, Features: h.CPU.Features,
		Load: Load{CPU: clamp(h.Load.CPUUtilization, 0, 1), Memory: clamp(h.Load.MemoryUtilization, 0, 1)}, GPUNote: s.Note, Unread: h.Warnings}
	if f.PhysicalCores < 1 {
		f.PhysicalCores, defaulted = 1, append(defaulted, "cores")
	}
	f.LogicalCores = max(f.LogicalCores, f.PhysicalCores)
	if f.TotalBytes == 0 {
		f.TotalBytes = h.Memory.TotalBytes
	}
	if f.AvailableBytes == 0 {
		defaulted = append(defaulted, "memory")
	}
	f.SystemBandwidth = Figure{Value: known.ReadBandwidth, Basis: Measured}
	if known.ReadBandwidth == 0 {
		nodes := uint64(max(h.CPU.NUMANodes, 1))
		f.SystemBandwidth = Figure{Value: times(nodes, c.NodeBandwidth), Basis: Estimate, Reason: fmt.Sprintf("NUMA nodes: %d", nodes)}
	}
	for _, g := range s.GPUs {
		card := cardOf(g, mem)
		f.GPUs = append(f.GPUs, card)
		if f.Load.GPUs == nil {
			f.Load.GPUs = map[string]float64{}
		}
		f.Load.GPUs[card.ID] = clamp(g.Utilization, 0, 1)
	}
	return f, defaulted
}

func cardOf(g gpu.GPU, mem memory.Constants) Card {
	c := Card{ID: g.UUID, Index: g.Index, Name: g.Name, TotalBytes: g.TotalBytes, FreeBytes: g.FreeBytes, AvailableBytes: mem.Available(g.Memory),
		Capability: g.ComputeCapability, BandwidthBytes: g.BandwidthBytes, Trouble: g.Trouble}
	if c.ID == "" {
		c.ID = fmt.Sprintf("gpu %d", g.Index)
	}
	if c.Trouble == "" && g.TotalBytes == 0 {
		c.Trouble = "its memory is unknown"
	}
	c.Usable = c.Trouble == ""
	return c
}

// clamp is v within low and high; low for what is no number.
func clamp(v, low, high float64) float64 {
	if !(v > low) {
		return low
	}
	return min(v, high)
}
