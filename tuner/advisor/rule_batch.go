package advisor

// batchRule is R2.16: one sequence at a time leaves a GPU idle.
var batchRule = row{id: "batch/one-on-gpu", category: Parallelization, difficulty: Easy, check: func(c *Context) (*Suggestion, error) {
	k := c.constants()
	batch, err := c.Current.number("batch_size")
	if err != nil {
		return nil, err
	}
	if _, err := c.Current.text("device"); err != nil || !c.Current.Is("device", "gpu", "hybrid") || batch != 1 {
		return nil, err
	}
	return &Suggestion{
		Title:       "Serve several sequences at once",
		Description: "With a batch of 1, every token reads all weights for itself; several sequences share the reading.",
		Expected:    Improvement{Throughput: exactly(k.BatchThroughput), Source: unmeasured},
		Steps:       []string{"Raise the number of parallel sequences step by step", "Stop where the latency of one request becomes too long, or memory too little"},
		Examples:    []string{"llama-server --parallel 8"},
		Warnings:    []string{"a single request gets no faster, and each sequence takes its own KV cache"},
	}, nil
}}
