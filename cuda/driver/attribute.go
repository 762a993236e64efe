package driver

import "strconv"

// Attribute is a property of a device: CUdevice_attribute.
type Attribute int32

// The attributes that are read.
const (
	MaxThreadsPerBlock       Attribute = 1
	MaxSharedMemoryPerBlock  Attribute = 8
	TotalConstantMemory      Attribute = 9
	WarpSize                 Attribute = 10
	MaxRegistersPerBlock     Attribute = 12
	ClockRateKHz             Attribute = 13
	MultiprocessorCount      Attribute = 16
	MemoryClockRateKHz       Attribute = 36
	MemoryBusWidthBits       Attribute = 37
	L2CacheBytes             Attribute = 38
	MaxThreadsPerMultiproc   Attribute = 39
	UnifiedAddressing        Attribute = 41
	CapabilityMajor          Attribute = 75
	CapabilityMinor          Attribute = 76
	MaxSharedPerMultiproc    Attribute = 81
	MaxRegistersPerMultiproc Attribute = 82
	MaxSharedPerBlockOptin   Attribute = 97
	VirtualMemorySupported   Attribute = 102
	MemoryPoolsSupported     Attribute = 115
)

// attributeNames are the attributes that Open reads, as they are printed.
var attributeNames = map[Attribute]string{
	MaxThreadsPerBlock:       "max_threads_per_block",
	MaxSharedMemoryPerBlock:  "max_shared_memory_per_block_bytes",
	TotalConstantMemory:      "constant_memory_bytes",
	WarpSize:                 "warp_size",
	MaxRegistersPerBlock:     "max_registers_per_block",
	ClockRateKHz:             "clock_khz",
	MultiprocessorCount:      "multiprocessors",
	MemoryClockRateKHz:       "memory_clock_khz",
	MemoryBusWidthBits:       "memory_bus_width_bits",
	L2CacheBytes:             "l2_cache_bytes",
	MaxThreadsPerMultiproc:   "max_threads_per_multiprocessor",
	UnifiedAddressing:        "unified_addressing",
	CapabilityMajor:          "compute_capability_major",
	CapabilityMinor:          "compute_capability_minor",
	MaxSharedPerMultiproc:    "max_shared_memory_per_multiprocessor_bytes",
	MaxRegistersPerMultiproc: "max_registers_per_multiprocessor",
	MaxSharedPerBlockOptin:   "max_shared_memory_per_block_optin_bytes",
	VirtualMemorySupported:   "virtual_memory_management",
	MemoryPoolsSupported:     "memory_pools",
}

// String returns the name, such as "multiprocessors".
func (a Attribute) String() string {
	if name, ok := attributeNames[a]; ok {
		return name
	}
	return "attribute_" + strconv.Itoa(int(a))
}

// MarshalText implements encoding.TextMarshaler.
func (a Attribute) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// FuncAttribute is a property of a function: CUfunction_attribute.
type FuncAttribute int32

// The function attributes that are read or set.
const (
	FuncMaxThreadsPerBlock FuncAttribute = 0
	FuncStaticSharedBytes  FuncAttribute = 1
	FuncLocalBytes         FuncAttribute = 3 // spilled registers
	FuncRegisters          FuncAttribute = 4
	FuncMaxDynamicShared   FuncAttribute = 8
)
