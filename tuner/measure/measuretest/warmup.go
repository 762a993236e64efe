package measuretest

import (
	"math"
	"math/rand/v2"
	"time"
)

// WarmUp makes the first iterations of an arm slower: by extra (1 is twice as slow) at the beginning, and by a factor
// of e less after each so many iterations.
func WarmUp(extra float64, iterations int) Noise {
	return func(*rand.Rand) Effect {
		return func(s Sample) time.Duration {
			return scale(s.Took, 1+extra*math.Exp(-float64(s.Done)/float64(iterations)))
		}
	}
}
