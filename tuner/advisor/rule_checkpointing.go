package advisor

import "fmt"

// checkpointingRule is R2.19: training that is short of memory.
var checkpointingRule = row{id: "training/checkpointing", category: MemoryUse, difficulty: Coding, check: func(c *Context) (*Suggestion, error) {
	k := c.constants()
	mode, err := c.Current.text("mode")
	if err != nil || mode != "training" {
		return nil, err
	}
	if c.Memory == nil {
		return nil, &Missing{Part: "memory metrics"}
	}
	limit, err := c.trainingMemory()
	if err != nil {
		return nil, err
	}
	if float64(c.Memory.PeakBytes) < k.CheckpointShare*float64(limit) || c.Current.Is("checkpointing", "on") {
		return nil, nil
	}
	return &Suggestion{
		Title:       "Use gradient checkpointing",
		Description: fmt.Sprintf("The peak takes %.0f %% of the memory. Activations can be computed again on the way back instead of kept.", 100*float64(c.Memory.PeakBytes)/float64(limit)),
		Expected:    Improvement{Memory: exactly(k.CheckpointMemory), Latency: exactly(k.CheckpointLatency), Source: unmeasured},
		Steps:       []string{"Checkpoint every layer, or every other one"},
		Warnings:    []string{fmt.Sprintf("each step takes about %g %% longer", k.CheckpointLatency)},
	}, nil
}}

// trainingMemory is what training may take: that of the GPU it runs on, else of this host.
func (c *Context) trainingMemory() (uint64, error) {
	if c.Current.Is("device", "gpu", "hybrid") {
		list, err := c.usableGPUs()
		if err != nil {
			return 0, err
		}
		if len(list) == 0 || list[0].TotalBytes == 0 {
			return 0, &Missing{Part: "memory of the GPU"}
		}
		return list[0].TotalBytes, nil
	}
	if c.Host.Memory.LimitBytes == 0 {
		return 0, &Missing{Part: "memory of the host"}
	}
	return c.Host.Memory.LimitBytes, nil
}
