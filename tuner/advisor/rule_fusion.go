package advisor

import "fmt"

// fusionRule is R2.14: many small operations, of which each costs a launch or a barrier. A profile tells by time; without
// one the graph tells by weights.
var fusionRule = row{id: "operators/fusion", category: Compute, difficulty: Coding, check: func(c *Context) (*Suggestion, error) {
	k := c.constants()
	all, small := 0, 0
	switch {
	case c.Profile != nil:
		for _, o := range c.Profile.Operations {
			all += o.Count
			if o.MeanMicroseconds < k.FusionMicroseconds {
				small += o.Count
			}
		}
	case c.Graph != nil:
		for _, o := range c.Graph.Operations {
			all++
			if o.Weights < k.FusionWeights {
				small++
			}
		}
	default:
		return nil, &Missing{Part: "profile or model graph"}
	}
	if all <= k.FusionOperations || float64(small) <= k.FusionShare*float64(all) {
		return nil, nil
	}
	return &Suggestion{
		Title:       "Fuse small operations",
		Description: fmt.Sprintf("%d of the %d operations of a pass are small: they take about as long to start and to wait for as to run.", small, all),
		Expected:    Improvement{Latency: exactly(k.FusionLatency), Source: unmeasured},
		Steps:       []string{"Fuse each norm with the quantisation of the activations after it", "Multiply q, k and v, and gate and up, in one call each", "On a GPU, capture the pass as a graph"},
	}, nil
}}
