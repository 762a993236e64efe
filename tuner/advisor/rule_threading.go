package advisor

import (
	"fmt"
	"strconv"
)

// threadingRule is R2.13: many cores and one thread.
var threadingRule = row{id: "threads/off", category: Parallelization, difficulty: Easy, check: func(c *Context) (*Suggestion, error) {
	k := c.constants()
	usable, err := c.usable()
	if err != nil {
		return nil, err
	}
	if c.Current["threading"] == "" && c.Current["threads"] == "" {
		return nil, &Missing{Part: "current threads"}
	}
	off := c.Current.Is("threading", "off") || c.Current["threads"] == "1"
	if usable <= k.ThreadingCores || !off {
		return nil, nil
	}
	threads := usable
	if c.Host.CPU.UsablePhysical > 0 {
		threads = c.Host.CPU.UsablePhysical
	}
	if c.Learned != nil && c.Learned.proven() && c.Learned.Decode.Threads > 0 {
		threads = c.Learned.Decode.Threads
	}
	return &Suggestion{
		Title:       "Use threads",
		Description: fmt.Sprintf("One thread runs where %d may.", usable),
		Expected:    Improvement{Latency: exactly(k.ThreadingLatency), Source: unmeasured},
		Steps:       []string{fmt.Sprintf("Set the number of threads to %d", threads)},
		Examples:    []string{fmt.Sprintf("llama-server --threads %d", threads)},
		Change:      Settings{"threads": strconv.Itoa(threads)},
		Warnings:    []string{"once reading memory is the limit, more threads bring nothing: probe --bandwidth tells where"},
	}, nil
}}
