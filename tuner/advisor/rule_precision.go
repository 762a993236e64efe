package advisor

import "github.com/bitnet-autotune/bitnet-autotune/probe/gpu"

// precisionRule is R2.17: single precision on a GPU whose tensor cores take half.
var precisionRule = row{id: "precision/mixed", category: Hardware, difficulty: Coding, check: func(c *Context) (*Suggestion, error) {
	k := c.constants()
	g, err := c.gpuFrom(k.PrecisionCapability)
	if err != nil || g == nil {
		return nil, err
	}
	if _, err := c.Current.text("precision"); err != nil || !c.Current.Is("precision", "fp32") {
		return nil, err
	}
	return &Suggestion{
		Title:       "Use mixed precision",
		Description: g.Name + " multiplies half precision on its tensor cores; single precision leaves them idle.",
		Expected:    Improvement{Speed: exactly(k.PrecisionSpeed), Memory: exactly(k.PrecisionMemory), Source: unmeasured},
		Steps:       []string{"Compute in bf16, or in fp16 with loss scaling where you train", "Keep norms, softmax and sums in single precision"},
		Warnings:    []string{"ternary weights times int8 activations are integers and gain nothing: this is of the other operations"},
	}, nil
}}

// gpuFrom is the first usable GPU of at least a compute capability; nil where there is none. One of unknown capability
// does not count: what is not known suggests nothing.
func (c *Context) gpuFrom(least float64) (*gpu.GPU, error) {
	list, err := c.usableGPUs()
	if err != nil {
		return nil, err
	}
	for _, g := range list {
		if cc := g.ComputeCapability; float64(cc.Major)+float64(cc.Minor)/10 >= least {
			return &g, nil
		}
	}
	return nil, nil
}
