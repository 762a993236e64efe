package advisor

// hugePagesRule: gigabytes of weights in pages of 4 KiB miss the TLB on every page.
var hugePagesRule = row{id: "memory/no-huge-pages", category: MemoryUse, difficulty: Easy, check: func(c *Context) (*Suggestion, error) {
	k := c.constants()
	switch c.Host.HugePages {
	case "":
		return nil, &Missing{Part: "mode of huge pages of the host"}
	case "never":
	default:
		return nil, nil
	}
	return &Suggestion{
		Title:       "Allow huge pages",
		Description: "Transparent huge pages are switched off, so that reading the weights misses the TLB once in 4 KiB.",
		Expected:    Improvement{Speed: between(1, k.HugePagesHigh), Of: "decode", Source: "our estimate; not measured here"},
		Steps:       []string{"Set transparent huge pages to madvise: only who asks for them gets them", "Keep the setting over a restart (tuned, systemd-tmpfiles or the kernel's command line)"},
		Examples:    []string{"echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"},
		Warnings:    []string{"it takes root, and is the whole machine's setting", "weights that an engine maps from their file get none: load without mmap"},
	}, nil
}}
