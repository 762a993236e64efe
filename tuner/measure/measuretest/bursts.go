package measuretest

import (
	"math/rand/v2"
	"time"
)

// Bursts makes whole stretches of time slower by factor (1.3 is 30 %): they begin on average every gap and last on
// average length, both exponential (Gilbert's two-state channel, 1960). A sample that only overlaps one is slowed in
// part. Bad samples then come in company.
func Bursts(gap, length time.Duration, factor float64) Noise {
	return func(r *rand.Rand) Effect {
		slow, until := false, scale(gap, r.ExpFloat64())
		next := func() {
			slow = !slow
			mean := gap
			if slow {
				mean = length
			}
			until += max(1, scale(mean, r.ExpFloat64()))
		}
		return func(s Sample) time.Duration {
			for until <= s.Start {
				next()
			}
			at, left := s.Start, s.Took // left is work at full speed
			for {
				speed := 1.0
				if slow {
					speed = factor
				}
				if end := at + scale(left, speed); end <= until {
					return end - s.Start
				}
				left -= scale(until-at, 1/speed)
				at = until
				next()
			}
		}
	}
}
