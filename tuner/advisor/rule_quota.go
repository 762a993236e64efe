package advisor

import (
	"fmt"
	"strconv"
)

// quotaRule: threads that wait for each other at a barrier, one of them stopped by the quota, burn what is left of it.
var quotaRule = row{id: "threads/above-quota", category: Parallelization, difficulty: Easy, impact: Critical, check: func(c *Context) (*Suggestion, error) {
	k := c.constants()
	threads, err := c.Current.number("threads")
	if err != nil {
		return nil, err
	}
	usable, err := c.usable()
	if err != nil {
		return nil, err
	}
	quota := c.Host.Cgroup.QuotaCPUs
	if quota == 0 || threads <= max(1, int(quota)) || threads <= usable {
		return nil, nil
	}
	return &Suggestion{
		Title:       fmt.Sprintf("Run %s instead of %d", count(usable, "thread"), threads),
		Description: fmt.Sprintf("The control group may use %.4g CPUs (rounded down: %d). %d threads use that up before a period ends, are stopped at different moments, and wait for each other meanwhile.", quota, max(1, int(quota)), threads),
		Expected:    Improvement{Speed: &Range{k.QuotaLow, k.Quota, k.QuotaHigh}, Source: "reports of engines that wait by spinning: llmmanorg/llmman#322, ollama/ollama#17916; not measured here"},
		Steps:       []string{fmt.Sprintf("Set the number of threads to %d", usable), "Or raise the quota, if the work is worth more CPUs"},
		Examples:    []string{fmt.Sprintf("llama-server --threads %d --threads-batch %d", usable, usable)},
		Change:      Settings{"threads": strconv.Itoa(usable)},
		Warnings:    []string{"how much it brings depends on how the engine waits: workers that park lose little"},
	}, nil
}}
