package online

import "math"

// kept is how many of an arm's latest costs a Memory holds: enough to prove the arm again.
const kept = 16

// Memory is what one context learned, in a form that can be stored: a Chooser that is given it goes on from there.
type Memory struct {
	Context   Context // its class: the least batch and load of it
	Incumbent int
	Requests  float64
	// Costs are each arm's latest costs relative to the incumbent's at the time, oldest first.
	Costs [][]float64
}

// Memories returns what every context learned that has seen a report.
func (c *Chooser) Memories() []Memory {
	var list []Memory
	for i := range c.states {
		s := c.states[i].Load()
		if s == nil {
			continue
		}
		if m, ok := s.memory(); ok {
			m.Context = place(uint16(i))
			list = append(list, m)
		}
	}
	return list
}

// place is the class of the contexts of an index.
func place(i uint16) Context {
	return Context{Batch: 1 << (i / loadClasses), Load: float64(i%loadClasses) / loadClasses}
}

func (s *state) memory() (Memory, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := Memory{Incumbent: s.incumbent, Requests: s.requests, Costs: make([][]float64, len(s.arms))}
	for a := range s.arms {
		for _, d := range s.arms[a].recall() {
			m.Costs[a] = append(m.Costs[a], math.Exp(d))
		}
	}
	return m, s.settled
}

// recall lists the latest log costs, oldest first.
func (r *record) recall() []float64 {
	list := make([]float64, min(r.looks, kept))
	for i := range list {
		list[i] = float64(r.latest[(r.looks-len(list)+i)%kept])
	}
	return list
}

// shift moves everything that an arm showed to another baseline.
func (r *record) shift(by float64) {
	r.mean -= by
	for i := range r.latest {
		r.latest[i] -= float32(by)
	}
}

// Recall takes up what another chooser of the same arms learned. Costs that are not positive numbers and arms that do not
// exist are passed over: a memory may come from a file.
func (c *Chooser) Recall(list ...Memory) {
	for _, m := range list {
		if m.Incumbent < 0 || m.Incumbent >= len(c.opt.Arms) {
			continue
		}
		s := c.state(m.Context.index())
		s.mu.Lock()
		s.incumbent = m.Incumbent
		for a := range s.arms {
			if a < len(m.Costs) {
				for _, cost := range m.Costs[a] {
					if cost > 0 && !math.IsInf(cost, 1) {
						c.learn(s, a, math.Log(cost))
					}
				}
			}
		}
		s.mu.Unlock()
	}
}
