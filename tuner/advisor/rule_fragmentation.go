package advisor

import "fmt"

// fragmentationRule is R2.11: a peak far above what is held says that buffers are not reused.
var fragmentationRule = row{id: "memory/fragmentation", category: MemoryUse, difficulty: Coding, check: func(c *Context) (*Suggestion, error) {
	k := c.constants()
	if c.Memory == nil || c.Memory.CurrentBytes == 0 {
		return nil, &Missing{Part: "memory metrics"}
	}
	ratio := float64(c.Memory.PeakBytes) / float64(c.Memory.CurrentBytes)
	if ratio <= k.FragmentationRatio {
		return nil, nil
	}
	return &Suggestion{
		Title:       "Reuse buffers, or take them from pools",
		Description: fmt.Sprintf("The peak is %.1f times what is held now: buffers are made anew and given back, and the room between them is lost.", ratio),
		Expected:    Improvement{Memory: exactly(k.FragmentationMemory), Source: unmeasured},
		Steps:       []string{"Allocate the workspace once, for the largest batch", "Take what is left from a pool by size class"},
	}, nil
}}
