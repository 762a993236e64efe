package placement

// Constants are the figures that recommendations and plans rest on where nothing was measured. They are defaults, to be
// overridden by calling the methods of other Constants than Defaults.
type Constants struct {
	HostReserveShare  float64 `json:"host_reserve_share" source:"R1.2, for the CPU" unit:"share of the memory limit" doc:"left free in the host's memory, as on a GPU"`
	GPUBandwidth      uint64  `json:"gpu_bandwidth_bytes_per_second" source:"our choice" unit:"bytes/s" doc:"memory bandwidth of a GPU that does not tell its clock and width: a small recent card"`
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
	RecommendedFactor: 2,
	CPUCores:          4,
	TextIndex:         0,
	VisionIndex:       1,
	ExactNodes:        50_000,
	Kicks:             500,
	DeviceSubsets:     64,
}
