package advisor

import (
	"fmt"
	"strconv"
)

// crowdRule: with more threads than CPUs, all wait at every barrier until the one that has no CPU gets its turn.
var crowdRule = row{id: "threads/above-cpus", category: Parallelization, difficulty: Easy, impact: Critical, check: func(c *Context) (*Suggestion, error) {
	threads, err := c.Current.number("threads")
	if err != nil {
		return nil, err
	}
	usable, err := c.usable()
	if err != nil {
		return nil, err
	}
	if threads <= c.cpus() || c.quotaBinds() {
		return nil, nil // or the quota is what counts
	}
	return &Suggestion{
		Title:       fmt.Sprintf("Run %s instead of %d", count(usable, "thread"), threads),
		Description: fmt.Sprintf("%d threads share %d CPUs (affinity and cpuset): at every barrier all of them wait for one that the scheduler has not let run yet.", threads, c.cpus()),
		Expected:    c.crowdGain(),
		Steps:       []string{fmt.Sprintf("Set the number of threads to %d", usable)},
		Examples:    []string{fmt.Sprintf("llama-server --threads %d", usable)},
		Change:      Settings{"threads": strconv.Itoa(usable)},
		Warnings:    []string{"this program's own kernels run no more threads than CPUs, so --try cannot measure it"},
	}, nil
}}

// crowdGain is what no more threads than CPUs are expected to bring.
func (c *Context) crowdGain() Improvement {
	k := c.constants()
	return Improvement{Speed: &Range{k.CrowdLow, k.Crowd, k.CrowdHigh}, Source: "measured on another host with workers that spin, and reports: ollama/ollama#17916; not measured here"}
}
