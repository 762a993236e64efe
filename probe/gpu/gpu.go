// Package gpu finds the NVIDIA GPUs of this host and their memory, through NVML.
package gpu

import (
	"fmt"
	"time"
)

// GPU is what is known of one device. Unknown is zero or absent, never invented.
type GPU struct {
	Index int    `json:"index"` // NVML's; CUDA may count otherwise, so devices are matched by UUID
	UUID  string `json:"uuid"`
	Name  string `json:"name"`
	PCI   string `json:"pci,omitempty"`
	// ComputeCapability is "9.0"; "" unknown.
	ComputeCapability Capability `json:"compute_capability"`
	Memory
	Utilization float64 `json:"utilization"` // of its multiprocessors, 0 to 1
	// BandwidthBytes is what the memory could deliver in a second by its clock and width; 0 unknown.
	BandwidthBytes uint64 `json:"memory_bandwidth_bytes_per_second,omitempty"`
	// Trouble is why the device cannot be used now; "" = it can.
	Trouble string `json:"trouble,omitempty"`
}

// Memory is what a device has, in bytes, as the driver told at a moment.
type Memory struct {
	TotalBytes    uint64    `json:"memory_total_bytes"`
	FreeBytes     uint64    `json:"memory_free_bytes"`
	ReservedBytes uint64    `json:"memory_reserved_bytes,omitempty"` // by the driver, not part of free; 0 unknown
	At            time.Time `json:"memory_read_at,omitzero"`
}

// Capability is a compute capability; the zero value is unknown.
type Capability struct{ Major, Minor int }

// String returns "9.0", "" for unknown.
func (c Capability) String() string {
	if c == (Capability{}) {
		return ""
	}
	return fmt.Sprintf("%d.%d", c.Major, c.Minor)
}

// MarshalText implements encoding.TextMarshaler.
func (c Capability) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Capability) UnmarshalText(text []byte) error {
	*c = Capability{}
	if len(text) == 0 {
		return nil
	}
	if _, err := fmt.Sscanf(string(text), "%d.%d", &c.Major, &c.Minor); err != nil {
		return fmt.Errorf("gpu: compute capability %q: want one such as 9.0", text)
	}
	return nil
}

// Survey is what a look at the host's GPUs found.
type Survey struct {
	GPUs []GPU  `json:"gpus"`
	Note string `json:"gpu_note"` // why GPUs is empty, or what could not be read; "" = all is well
}
