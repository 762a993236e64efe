package advisor

// cacheRule is R2.15: generation without a KV cache computes every token anew for each one after it.
var cacheRule = row{id: "attention/kv-cache", category: Architecture, difficulty: Easy, check: func(c *Context) (*Suggestion, error) {
	k := c.constants()
	mode, err := c.Current.text("mode")
	if err != nil || mode != "inference" {
		return nil, err
	}
	if _, err := c.Current.text("kv_cache"); err != nil || !c.Current.Is("kv_cache", "off") {
		return nil, err
	}
	return &Suggestion{
		Title:       "Switch the KV cache on",
		Description: "Without it, every generated token computes the keys and values of all tokens before it again.",
		Expected:    Improvement{Speed: between(k.CacheLow, k.CacheHigh), Of: "generation", Source: unmeasured},
		Steps:       []string{"Switch the cache on in the engine", "Bound the context, which the cache grows with"},
		Warnings:    []string{"the cache takes memory: two vectors of a key-value head's width for each layer and token"},
	}, nil
}}
