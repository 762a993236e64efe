package bandit

import (
	"math"
	"math/rand/v2"
	"slices"

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
	// poolSize is the largest space of which all points are considered in one step. Of a larger one it is so many
	// strangers, and the neighbours of so many of the best.
	poolSize, strangers, leaders = 1024, 256, 8
	// drawSize bounds the points that are drawn.
	drawSize = 64
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
	pool := t.promising(b, t.pool(b, dice, t.tapered(strangers)))
	if len(pool) == 0 && t.space.Size() > poolSize { // in a large space few do not speak for all
		pool = t.promising(b, t.pool(b, dice, poolSize))
	}
	if len(pool) == 0 {
		return 0, false
	}
	return t.topTwo(draw{pool, b.joint(pool)}, dice), true
}

// pool returns the points that may be asked now, ascending; of a large space n strangers and what is next to the best.
func (t *thompson) pool(b *belief, dice *rand.Rand, n int) []int {
	var pool []int
	add := func(i int) {
		if t.live(i) {
			pool = append(pool, i)
		}
	}
	if t.space.Size() <= poolSize {
		for i := range t.space.Size() {
			add(i)
		}
		return pool
	}
	pool = t.strangers(n, dice)
	for _, leader := range b.points[:min(leaders, len(b.points))] {
		add(leader)
		for _, i := range t.space.neighbours(leader) {
			add(i)
		}
	}
	slices.Sort(pool)
	return slices.Compact(pool)
}

// promising returns the drawSize points whose cost may be the lowest: the least posterior mean minus two standard
// deviations, which are dear to compute: so points are left when their bound can no longer be among the best. None where
// no point but the leader has a chance to beat the leader by the margin.
func (t *thompson) promising(b *belief, live []int) []prediction {
	pool, most := b.predict(live), t.tapered(drawSize)
	bound := func(i int) rank { return rank{grains(pool[i].mean - 2*pool[i].deviation), i} }
	var best []rank
	for _, r := range ascending(len(pool), func(i int) float64 { return pool[i].mean }) {
		p := &pool[r.point]
		hopeless := func() bool { return len(best) == most && bound(r.point).compare(best[most-1]) > 0 }
		for !b.exact(p) && !hopeless() {
			b.refine(p)
		}
		if hopeless() {
			continue
		}
		best = best[:min(len(best), most-1)]
		at, _ := slices.BinarySearchFunc(best, bound(r.point), rank.compare)
		best = slices.Insert(best, at, bound(r.point))
	}
	chosen := make([]prediction, len(best))
	for i, r := range best {
		chosen[i] = pool[r.point]
	}
	if !t.hope(b, chosen) && !t.hope(b, pool) {
		return nil
	}
	return chosen
}

// hope reports whether a point other than the leader has a chance to beat it by the margin.
func (t *thompson) hope(b *belief, pool []prediction) bool {
	goal := b.score - math.Log1p(t.opt.Margin)
	for i := range pool {
		p := &pool[i]
		chance := func() float64 { return distuv.UnitNormal.CDF((goal - p.mean) / p.deviation) }
		for !b.exact(p) && chance() > unlikely {
			b.refine(p)
		}
		if p.point != b.points[0] && chance() > unlikely {
			return true
		}
	}
	return false
}

// draw is where costs are drawn from: points, the best bound first, and the factor of their joint covariance.
type draw struct {
	pool   []prediction
	factor triangle
}

// topTwo returns the cheapest point of a draw, or with probability 1/2 the cheapest of a further one that differs.
func (t *thompson) topTwo(d draw, dice *rand.Rand) int {
	first := t.cheapest(d, dice)
	if dice.IntN(2) == 0 {
		return first
	}
	const draws = 10
	for range draws {
		if second := t.cheapest(d, dice); second != first {
			return second
		}
	}
	return first
}

// cheapest draws costs and what is feasible and returns the best point of the draw; where none is feasible, the one
// with the best bound. One number decides for all points, because points fail for common reasons: with a number each,
// one of many hopeless points would always pass.
func (t *thompson) cheapest(d draw, dice *rand.Rand) int {
	costs, luck := d.costs(dice), dice.Float64()
	point, least := d.pool[0].point, math.Inf(1)
	for i, p := range d.pool {
		if cost := grains(costs[i]); cost < least && luck < t.feasible(t.space.At(p.point)) {
			point, least = p.point, cost
		}
	}
	return point
}

// costs draws log costs.
func (d draw) costs(dice *rand.Rand) []float64 {
	costs := make([]float64, len(d.pool))
	for i := range costs {
		costs[i] = dice.NormFloat64()
	}
	d.factor.colour(costs)
	for i, p := range d.pool {
		costs[i] += p.mean
	}
	return costs
}
