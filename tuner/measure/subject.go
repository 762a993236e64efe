package measure

import (
	"context"
	"time"
)

// Subject is one thing that can be timed: a kernel configuration, a command, a recorded table, a simulator.
type Subject struct {
	// Name says in logs and records what was timed.
	Name string
	// Units is how much useful work one iteration does (tokens for a model); a cost is nanoseconds per unit.
	// If Units is 0, 1 is used.
	Units float64
	// Run does n iterations and returns how long they took. The time is the subject's own: a wall clock for
	// real work, a virtual one for a simulation. An error ends the measurement of this subject.
	Run func(ctx context.Context, n int) (time.Duration, error)
}

// cost is nanoseconds per unit when n iterations took that long.
func (s Subject) cost(took time.Duration, n int) float64 {
	return float64(took) / (float64(n) * orDefault(s.Units, 1))
}
