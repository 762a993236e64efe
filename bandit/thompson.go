package bandit

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distmv"
	"gonum.org/v1/gonum/stat/distuv"
)

func init() { register("thompson", newThompson) }

// thompson draws the costs of all points together from the posterior and asks for the cheapest of the draw (Thompson
// 1933; Russo et al. 2018), or, every other time, draws again until another one is the cheapest: the top-two rule,
// which doubts the leader where plain sampling would repeat it (Russo 2020). The posterior shares what is measured
// between points by the effects of knobs. It ends when no point that may still be asked is likely to be better than
// the best by more than Options.Margin.
type thompson struct{ *ledger }

var _ Strategy = (*thompson)(nil)

func newThompson(l *ledger) Strategy { return &thompson{l} }

const (
	// firstLooks is how many points are tried before the posterior has a say.
	firstLooks = 4
	// poolSize bounds the unmeasured points that are considered in one step, and drawSize those that are drawn.
	poolSize, drawSize = 1024, 64
	// unlikely is the probability below which a point is given up.
	unlikely = 0.001
)

// Ask implements Strategy.
func (t *thompson) Ask(n int) []Trial { return t.askEach(n, t.next) }

func (t *thompson) next() (int, bool) {
	if i, ok := t.nextStart(); ok {
		return i, true
	}
	dice := t.dice()
	b := t.belief()
	if b == nil || len(t.arms) < firstLooks {
		if i, ok := t.explore(dice); ok {
			return i, true
		}
	}
	if b == nil {
		return 0, false
	}
	pool := t.promising(b, t.pool(b, dice))
	if len(pool) == 0 {
		return 0, false
	}
	points := make([]Point, len(pool))
	for i := range pool {
		points[i] = t.space.At(pool[i].point)
		pool[i].feasible = t.feasible(points[i])
	}
	return topTwo(pool, b.joint(points, dice), dice), true
}

// pool returns the points that may be asked now; of many, a random selection and what is next to the best.
func (t *thompson) pool(b *belief, dice *rand.Rand) []int {
	var live []int
	for i := range t.space.Size() {
		if t.live(i) {
			live = append(live, i)
		}
	}
	if len(live) <= poolSize {
		return live
	}
	dice.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
	live = live[:poolSize]
	const leaders = 8
	for _, e := range b.points[:min(leaders, len(b.points))] {
		for _, i := range append(t.space.neighbours(e.point), e.point) {
			if t.live(i) {
				live = append(live, i)
			}
		}
	}
	slices.Sort(live)
	return slices.Compact(live)
}

// candidate is a point that may be asked next.
type candidate struct {
	point    int
	bound    float64 // how low its log cost may be: posterior mean minus two standard deviations
	feasible float64
}

// promising returns the drawSize points whose cost may be the lowest; none where no point but the leader has a chance
// to beat the leader by the margin.
func (t *thompson) promising(b *belief, live []int) []candidate {
	if len(live) == 0 {
		return nil
	}
	points := t.space.all(live)
	means, deviations := b.predict(points)
	leader := b.points[0]
	goal := leader.score - math.Log1p(t.opt.Margin)
	open := false
	pool := make([]candidate, len(live))
	for i, point := range live {
		pool[i] = candidate{point: point, bound: grains(means[i] - 2*deviations[i])}
		chance := distuv.UnitNormal.CDF((goal - means[i]) / deviations[i])
		open = open || point != leader.point && chance > unlikely
	}
	if !open {
		return nil
	}
	slices.SortFunc(pool, func(x, y candidate) int { return cmp.Or(cmp.Compare(x.bound, y.bound), x.point-y.point) })
	return pool[:min(drawSize, len(pool))]
}

// topTwo returns the cheapest point of a draw, or with probability 1/2 the cheapest of a further one that differs.
func topTwo(pool []candidate, posterior *distmv.Normal, dice *rand.Rand) int {
	first := cheapest(pool, posterior, dice)
	if dice.IntN(2) == 0 {
		return first
	}
	const draws = 10
	for range draws {
		if second := cheapest(pool, posterior, dice); second != first {
			return second
		}
	}
	return first
}

// cheapest draws costs and what is feasible and returns the best point of the draw; where none is feasible, the one
// with the best bound. One number decides for all points, because points fail for common reasons: with a number each,
// one of many hopeless points would always pass.
func cheapest(pool []candidate, posterior *distmv.Normal, dice *rand.Rand) int {
	costs, luck := posterior.Rand(nil), dice.Float64()
	point, least := pool[0].point, math.Inf(1)
	for i, c := range pool {
		if cost := grains(costs[i]); luck < c.feasible && cost < least {
			point, least = c.point, cost
		}
	}
	return point
}
