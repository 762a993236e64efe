package placement

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// improver looks for a good assignment where proving the best takes too long: largest first, then local search, then
// again and again from an assignment with some models taken out (Lourenço, Martin and Stützle 2003). Its seed is fixed:
// the same instance gives the same assignment.
type improver struct {
	*state
	rng  *rand.Rand
	best solution
}

// usualModels is up to how many models local search is disturbed the full number of times; a descent takes a time that grows
// with the square of their number.
const usualModels = 20

// improve returns the best assignment that it finds.
func improve(in *instance, kicks int) solution {
	s := &improver{state: newState(in), rng: rand.New(rand.NewPCG(1, 2))}
	s.best = s.snapshot()
	for _, rule := range []rule{s.cheapest, s.tightest} {
		for _, order := range in.orders() {
			s.restore(solution{assign: filled(len(in.bytes), nowhere)})
			s.insert(order, rule)
			s.descend()
		}
	}
	if n := len(in.bytes); n > usualModels {
		kicks = kicks * usualModels * usualModels / (n * n)
	}
	for range kicks {
		if len(in.bytes) < 2 || s.best.unplaced == len(in.bytes) {
			break
		}
		if s.rng.IntN(2) == 0 {
			s.restore(s.best)
		}
		s.insert(s.kick(), []rule{s.cheapest, s.tightest, s.anywhere}[s.rng.IntN(3)])
		s.descend()
	}
	return s.best
}

// reopened is how many models are placed anew at once, and reopenedNodes over how many partial assignments. Fewer models, or
// those of two devices, left 8 of 400 instances of 12 to 20 models short of the optimum by up to 12 %; these, 3.
const (
	reopened      = 12
	reopenedNodes = 3000
)

// refine improves an assignment by placing a few models at a time anew, in the best way that there is for these few: those
// of three devices, and those left over (Shaw 1998).
func refine(in *instance, best solution, rounds int) solution {
	rng, twins := rand.New(rand.NewPCG(3, 4)), in.twins()
	for range rounds {
		a, b, c := rng.IntN(len(in.room)), rng.IntN(len(in.room)), rng.IntN(len(in.room))
		var free []int
		for _, i := range rng.Perm(len(in.bytes)) {
			if j := best.assign[i]; len(free) < reopened && (j == a || j == b || j == c || j == nowhere) {
				free = append(free, i)
			}
		}
		p := newProver(in, twins, best, free, reopenedNodes)
		p.visit(0)
		best = p.best
	}
	return best
}

func filled(n, value int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = value
	}
	return list
}

// orders are the orders in which models are placed at first: largest first, slowest first, and smallest first, which
// places the most where not all fit.
func (in *instance) orders() [][]int {
	largest := make([]int, len(in.bytes))
	for i := range largest {
		largest[i] = i
	}
	slowest := slices.Clone(largest)
	slices.SortStableFunc(largest, func(a, b int) int { return cmp.Compare(in.least(b), in.least(a)) })
	slices.SortStableFunc(slowest, func(a, b int) int { return cmp.Compare(in.quickest(b), in.quickest(a)) })
	smallest := slices.Clone(largest)
	slices.Reverse(smallest)
	return [][]int{largest, slowest, smallest}
}

// quickest is the time of model i where it is least.
func (in *instance) quickest(i int) uint64 {
	if len(in.room) == 0 {
		return 0
	}
	return slices.Min(in.time[i])
}

// rule chooses a device with room for model i; nowhere = there is none.
type rule func(i int) int

// insert places the models that are nowhere, in this order, each by the rule.
func (s *improver) insert(order []int, choose rule) {
	for _, i := range order {
		if s.assign[i] != nowhere {
			continue
		}
		if j := choose(i); j != nowhere {
			s.place(i, j)
		}
	}
}

// cheapest is the device with room on which model i raises the score least.
func (s *improver) cheapest(i int) int {
	best := nowhere
	for j := range s.in.room {
		if !s.fits(i, j) {
			continue
		}
		if j == s.in.want[i] {
			return j
		}
		if best == nowhere || s.marginal(i, j) < s.marginal(i, best) {
			best = j
		}
	}
	return best
}

// tightest is the device with room on which model i leaves least: it keeps larger pieces for larger models.
func (s *improver) tightest(i int) int {
	best := nowhere
	for j := range s.in.room {
		if s.fits(i, j) && (best == nowhere || s.after(i, j) < s.after(i, best)) {
			best = j
		}
	}
	return best
}

// after is the room that is left on device j with model i.
func (s *improver) after(i, j int) uint64 { return s.in.room[j] - s.load[j] - s.in.bytes[i][j] }

// anywhere is one of the devices with room.
func (s *improver) anywhere(i int) int {
	chosen, seen := nowhere, 0
	for j := range s.in.room {
		if !s.fits(i, j) {
			continue
		}
		if seen++; s.rng.IntN(seen) == 0 {
			chosen = j
		}
	}
	return chosen
}

// kick takes some models out, and returns all models in an order in which to put them back: those that were left over
// first, then those taken out.
func (s *improver) kick() []int {
	order := s.rng.Perm(len(s.assign))
	out := 2 + s.rng.IntN(len(order)-1)
	if s.rng.IntN(4) > 0 {
		out = min(out, 2+len(order)/3)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(min(s.assign[a], 0), min(s.assign[b], 0))
	})
	for _, i := range order[:min(len(order), out+s.unplaced)] {
		if s.assign[i] != nowhere {
			s.remove(i)
		}
	}
	if s.rng.IntN(2) == 0 {
		s.rng.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
	}
	return order
}

// descend improves the assignment move by move until no move helps, and keeps it if it is the best so far.
func (s *improver) descend() {
	for s.step() {
	}
	if s.score.less(s.best.score) {
		s.best = s.snapshot()
	}
}

// step makes moves that improve the score, and reports whether it made one.
func (s *improver) step() bool {
	moved := false
	for i := range s.assign {
		if s.moveOne(i) {
			moved = true
		}
		for other := range i {
			if s.swap(i, other) {
				moved = true
			}
		}
	}
	return moved
}

// moveOne moves model i to where it is better off.
func (s *improver) moveOne(i int) bool {
	before, from := s.score, s.assign[i]
	if from != nowhere {
		s.remove(i)
	}
	best, to := before, from
	for j := range s.in.room {
		if j == from || !s.fits(i, j) {
			continue
		}
		s.place(i, j)
		if s.score.less(best) {
			best, to = s.score, j
		}
		s.remove(i)
	}
	if to != nowhere {
		s.place(i, to)
	}
	return to != from
}

// swap lets two models change places, if that is better; one of them may be nowhere, and then the other is put where it is
// best off, if anywhere.
func (s *improver) swap(a, b int) bool {
	from, to := s.assign[a], s.assign[b]
	if from == to {
		return false
	}
	before := s.score
	for _, i := range []int{a, b} {
		if s.assign[i] != nowhere {
			s.remove(i)
		}
	}
	s.settle(a, to)
	s.settle(b, from)
	if s.score.less(before) {
		return true
	}
	s.back(a, from, b, to)
	return false
}

// back puts two models back to where they were.
func (s *improver) back(a, from, b, to int) {
	for _, i := range []int{a, b} {
		if s.assign[i] != nowhere {
			s.remove(i)
		}
	}
	if from != nowhere {
		s.place(a, from)
	}
	if to != nowhere {
		s.place(b, to)
	}
}

// settle places model i on device j if it fits there, or, with nowhere, where it is cheapest.
func (s *improver) settle(i, j int) {
	if j == nowhere {
		j = s.cheapest(i)
	}
	if j != nowhere && s.fits(i, j) {
		s.place(i, j)
	}
}
