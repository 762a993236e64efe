package advisor

import "github.com/bitnet-autotune/bitnet-autotune/probe/model"

// flashRule is R2.18: attention that writes its scores to memory, on a GPU that need not.
var flashRule = row{id: "attention/flash", category: Hardware, difficulty: Easy, check: func(c *Context) (*Suggestion, error) {
	k := c.constants()
	g, err := c.gpuFrom(k.FlashCapability)
	if err != nil || g == nil {
		return nil, err
	}
	if _, err := c.Current.text("attention"); err != nil || !c.Current.Is("attention", "full") {
		return nil, err
	}
	if c.Model != nil && c.Model.Family == model.Unknown {
		return nil, &Missing{Part: "whether this model has attention"}
	}
	return &Suggestion{
		Title:       "Use flash attention",
		Description: g.Name + " can keep the scores of attention on the chip, where full attention writes and reads them.",
		Expected:    Improvement{Speed: between(k.FlashLow, k.FlashHigh), Of: "attention", Source: unmeasured},
		Steps:       []string{"Switch flash attention on in the engine"},
		Examples:    []string{"llama-server --flash-attn on"},
		Warnings:    []string{"results differ in the last bits: sums are taken in another order"},
	}, nil
}}
