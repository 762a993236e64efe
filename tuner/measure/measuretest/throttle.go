package measuretest

import (
	"math/rand/v2"
	"time"
)

// Throttle stops the host for the rest of a period once the samples in it have used quota, as CFS bandwidth control
// does with a cgroup, and shows it in Counters.Throttled and ThrottledTime.
func Throttle(quota, period time.Duration) Noise {
	return func(*rand.Rand) Effect {
		var current, used time.Duration // the period that used counts for, by its number
		return func(s Sample) time.Duration {
			at, left := s.Start, s.Took
			for {
				if number := at / period; number != current {
					current, used = number, 0
				}
				end := (current + 1) * period
				step := min(left, quota-used, end-at)
				at, left, used = at+step, left-step, used+step
				if left == 0 {
					return at - s.Start
				}
				if used == quota && at < end {
					s.Counters.Throttled++
					s.Counters.ThrottledTime += end - at
				}
				at = end
			}
		}
	}
}
