package measuretest

import (
	"math/rand/v2"
	"time"
)

// Bimodal makes each sample slower by factor with that probability: two clock states, two alignments.
func Bimodal(probability, factor float64) Noise {
	return func(r *rand.Rand) Effect {
		return func(s Sample) time.Duration {
			if r.Float64() < probability {
				return scale(s.Took, factor)
			}
			return s.Took
		}
	}
}
