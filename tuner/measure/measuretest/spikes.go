package measuretest

import (
	"math"
	"math/rand/v2"
	"time"
)

// Spikes spoils one sample in every that many, half of them too slow and half of them too fast (a clock that boosts, a
// timer that slips): by a factor of exp(±size*U), U uniform in [0.5, 1.5). Estimators that trust the minimum are
// caught by the fast half.
func Spikes(every int, size float64) Noise {
	return func(r *rand.Rand) Effect {
		return func(s Sample) time.Duration {
			if r.IntN(every) != 0 {
				return s.Took
			}
			exponent := size * (0.5 + r.Float64())
			if r.IntN(2) == 0 {
				exponent = -exponent
			}
			return scale(s.Took, math.Exp(exponent))
		}
	}
}
