package placement

import (
	"errors"
	"fmt"
)

// Constants are the figures that recommendations and plans rest on where nothing was measured. They are defaults, to be
// overridden by calling the methods of other Rules than DefaultRules.
type Constants struct {
	HostReserveShare  float64 `json:"host_reserve_share" source:"R1.2, for the CPU" unit:"share of the memory limit" doc:"left free in the host's memory, as on a GPU"`
	GPUBandwidth      uint64  `json:"gpu_bandwidth_bytes_per_second" source:"our choice" unit:"bytes/s" doc:"memory bandwidth of a GPU that does not tell its clock and width: a small recent card"`
	UsageStep         float64 `json:"usage_step" source:"R3.24, our choice" unit:"share" doc:"utilisation of a GPU counts in steps of this, so that a plan does not change with every look"`
	RecommendedFactor float64 `json:"recommended_memory_factor" source:"R3.5" unit:"x minimum" doc:"recommended memory where no longer context asks for more; the seed's sample has 8000 MB to 4000 MB"`
	CPUCores          int     `json:"cpu_cores" source:"R3.5" unit:"cores" doc:"cores that a model on the CPU asks for"`
	TextIndex         int     `json:"text_index" source:"R3.23" unit:"GPU index" doc:"the primary GPU: text generation goes there where nothing else decides"`
	VisionIndex       int     `json:"vision_index" source:"R3.23" unit:"GPU index" doc:"the secondary GPU: vision goes there where nothing else decides"`
	ExactNodes        int     `json:"exact_nodes" source:"our choice" unit:"nodes" doc:"a plan is proven by branch and bound over at most so many partial plans, some 0.1 s; else it is the best that local search found"`
	Kicks             int     `json:"kicks" source:"our choice" unit:"restarts" doc:"how often local search is disturbed and begins again with up to 20 models; with more it is less often, for equal time"`
	DeviceSubsets     int     `json:"device_subsets" source:"our choice" unit:"sets" doc:"an unproven plan is compared with those of at most so many smaller sets of devices, so that a device more is never worse"`
}

// Defaults are the constants where none are given.
var Defaults = Constants{
	HostReserveShare:  0.10,
	GPUBandwidth:      200e9,
	UsageStep:         0.25,
	RecommendedFactor: 2,
	CPUCores:          4,
	TextIndex:         0,
	VisionIndex:       1,
	ExactNodes:        50_000,
	Kicks:             300,
	DeviceSubsets:     64,
}

// Validate names the first constant that cannot be meant.
func (c Constants) Validate() error {
	for _, share := range []struct {
		name  string
		value float64
	}{{"host_reserve_share", c.HostReserveShare}, {"usage_step", c.UsageStep}} {
		if !(share.value > 0 && share.value <= 1) {
			return fmt.Errorf("placement: constant %s is %v: want a share above 0 and up to 1", share.name, share.value)
		}
	}
	if !(c.RecommendedFactor >= 1 && c.RecommendedFactor <= 1000) {
		return fmt.Errorf("placement: constant recommended_memory_factor is %v: want 1 to 1000", c.RecommendedFactor)
	}
	for _, number := range []struct {
		name  string
		value int
		least int
	}{{"cpu_cores", c.CPUCores, 1}, {"text_index", c.TextIndex, 0}, {"vision_index", c.VisionIndex, 0}, {"exact_nodes", c.ExactNodes, 0}, {"kicks", c.Kicks, 0}, {"device_subsets", c.DeviceSubsets, 0}} {
		if number.value < number.least {
			return fmt.Errorf("placement: constant %s is %d: want at least %d", number.name, number.value, number.least)
		}
	}
	if c.GPUBandwidth == 0 {
		return errors.New("placement: constant gpu_bandwidth_bytes_per_second is 0: want more than 0")
	}
	return nil
}
