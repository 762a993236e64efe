//go:build candidates

package bandit

import (
	"math"
	"math/rand/v2"
)

func init() {
	register("neighbourhoods", func(l *ledger) Strategy { return newNeighbourhoods(l) })
}

// neighbourhoods is a variable neighbourhood search (Mladenović and Hansen 1997) that never repeats a point, chooses
// among its neighbourhoods by a bandit on what they earned (UCB1; Auer et al. 2002) with a memory that fades, and
// restarts from another of the best when the present one has earned nothing for long. What was earned depends on the
// order of the answers, so that a log told to a new one restores it only in part.
type neighbourhoods struct {
	*ledger
	earned, tries [5]float64
	open          map[int]int // neighbourhood by point
	centre        int         // -1 = none
	idle          int
}

func newNeighbourhoods(l *ledger) *neighbourhoods {
	return &neighbourhoods{ledger: l, open: map[int]int{}, centre: -1}
}

// Ask implements Strategy.
func (s *neighbourhoods) Ask(n int) []Trial { return s.askEach(n, s.next) }

// Tell implements Strategy.
func (s *neighbourhoods) Tell(done ...Trial) {
	for _, t := range done {
		before := math.Inf(1)
		if s.centre >= 0 && len(s.arm(s.centre).logs) > 0 {
			before = median(s.arm(s.centre).logs)
		}
		s.ledger.Tell(t)
		i, ok := s.space.Index(t.Point)
		if !ok {
			continue
		}
		h, asked := s.open[i]
		delete(s.open, i)
		reward := 0.0
		s.idle++
		if a := s.arm(i); a.good() && grains(median(a.logs)) < grains(before) {
			s.centre, s.idle, reward = i, 0, 1
		}
		if asked {
			for k := range s.tries {
				s.earned[k] *= 0.97
				s.tries[k] *= 0.97
			}
			s.earned[h] += reward
			s.tries[h]++
		}
	}
}

func (s *neighbourhoods) next() (int, bool) {
	if i, ok := s.begin(); ok {
		return i, true
	}
	dice := s.dice()
	best := s.ranked()
	const patience = 30
	if len(best) > 0 && (s.centre < 0 || !s.arm(s.centre).good() || s.idle >= patience) {
		s.centre, s.idle = best[min(dice.IntN(min(16, len(best))), dice.IntN(min(16, len(best))))].point, 0
	}
	if s.centre >= 0 {
		for range 8 {
			h := s.choose(dice)
			if i, ok := s.within(h, dice); ok {
				s.open[i] = h
				return i, true
			}
			s.tries[h] += 0.3
		}
	}
	if stray := s.strangers(1, dice); len(stray) > 0 {
		return stray[0], true
	}
	return s.least(s.live)
}

// choose returns the neighbourhood with the highest confidence bound.
func (s *neighbourhoods) choose(dice *rand.Rand) int {
	all := 1.0
	for _, n := range s.tries {
		all += n
	}
	choice, most := 0, math.Inf(-1)
	for h, n := range s.tries {
		m := (s.earned[h]+0.2)/(n+0.5) + 0.3*math.Sqrt(math.Log(all)/(n+0.5)) + 1e-3*dice.Float64()
		if m > most {
			choice, most = h, m
		}
	}
	return choice
}

// within returns a fresh point of a neighbourhood of the centre: next to it in one knob; with any other value of one
// knob; next to it in two; a child of the best; anywhere near a neighbour of a neighbour.
func (s *neighbourhoods) within(h int, dice *rand.Rand) (int, bool) {
	switch h {
	case 0:
		return s.beside(s.centre, dice)
	case 3:
		return s.child(dice)
	case 4:
		near := s.space.neighbours(s.centre)
		if len(near) == 0 {
			return 0, false
		}
		return s.beside(near[dice.IntN(len(near))], dice)
	}
	for range 30 {
		p := s.space.At(s.centre)
		for range h {
			k := dice.IntN(len(p))
			if count := len(s.space.knobs[k].Values); count > 1 {
				if h == 1 {
					p[k] = (p[k] + 1 + dice.IntN(count-1)) % count
				} else {
					p[k] = mutate(s.space.knobs[k], p[k], dice)
				}
			}
		}
		if i, ok := s.space.Index(p); ok && s.fresh(i) && dice.Float64() < s.feasible(p) {
			return i, true
		}
	}
	return 0, false
}
