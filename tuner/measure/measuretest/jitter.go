package measuretest

import (
	"math"
	"math/rand/v2"
	"time"
)

// Jitter multiplies each sample by exp(sigma*Z), Z standard normal: 0.02 is a standard deviation of 2 %.
func Jitter(sigma float64) Noise {
	return func(r *rand.Rand) Effect {
		return func(s Sample) time.Duration { return scale(s.Took, math.Exp(sigma*r.NormFloat64())) }
	}
}
