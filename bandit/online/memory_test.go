package online

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A chooser that takes up another's memory serves the same arm from the first request on, and believes of the others what
// the first did, within the noise of so few samples.
func TestRecallGoesOnFromThere(t *testing.T) {
	arms := []Arm{{}, {Gain: 1.02, Low: 0.99, High: 1.05}, {Gain: 1, Low: 0.97, High: 1.03}}
	few, many := Context{Batch: 1}, Context{Batch: 300, Load: 0.8}
	first := New(Options{Arms: arms})
	dice := rand.New(rand.NewPCG(5, 5))
	costs := map[Context][]float64{few: {1, 0.85, 1.05}, many: {1, 1.1, 1}}
	for range 5000 {
		for of, cost := range costs {
			choice := first.Choose(of)
			first.Report(choice, cost[choice.Arm]*math.Exp(0.05*dice.NormFloat64()))
		}
	}
	memories := first.Memories()
	if len(memories) != 2 {
		t.Fatalf("%d memories: want one for each of the 2 contexts", len(memories))
	}
	second := New(Options{Arms: arms})
	second.Recall(memories...)
	for _, of := range []Context{few, many} {
		if a, b := first.Incumbent(of), second.Incumbent(of); a != b {
			t.Errorf("%+v: arm %d served before and %d after: want the same", of, a, b)
		}
	}
	if got := second.Choose(few).Arm; got != 1 {
		t.Errorf("the first request goes to arm %d: want 1", got)
	}
	s := second.state(few.index())
	if b := second.believe(s, 0); b.mean < 0.05 {
		t.Errorf("arm 0 is believed %.3f slower than arm 1: want about 0.16", b.mean)
	}
}

func TestRecallOfNonsense(t *testing.T) {
	c := New(Options{Arms: []Arm{{}, {}}})
	c.Recall(Memory{Incumbent: 7}, Memory{Incumbent: -1}, Memory{Incumbent: 1, Costs: [][]float64{{math.NaN(), -1, 0, math.Inf(1)}, nil, {1, 2}}})
	if got := c.Incumbent(Context{}); got != 1 {
		t.Errorf("arm %d serves: want 1, which the one possible memory names", got)
	}
	if w := c.state(0).arms[0].weight; w != 0 {
		t.Errorf("costs that are no costs count for %g samples", w)
	}
}
