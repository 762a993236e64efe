package gpu

import (
	"context"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// Machine is a host with its GPUs. It marshals to the document that the probe verb prints.
type Machine struct {
	Fingerprint string `json:"fingerprint"`
	probe.Host
	Survey
	Bandwidth map[int]float64 `json:"read_bandwidth_bytes_per_second,omitempty"` // by threads; nil = not measured
}

// LocalMachine describes this machine as probe.Local and Local do.
func LocalMachine(ctx context.Context, opt Options) (Machine, error) {
	h, err := probe.Local(ctx)
	if err != nil {
		return Machine{}, err
	}
	return Machine{Fingerprint: h.Fingerprint(), Host: h, Survey: Local(ctx, opt)}, nil
}
