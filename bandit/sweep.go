package bandit

// sweep asks for one sample of every point in a given order, start points first, and again from the beginning until
// every point has enough samples.
type sweep struct {
	*ledger
	order func(at int) int // the point at a place of the order; 0 <= at < Size
	at    int              // how far this pass has come
	asked bool             // this pass has asked something, so another one of its round must look for what came back
	round int              // a point is asked while it has at most this many samples
}

// Ask implements Strategy.
func (s *sweep) Ask(n int) []Trial { return s.askEach(n, s.next) }

func (s *sweep) next() (int, bool) {
	if i, ok := s.nextStart(); ok {
		return i, true
	}
	for s.round < s.opt.Samples {
		for ; s.at < s.space.Size(); s.at++ {
			if i := s.order(s.at); s.live(i) && s.samples(i) <= s.round {
				s.asked = true
				return i, true
			}
		}
		if s.open > 0 {
			return 0, false
		}
		if !s.asked {
			s.round++
		}
		s.at, s.asked = 0, false
	}
	return 0, false
}
