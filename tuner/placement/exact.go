package placement

import (
	"cmp"
	"slices"
)

// prover searches all assignments depth first, the largest models first, and leaves out what cannot beat the best that
// is known (Land and Doig 1960).
type prover struct {
	state
	order []int // models, the largest first
	small []int // models, the smallest first
	twin  []int // by device: the device before it that is like it in every way; nowhere = none
	best  solution
	nodes int
	limit int

	next  []uint64 // see estimate
	costs []uint64 // room for bound
}

// prove improves best as far as possible. It is proven unless that would have taken more than limit partial assignments.
func prove(in *instance, best solution, limit int) solution {
	all := make([]int, len(in.bytes))
	for i := range all {
		all[i] = i
	}
	p := newProver(in, in.twins(), best, all, limit)
	p.visit(0)
	p.best.proven, p.best.nodes = p.nodes <= limit, p.nodes
	return p.best
}

// newProver returns a prover of the free models; all others stay where best has them.
func newProver(in *instance, twins []int, best solution, free []int, limit int) *prover {
	p := &prover{state: *newState(in), best: best, limit: limit, twin: twins, order: slices.Clone(free), small: slices.Clone(free), next: make([]uint64, len(in.bytes))}
	p.restore(best)
	for _, i := range free {
		if p.assign[i] != nowhere {
			p.remove(i)
		}
	}
	slices.SortStableFunc(p.order, func(a, b int) int { return cmp.Compare(in.least(b), in.least(a)) })
	slices.SortStableFunc(p.small, func(a, b int) int { return cmp.Compare(in.least(a), in.least(b)) })
	return p
}

// least is what model i takes where it takes least.
func (in *instance) least(i int) uint64 {
	if len(in.room) == 0 {
		return forbidden
	}
	return slices.Min(in.bytes[i])
}

// twins tells for each device which one before it is like it.
func (in *instance) twins() []int {
	twin := make([]int, len(in.room))
	for j := range twin {
		twin[j] = nowhere
		for before := range j {
			if in.alike(j, before) {
				twin[j] = before
			}
		}
	}
	return twin
}

// alike reports whether no model can tell the two devices apart.
func (in *instance) alike(a, b int) bool {
	if in.room[a] != in.room[b] {
		return false
	}
	for i := range in.bytes {
		if in.bytes[i][a] != in.bytes[i][b] || in.time[i][a] != in.time[i][b] || in.want[i] == a || in.want[i] == b {
			return false
		}
	}
	return true
}

func (p *prover) visit(depth int) {
	if p.nodes++; p.nodes > p.limit {
		return
	}
	if depth == len(p.order) {
		if p.score.less(p.best.score) {
			p.best = p.snapshot()
		}
		return
	}
	if !p.bound(depth).less(p.best.score) {
		return
	}
	i := p.order[depth]
	for _, j := range p.choices(i) {
		p.place(i, j)
		p.visit(depth + 1)
		p.remove(i)
	}
	p.visit(depth + 1) // without model i
}

// choices are the devices for model i, the most promising first. Of devices that are alike and hold equal loads, one is
// enough.
func (p *prover) choices(i int) []int {
	var list []int
	for j := range p.in.room {
		if p.fits(i, j) && !p.repeats(j) {
			list = append(list, j)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int {
		if wantA, wantB := p.in.want[i] == a, p.in.want[i] == b; wantA != wantB {
			if wantA {
				return -1
			}
			return 1
		}
		return cmp.Compare(p.marginal(i, a), p.marginal(i, b))
	})
	return list
}

// repeats reports whether a device before j is like it and holds as much.
func (p *prover) repeats(j int) bool {
	for other := p.twin[j]; other != nowhere; other = p.twin[other] {
		if p.load[other] == p.load[j] && p.count[other] == p.count[j] && p.sum[other] == p.sum[j] {
			return true
		}
	}
	return false
}

// bound is a score that no way to place the models from depth on can go below. A model without room now will have none.
// Of the others at most so many are placed as would fit if all free room were in one piece and the smallest came first;
// each of these costs at least what it would cost next, where it would cost least.
func (p *prover) bound(depth int) score {
	low := score{missed: p.missed, cost: p.cost}
	var free uint64
	for j, room := range p.in.room {
		free += room - p.load[j]
	}
	p.estimate(depth)
	p.costs = p.costs[:0]
	placeable := 0
	for _, i := range p.small {
		if p.next[i] == forbidden {
			continue
		}
		p.costs = append(p.costs, p.next[i])
		if least := p.in.least(i); least <= free {
			free -= least
			placeable++
		}
		if want := p.in.want[i]; want >= 0 && p.fits(i, want) {
			low.missed--
		}
	}
	low.unplaced = p.unplaced - placeable
	slices.Sort(p.costs)
	for _, cost := range p.costs[:placeable] {
		low.cost += cost
	}
	return low
}

// estimate sets next: what each model from depth on would cost next where it would cost least; forbidden = it has no room.
func (p *prover) estimate(depth int) {
	for i := range p.next {
		p.next[i] = forbidden
	}
	for _, i := range p.order[depth:] {
		for j := range p.in.room {
			if p.fits(i, j) {
				p.next[i] = min(p.next[i], p.marginal(i, j))
			}
		}
	}
}
