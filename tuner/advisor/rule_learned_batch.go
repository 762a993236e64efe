package advisor

import (
	"fmt"
	"strconv"
)

// learnedBatchRule: a prompt cut into batches far from those that a tune on this host found best.
var learnedBatchRule = row{id: "batch/far-from-learned", category: Parallelization, difficulty: Easy, impact: Low, check: func(c *Context) (*Suggestion, error) {
	batch, err := c.Current.number("prefill_batch")
	if err != nil {
		return nil, err
	}
	if c.Learned == nil || !c.Learned.proven() || c.Learned.Prefill.Batch < 1 {
		return nil, &Missing{Part: "learned batch: run tune"}
	}
	learned := c.Learned.Prefill.Batch
	if ratio := float64(batch) / float64(learned); max(ratio, 1/ratio) <= c.constants().BatchFactor {
		return nil, nil
	}
	return &Suggestion{
		Title:       fmt.Sprintf("Cut prompts into %d tokens instead of %d", learned, batch),
		Description: "A tune on this host found that batch best; the one in use is far from it.",
		Expected:    Improvement{Of: "prefill", Source: "no figure: the tune compared whole settings, not this batch"},
		Steps:       []string{fmt.Sprintf("Set the batch of a prompt to %d", learned)},
		Examples:    []string{fmt.Sprintf("llama-server --ubatch-size %d", learned)},
		Change:      Settings{"prefill_batch": strconv.Itoa(learned)},
		Warnings:    []string{"the workspace grows with the batch"},
	}, nil
}}
