package advisor

import (
	"fmt"
	"slices"
)

// bad is a combination that is known to give wrong results.
type bad struct {
	engine, arch, layout string
	source               string
}

// knownBad lists what users reported.
var knownBad = []bad{
	{"bitnet.cpp", "arm64", "i2s", "microsoft/BitNet#585, #598 and #600: rows packed for x86 are read in another order on ARM"},
}

// knownBadRule: a fast wrong answer is no answer. What gave wrong results on this host counts as well as what others
// reported.
var knownBadRule = row{id: "kernel/known-bad", category: Compute, difficulty: Easy, impact: Critical, check: func(c *Context) (*Suggestion, error) {
	kernel, layout := c.Current["kernel"], c.Current["layout"]
	if kernel == "" && layout == "" {
		return nil, &Missing{Part: "current kernel and layout"}
	}
	source := ""
	if c.Learned != nil && kernel != "" && slices.Contains(c.Learned.Wrong, kernel) {
		source = "its results differed from the reference on this host"
	}
	for _, b := range knownBad {
		if c.Current.Is("engine", b.engine) && c.Host.Arch == b.arch && layout == b.layout {
			source = b.source
		}
	}
	if source == "" {
		return nil, nil
	}
	return &Suggestion{
		Title:       "Do not trust the results",
		Description: fmt.Sprintf("Kernel %s with layout %s on %s is known to compute wrong: %s.", orUnknown(kernel), orUnknown(layout), c.Host.Arch, source),
		Expected:    Improvement{Source: "right results"},
		Steps:       []string{"Check the output of the model against a reference before anything else", "Use a build or a layout that is not affected"},
		Examples:    []string{"bitnet-autotune bench --quick"},
	}, nil
}}

func orUnknown(s string) string {
	if s == "" {
		return "(unknown)"
	}
	return s
}
