package advisor

// governorRule: a governor that saves power holds the clock down.
var governorRule = row{id: "cpu/governor", category: Hardware, difficulty: Easy, check: func(c *Context) (*Suggestion, error) {
	k := c.constants()
	switch c.Host.Governor {
	case "":
		return nil, &Missing{Part: "CPU frequency governor of the host"}
	case "powersave":
	default:
		return nil, nil
	}
	return &Suggestion{
		Title:       "Use another CPU frequency governor than powersave",
		Description: "The governor is powersave, which favours low clocks.",
		Expected:    Improvement{Speed: &Range{1, 1, k.GovernorHigh}, Source: "our estimate; not measured here"},
		Steps:       []string{"Set the governor to performance, or schedutil where there is no such"},
		Examples:    []string{"cpupower frequency-set --governor performance"},
		Warnings:    []string{"with the intel_pstate driver powersave still follows the load, and little may be gained", "it takes root, is the whole machine's setting, and costs power"},
	}, nil
}}
