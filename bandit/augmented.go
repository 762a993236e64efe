package bandit

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// augmented is bayes where samples are noisy. It asks for the greatest augmented expected improvement (Huang et al. 2006),
//
//	E[max(0, leader - cost(p))] · (1 - σ / √(σ² + s(p)²)) · P(p does not fail)
//
// where σ is the noise of a sample and s(p) what is uncertain of the cost of p: a point is asked again while that is more
// than another sample would leave, so that the leader and its rivals get repeats and the others none. The process knows
// of every point how firm its samples are. The search ends when every point was asked and none is likely to be better
// than the leader by more than Options.Margin.
type augmented struct{ bayes }

var _ Strategy = (*augmented)(nil)

// noisySquashed is settings.Squashed where samples are noisy. It matters little: experiments/2026-11-noise.
const noisySquashed = 0.3

// Ask implements Strategy.
func (a *augmented) Ask(n int) []Trial { return a.askEach(n, a.next) }

func (a *augmented) next() (int, bool) {
	if i, ok := a.nextStart(); ok {
		return i, true
	}
	dice := a.dice()
	if len(a.arms) < a.set.FirstPoints || len(a.ranked()) < 2 {
		if i, ok := a.distant(dice); ok {
			return i, true
		}
	}
	if len(a.ranked()) == 0 {
		return 0, false
	}
	scale := noiseScale(a.arms)
	v := a.view(scale)
	leader, rivals := a.rivals(v)
	pool := append(a.pool(dice), rivals...)
	if len(pool) == 0 {
		return 0, false
	}
	if a.live(leader.point) {
		pool = append(pool, leader.point)
	}
	choice, most := pool[0], math.Inf(-1)
	noise := math.Hypot(scale, badSample)
	for _, i := range pool {
		p := v.predict(i)
		m := logImprovement(leader.mean-p.mean, p.deviation) + math.Log1p(-noise/math.Hypot(noise, p.deviation))
		if grains(m) <= most {
			continue
		}
		if m = grains(m + math.Log(a.feasible(a.space.At(i)))); m > most {
			choice, most = i, m
		}
	}
	return choice, true
}

// rivals returns the best known point, by its mean and half a standard deviation, and the known ones that may be asked
// again because they may be better.
func (a *augmented) rivals(v *view) (leader prediction, rivals []int) {
	least := math.Inf(1)
	known := make([]prediction, len(v.data))
	for i, d := range v.data {
		known[i] = v.predict(d.point)
		if score := grains(known[i].mean + known[i].deviation/2); score < least {
			leader, least = known[i], score
		}
	}
	goal := leader.mean + leader.deviation/2 - math.Log1p(a.opt.Margin)
	for _, p := range known {
		chance := distuv.UnitNormal.CDF((goal - p.mean) / p.deviation)
		if p.point != leader.point && a.live(p.point) && chance > unlikely {
			rivals = append(rivals, p.point)
		}
	}
	return leader, rivals
}

// view is what a process says given noisy samples.
type view struct {
	gaussian
	data  []datum     // that it is conditioned on, cheapest first
	place map[int]int // of each of their points in data
	row   []float64
	point Point
}

// view conditions a process whose scales are chosen on few points, as bayes does.
func (a *augmented) view(scale float64) *view {
	if fit := a.firm(a.drawn(a.set.FitSize), scale); !slices.Equal(fit, a.fitted) {
		a.fitted, a.scales = fit, newGaussian(a.space, fit)
	}
	v := &view{gaussian: *a.scales, data: a.firm(thin(a.ranked(), a.tapered(a.set.DataSize)), scale), place: map[int]int{}}
	v.condition(v.data)
	for i, d := range v.data {
		v.place[d.point] = i
	}
	v.row, v.point = make([]float64, v.count), make(Point, len(a.space.knobs))
	return v
}

// firm returns the centres of points, cheapest first, squashed, and by how much each is uncertain.
func (a *augmented) firm(points []rank, scale float64) []datum {
	data := make([]datum, len(points))
	for i, r := range points {
		e := a.estimate(r.point, scale)
		data[i] = datum{point: r.point, cost: e.centre, noise: e.variance}
	}
	slices.SortFunc(data, func(x, y datum) int { return cmp.Or(cmp.Compare(grains(x.cost), grains(y.cost)), x.point-y.point) })
	middle, mean := data[len(data)/2].cost, 0.0
	for i := range data {
		if above := data[i].cost - middle; above > 0 {
			data[i].cost = middle + noisySquashed*above
		}
		mean += data[i].cost / float64(len(data))
	}
	// The variance of a process is only known when it is conditioned: that of the data stands for it.
	variance := 2 * priorVariance
	for _, d := range data {
		variance += (d.cost - mean) * (d.cost - mean)
	}
	variance /= float64(len(data) + 2)
	for i := range data {
		data[i].noise /= variance
	}
	return data
}

// predict returns what is known of the log cost of point i. That of a known one has the nugget too, of which its samples
// tell.
func (v *view) predict(i int) prediction {
	v.space.read(i, v.point)
	cross, variance := v.cross(v.point, v.row), 1.0
	if at, ok := v.place[i]; ok {
		cross[at] += v.nugget
		variance += v.nugget
	}
	p := prediction{point: i, mean: v.cost.at(cross)}
	p.deviation = v.deviation(variance - v.factor.whiten(cross, 0, v.count))
	return p
}
