package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
)

// Device is something that models can be placed on.
type Device struct {
	Place       `json:"-"`
	ID          string `json:"device"` // "cuda:0", "cpu"
	UUID        string `json:"uuid,omitempty"`
	ProductName string `json:"name,omitempty"`
	TotalBytes  uint64 `json:"memory_total_bytes"`
	// RoomBytes is what may be given out now: what is free, less what is kept in reserve.
	RoomBytes uint64 `json:"memory_room_bytes"`
	// Bandwidth is how fast it reads its memory, in bytes per second.
	Bandwidth device.Figure `json:"memory_bandwidth_bytes_per_second"`
	// Trouble is why it cannot be used; "" = it can.
	Trouble string `json:"trouble,omitempty"`
}

// Devices are the GPUs of a survey in the order of their indices, and last the CPU. GPUs of one index, which are instances
// of one card, get indices of their own; their UUIDs tell. measured is the read bandwidth of the
// CPU's memory, 0 = unknown.
func (r Rules) Devices(h probe.Host, s gpu.Survey, measured uint64) []Device {
	var list []Device
	for _, g := range s.GPUs {
		list = append(list, r.card(g))
	}
	slices.SortStableFunc(list, func(a, b Device) int { return cmp.Compare(a.Index, b.Index) })
	renumber(list)
	return append(list, r.host(h, measured))
}

// renumber gives each device an index of its own: the instances of a card that MIG splits have that of the card. The first
// keeps it, each other takes the next that no card has.
func renumber(list []Device) {
	taken, seen := map[int]bool{}, map[int]bool{}
	for _, d := range list {
		taken[d.Index] = true
	}
	next := 0
	for i := range list {
		d := &list[i]
		if seen[d.Index] {
			for taken[next] {
				next++
			}
			d.Index = next
			taken[next] = true
			d.ID = d.Place.String()
		}
		seen[d.Index] = true
	}
	slices.SortStableFunc(list, func(a, b Device) int { return cmp.Compare(a.Index, b.Index) })
}

// cardRoom is as much of a GPU as both limits leave: the reserve of the moment (R1.2) and the budget of the whole card (R4.4).
func (r Rules) cardRoom(m gpu.Memory) uint64 {
	return min(r.Memory.Available(m), r.Memory.Usable(m.TotalBytes))
}

func (r Rules) card(g gpu.GPU) Device {
	d := Device{Place: Place{CUDA, g.Index}, UUID: g.UUID, ProductName: g.Name, TotalBytes: g.TotalBytes, Trouble: g.Trouble}
	d.ID = d.Place.String()
	d.RoomBytes = r.cardRoom(g.Memory)
	if d.Trouble == "" && g.TotalBytes == 0 {
		d.Trouble = "its memory is unknown"
	}
	d.Bandwidth = device.Figure{Value: g.BandwidthBytes, Basis: device.Probe, Reason: "by the clock and width of its memory"}
	if g.BandwidthBytes == 0 {
		d.Bandwidth = device.Figure{Value: r.GPUBandwidth, Basis: device.Estimate, Reason: "unknown: taken for a small card"}
	}
	// A card that others keep busy has less to give. What a moment changes by less than a step changes no plan.
	if busy := math.Floor(min(g.Utilization, r.Device.MostLoad)/r.UsageStep) * r.UsageStep; busy > 0 {
		d.Bandwidth.Value = uint64(float64(d.Bandwidth.Value) * (1 - busy))
		d.Bandwidth.Reason += fmt.Sprintf(", %.0f %% of it in use", 100*busy)
	}
	return d
}

// host is the CPU, with the memory that the cgroup leaves.
func (r Rules) host(h probe.Host, measured uint64) Device {
	d := Device{Place: Place{Kind: CPU}, ID: string(CPU), ProductName: h.CPU.Model, TotalBytes: h.Memory.LimitBytes}
	if d.TotalBytes == 0 {
		d.TotalBytes = h.Memory.TotalBytes
	}
	reserve := uint64(float64(d.TotalBytes) * r.HostReserveShare)
	d.RoomBytes = h.Memory.AvailableBytes - min(h.Memory.AvailableBytes, reserve)
	d.Bandwidth = device.Figure{Value: measured, Basis: device.Measured, Reason: "measured on this host"}
	if measured == 0 {
		nodes := max(h.CPU.NUMANodes, 1)
		d.Bandwidth = device.Figure{Value: uint64(nodes) * r.Device.NodeBandwidth, Basis: device.Estimate, Reason: fmt.Sprintf("NUMA nodes: %d", nodes)}
	}
	if h.Memory.AvailableBytes == 0 {
		d.Trouble = "its available memory is unknown"
	}
	return d
}

// usable are the devices without trouble.
func usable(devices []Device) []Device {
	return slices.DeleteFunc(slices.Clone(devices), func(d Device) bool { return d.Trouble != "" })
}

// KindsOf are the kinds of the devices without trouble, and always the CPU.
func KindsOf(devices []Device) []Kind {
	var kinds []Kind
	for _, k := range Kinds {
		if k == CPU || slices.ContainsFunc(usable(devices), func(d Device) bool { return d.Kind == k }) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}
