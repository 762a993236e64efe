package advisor

import "fmt"

// attentionRule is R2.10: attention takes the square of the sequence length.
var attentionRule = row{id: "attention/long-sequence", category: Architecture, difficulty: Hard, check: func(c *Context) (*Suggestion, error) {
	k := c.constants()
	length, err := c.Current.number("sequence_length")
	if err != nil || length <= k.SequenceLength || c.Current.Is("attention", "sparse", "linear", "sliding") {
		return nil, err
	}
	return &Suggestion{
		Title:       "Use sparse or linear attention",
		Description: fmt.Sprintf("Contexts of %d tokens are above the %d from which attention, which grows with the square of the length, dominates.", length, k.SequenceLength),
		Expected:    Improvement{Latency: exactly(k.AttentionLatency), Memory: exactly(k.AttentionMemory), Source: unmeasured},
		Steps:       []string{"Choose a model with sliding-window, sparse or linear attention, or retrain with it", "Compare its accuracy on your own data before and after"},
		Warnings:    []string{fmt.Sprintf("another attention is another model: accept a loss of accuracy below %g only", k.AccuracyDrop)},
	}, nil
}}
