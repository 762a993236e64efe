package advisor

import (
	"fmt"
	"math"
	"strconv"
)

// quotaRule: threads that wait for each other at a barrier, one of them stopped by the quota, burn what is left of it.
var quotaRule = row{id: "threads/above-quota", category: Parallelization, difficulty: Easy, check: func(c *Context) (*Suggestion, error) {
	threads, err := c.Current.number("threads")
	if err != nil {
		return nil, err
	}
	usable, err := c.usable()
	if err != nil {
		return nil, err
	}
	quota := c.Host.Cgroup.QuotaCPUs
	if quota == 0 || float64(threads) <= quota || threads <= usable || !c.quotaBinds() {
		return nil, nil
	}
	s := &Suggestion{
		Title:       fmt.Sprintf("Run %s instead of %d", count(usable, "thread"), threads),
		Description: fmt.Sprintf("The control group may use %.4g CPUs. %d threads use that up before a period ends, are stopped at different moments, and wait for each other meanwhile.", quota, threads),
		Expected:    c.quotaGain(threads, usable, quota),
		Steps:       []string{fmt.Sprintf("Set the number of threads to %d, the quota rounded down", usable), "Or raise the quota, if the work is worth more CPUs"},
		Examples:    []string{fmt.Sprintf("llama-server --threads %d --threads-batch %d", usable, usable)},
		Change:      Settings{"threads": strconv.Itoa(usable)},
		Warnings:    []string{"how much it brings depends on how the engine waits: workers that park lose little"},
	}
	switch {
	case float64(threads) < quota+1: // the last thread has a part of a CPU
		s.Warnings = append(s.Warnings, "one thread more than the quota rounded down can be faster or slower: measure both")
	case !c.parks():
		s.Impact = Critical
	}
	return s, nil
}}

// quotaBinds reports whether the quota is less than the CPUs that the threads may run on: else these are the limit.
func (c *Context) quotaBinds() bool {
	quota := c.Host.Cgroup.QuotaCPUs
	return quota > 0 && quota < float64(c.cpus())
}

// quotaGain is what no more threads than the quota are expected to bring. Rounding down gives a part of the quota away.
func (c *Context) quotaGain(threads, usable int, quota float64) Improvement {
	k := c.constants()
	kept := min(1, float64(usable)/quota)
	switch {
	case threads > c.cpus() && !c.parks():
		return c.crowdGain()
	case c.parks():
		return Improvement{Speed: &Range{k.QuotaLow * kept, k.Parked * kept, k.ParkedHigh}, Source: "measured on another host with workers that park; not measured here"}
	case float64(threads) < quota+1:
		return Improvement{Speed: &Range{k.QuotaLow * kept, 1, k.QuotaHigh}, Source: "measured on another host from below, where 2 threads with a quota of 1.5 beat one; reports of others from above: ollama/ollama#17916; not measured here"}
	}
	return Improvement{Speed: &Range{k.QuotaLow * kept, k.Quota, k.QuotaHigh}, Source: "reports of engines that wait by spinning: llmmanorg/llmman#322, ollama/ollama#17916; not measured here"}
}

// parks reports whether the engine in use is known to let threads that wait park. This program's own does; an engine that
// is not named counts as one that spins, as those of the llama.cpp family do.
func (c *Context) parks() bool { return c.Current["engine"] == ownEngine }

// canRun reports whether this program's own kernels can run with the threads in use: each has a CPU of its own.
func (c *Context) canRun() bool {
	threads, err := c.Current.number("threads")
	return err != nil || threads <= c.cpus()
}

// ownEngine is the name of the engine that is this program's own kernels and worker pool.
const ownEngine = "bitnet-autotune"

// cpus is how many CPUs the threads may run on, which a quota does not change; a great number where it is unknown.
func (c *Context) cpus() int {
	switch {
	case len(c.Host.CPU.CPUs) > 0:
		return len(c.Host.CPU.CPUs)
	case c.Host.CPU.LogicalCores > 0:
		return c.Host.CPU.LogicalCores
	}
	return math.MaxInt
}
