package measuretest

import (
	"math"
	"math/rand/v2"
	"time"
)

// Drift makes the host slower and faster by amplitude (0.05 is 5 %) in a slow wave of that period, which begins at a
// random phase: heat, a neighbour's day.
func Drift(amplitude float64, period time.Duration) Noise {
	return func(r *rand.Rand) Effect {
		phase := 2 * math.Pi * r.Float64()
		return func(s Sample) time.Duration {
			return scale(s.Took, 1+amplitude*math.Sin(phase+2*math.Pi*float64(s.Start)/float64(period)))
		}
	}
}
