package advisor

import (
	"fmt"
	"strconv"
)

// smtRule: two threads of one core share the ports that multiply.
var smtRule = row{id: "threads/smt-siblings", category: Parallelization, difficulty: Easy, check: func(c *Context) (*Suggestion, error) {
	k := c.constants()
	threads, err := c.Current.number("threads")
	if err != nil {
		return nil, err
	}
	usable, err := c.usable()
	if err != nil {
		return nil, err
	}
	physical := c.Host.CPU.UsablePhysical
	if c.Host.CPU.ThreadsPerCore == 0 || physical == 0 {
		return nil, &Missing{Part: "SMT siblings of the host"}
	}
	if c.Host.CPU.ThreadsPerCore < 2 || threads <= physical || threads > usable {
		return nil, nil
	}
	if c.Learned != nil && c.Learned.proven() && c.Learned.Decode.Threads > physical {
		return nil, nil // measured: here the siblings do bring something
	}
	return &Suggestion{
		Title:       fmt.Sprintf("Run one thread a core: %d instead of %d", physical, threads),
		Description: fmt.Sprintf("%d threads run on %d cores: some share a core with their SMT sibling, and with it the units that multiply.", threads, physical),
		Expected:    Improvement{Speed: &Range{k.SMTLow, k.SMT, k.SMTHigh}, Source: "reports of others, from a loss to 3.6x: ggml-org/llama.cpp PR 20020 and PR 19260; not measured here"},
		Steps:       []string{fmt.Sprintf("Set the number of threads to %d", physical)},
		Examples:    []string{fmt.Sprintf("llama-server --threads %d", physical)},
		Change:      Settings{"threads": strconv.Itoa(physical)},
		Warnings:    []string{"on some processors the second thread of a core does help; measure before and after"},
	}, nil
}}
