package memory

import (
	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
)

// Properties are facts about a device. What the driver does not tell is nil, not 0.
type Properties struct {
	Name                   string         `json:"name"` // "" unknown
	UUID                   string         `json:"uuid"`
	ComputeCapability      gpu.Capability `json:"compute_capability"`
	MaxThreadsPerBlock     *int           `json:"max_threads_per_block"`
	MaxThreadsPerMultiproc *int           `json:"max_threads_per_multiprocessor"`
	Multiprocessors        *int           `json:"multiprocessors"`
	MemoryClockKHz         *int           `json:"memory_clock_khz"`
	MemoryBusBits          *int           `json:"memory_bus_bits"`
	ConstantBytes          *int           `json:"constant_memory_bytes"`
	SharedBytesPerBlock    *int           `json:"shared_memory_per_block_bytes"`
	UnifiedAddressing      *bool          `json:"unified_addressing"`
}

func properties(d *driver.Device) Properties {
	number := func(a driver.Attribute) *int {
		if v, known := d.Attribute(a); known {
			return &v
		}
		return nil
	}
	p := Properties{
		Name: d.Name(), UUID: d.UUID(),
		MaxThreadsPerBlock:     number(driver.MaxThreadsPerBlock),
		MaxThreadsPerMultiproc: number(driver.MaxThreadsPerMultiproc),
		Multiprocessors:        number(driver.MultiprocessorCount),
		MemoryClockKHz:         number(driver.MemoryClockRateKHz),
		MemoryBusBits:          number(driver.MemoryBusWidthBits),
		ConstantBytes:          number(driver.TotalConstantMemory),
		SharedBytesPerBlock:    number(driver.MaxSharedMemoryPerBlock),
	}
	if major, minor, known := d.Capability(); known {
		p.ComputeCapability = gpu.Capability{Major: major, Minor: minor}
	}
	if v, known := d.Attribute(driver.UnifiedAddressing); known {
		unified := v != 0
		p.UnifiedAddressing = &unified
	}
	return p
}
