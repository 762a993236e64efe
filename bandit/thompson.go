package bandit

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
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
	return t.topTwo(draw{pool, b.joint(pool)}, dice), true
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
	for _, leader := range b.points[:min(leaders, len(b.points))] {
		for _, i := range append(t.space.neighbours(leader), leader) {
			if t.live(i) {
				live = append(live, i)
			}
		}
	}
	slices.Sort(live)
	return slices.Compact(live)
}

// promising returns the drawSize points whose cost may be the lowest: the least posterior mean minus two standard
// deviations. None where no point but the leader has a chance to beat the leader by the margin.
func (t *thompson) promising(b *belief, live []int) []prediction {
	goal := b.score - math.Log1p(t.opt.Margin)
	open := false
	pool := b.predict(live)
	for _, p := range pool {
		chance := distuv.UnitNormal.CDF((goal - p.mean) / p.deviation)
		open = open || p.point != b.points[0] && chance > unlikely
	}
	if !open {
		return nil
	}
	bound := func(p prediction) float64 { return grains(p.mean - 2*p.deviation) }
	slices.SortFunc(pool, func(x, y prediction) int { return cmp.Or(cmp.Compare(bound(x), bound(y)), x.point-y.point) })
	return pool[:min(drawSize, len(pool))]
}

// draw is where costs are drawn from: points, the best bound first, and the factor of their joint covariance.
type draw struct {
	pool   []prediction
	factor blas64.Triangular
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
	blas64.Trmv(blas.NoTrans, d.factor, blas64.Vector{N: len(costs), Inc: 1, Data: costs})
	for i, p := range d.pool {
		costs[i] += p.mean
	}
	return costs
}
