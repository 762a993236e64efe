package gpu

import (
	"fmt"
	"time"
)

// GPU is what is known of one device that CUDA can use: a card, or an instance of a card that is split by MIG. Unknown is
// zero or absent, never invented, and Unknown lists it.
type GPU struct {
	Index int    `json:"index"` // NVML's, of the card; CUDA may count otherwise, so devices are matched by UUID
	UUID  string `json:"uuid"`
	Name  string `json:"name"`
	PCI   string `json:"pci,omitempty"`
	// ComputeCapability is "9.0"; "" unknown.
	ComputeCapability Capability `json:"compute_capability"`
	Memory
	Utilization float64 `json:"utilization"` // of its multiprocessors, 0 to 1
	// BandwidthBytes is what the memory could deliver in a second by its clock and width; 0 unknown.
	BandwidthBytes     uint64   `json:"memory_bandwidth_bytes_per_second,omitempty"`
	Clocks             Clocks   `json:"clocks,omitzero"`
	TemperatureCelsius int      `json:"temperature_celsius,omitempty"`
	PowerWatts         float64  `json:"power_watts,omitempty"`
	PowerLimitWatts    float64  `json:"power_limit_watts,omitempty"`
	Throttled          []string `json:"throttled,omitempty"`  // why the clocks are held down now, such as "sw_power_cap"
	NVLinks            int      `json:"nvlinks,omitempty"`    // active, to other GPUs or to a switch
	Peers              []Peer   `json:"peers,omitempty"`      // the other cards
	MIGParent          string   `json:"mig_parent,omitempty"` // UUID of the card that this is an instance of
	// Trouble is why the device cannot be used now; "" = it can.
	Trouble string `json:"trouble,omitempty"`
	// Unknown names what the driver did not tell, as the fields are called here.
	Unknown []string `json:"unknown,omitempty"`
}

// Clocks are in MHz.
type Clocks struct {
	SM        int `json:"sm_mhz,omitempty"`
	Memory    int `json:"memory_mhz,omitempty"`
	MaxSM     int `json:"max_sm_mhz,omitempty"`
	MaxMemory int `json:"max_memory_mhz,omitempty"`
}

// Peer is how another card is reached.
type Peer struct {
	UUID     string `json:"uuid"`
	P2P      string `json:"p2p,omitempty"`      // reading its memory directly: "ok", or why not; "" unknown
	NVLinks  int    `json:"nvlinks,omitempty"`  // directly between the two
	Distance string `json:"distance,omitempty"` // on PCI: "board", "switch", "switches", "host_bridge", "node" or "system"
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
	GPUs   []GPU  `json:"gpus"`
	Note   string `json:"gpu_note"`             // why GPUs is empty, or what could not be read; "" = all is well
	Driver string `json:"gpu_driver,omitempty"` // version, such as "550.54.15"
	CUDA   string `json:"gpu_cuda,omitempty"`   // the newest CUDA that the driver knows, such as "12.4"
}
