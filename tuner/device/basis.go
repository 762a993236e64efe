package device

// Basis says how a number is known.
type Basis string

// The bases, the surest last.
const (
	Estimate Basis = "estimate" // a formula, or a default
	Probe    Basis = "probe"    // read from this host, its driver or the model's file
	Measured Basis = "measured" // timed on this host
)

// weakest is the basis of what was computed from all of them.
func weakest(of ...Basis) Basis {
	order := map[Basis]int{Estimate: 0, Probe: 1, Measured: 2}
	least := Measured
	for _, b := range of {
		if order[b] < order[least] {
			least = b
		}
	}
	return least
}

// Figure is a number with how it is known.
type Figure struct {
	Value  uint64 `json:"value"` // 0 = unknown
	Basis  Basis  `json:"basis"`
	Reason string `json:"reason,omitempty"` // what it was computed from
}

// sum adds figures; it is known no better than the least known of them.
func sum(reason string, of ...Figure) Figure {
	total := Figure{Basis: Measured, Reason: reason}
	for _, f := range of {
		total.Value = saturate(total.Value, f.Value)
		if f.Value > 0 {
			total.Basis = weakest(total.Basis, f.Basis)
		}
	}
	if total.Value == 0 {
		total.Basis = Estimate
	}
	return total
}

// saturate adds without wrapping around.
func saturate(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}

// Limit is what keeps an answer from being larger, or from being another one.
type Limit string

// The limits.
const (
	LimitCores     Limit = "cores"
	LimitLoad      Limit = "cpu_load"
	LimitBandwidth Limit = "memory_bandwidth"
	LimitMemory    Limit = "memory"
	LimitGPU       Limit = "gpu" // there is none that can be used
	LimitGPUMemory Limit = "gpu_memory"
	LimitBuild     Limit = "build" // what the caller can run
	LimitModel     Limit = "model" // more is of no use to it
	LimitNone      Limit = "none"
)

// Choice is one answer with why it is that one.
type Choice[T any] struct {
	Value  T      `json:"value"`
	Reason string `json:"reason"`
	Limit  Limit  `json:"limit"`
	Basis  Basis  `json:"basis"`
	// Overridden says that the caller's word holds; the rule was not asked.
	Overridden bool `json:"overridden,omitempty"`
}
