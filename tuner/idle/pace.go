package idle

import "time"

// Pace bounds the share of the time that bursts of work take: each is followed by a rest as long as it has earned. So in any
// span of time work takes at most Share of it, and one burst. It is for one goroutine.
type Pace struct {
	Share float64 // above 0, at most 1

	next time.Time
}

// Next is when the next burst may begin.
func (p *Pace) Next() time.Time { return p.next }

// Worked takes down a burst that ended at a moment.
func (p *Pace) Worked(until time.Time, d time.Duration) {
	if until.Before(p.next) { // it began before it might
		until = p.next
	}
	p.next = until.Add(time.Duration(float64(d) * (1/p.Share - 1)))
}

// Besides takes down what was worked while it should rest: the rest is longer by it.
func (p *Pace) Besides(d time.Duration) { p.next = p.next.Add(time.Duration(float64(d) / p.Share)) }
