package measuretest

import (
	"math/rand/v2"
	"time"
)

// Steal lets the hypervisor take the CPU away: on average every gap of running time for on average length, both
// exponential. It shows in Counters.Steal.
func Steal(gap, length time.Duration) Noise {
	return func(r *rand.Rand) Effect {
		next := scale(gap, r.ExpFloat64()) // running time until the next one
		return func(s Sample) time.Duration {
			took := s.Took
			for next -= s.Took; next <= 0; next += max(1, scale(gap, r.ExpFloat64())) {
				stolen := scale(length, r.ExpFloat64())
				s.Counters.Steal += stolen
				took += stolen
			}
			return took
		}
	}
}
