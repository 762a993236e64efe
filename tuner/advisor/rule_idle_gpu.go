package advisor

import "fmt"

// idleGPURule: the CPU works while a GPU that could hold the model does nothing.
var idleGPURule = row{id: "gpu/idle", category: Hardware, difficulty: Easy, impact: Medium, check: func(c *Context) (*Suggestion, error) {
	k := c.constants()
	list, err := c.usableGPUs()
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if _, err := c.Current.text("device"); err != nil || !c.Current.Is("device", "cpu") {
		return nil, err
	}
	if c.Needs == nil || c.Needs.ModelBytes == 0 {
		return nil, &Missing{Part: "memory that the model needs"}
	}
	need := c.Needs.ModelBytes + c.Needs.WorkingBytes
	for _, g := range list {
		if g.Utilization >= k.GPUIdle || float64(g.FreeBytes) < k.GPUHeadroom*float64(need) {
			continue
		}
		return &Suggestion{
			Title:       "Run the model on " + g.Name,
			Description: fmt.Sprintf("GPU %d is %.0f %% busy and has %.3g GB free; the model needs %.3g GB (%s).", g.Index, 100*g.Utilization, float64(g.FreeBytes)/1e9, float64(need)/1e9, c.Needs.Source),
			Expected:    Improvement{Source: "no figure: it was not measured; gpu bench does"},
			Steps:       []string{"Measure the kernels on the GPU", "Move all layers there if they are faster"},
			Examples:    []string{"bitnet-autotune gpu bench", "llama-server --n-gpu-layers 99"},
			Warnings:    []string{"bitnet.cpp runs i2s on the CPU only: the engine has to have ternary kernels for the GPU"},
		}, nil
	}
	return nil, nil
}}
