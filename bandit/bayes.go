package bandit

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

func init() { register("bayes", newBayes) }

// bayes is Bayesian optimisation (Jones et al. 1998): it asks for the point from which a Gaussian process expects the
// greatest improvement on the best known, weighed by the probability that the point does not fail and by what measuring
// it takes. It begins with points that are far apart, near the middle of the space before its edges. When every point
// is known, the best are asked again until they have enough samples.
type bayes struct {
	*ledger
	fitted []datum   // what the scales were chosen on
	scales *gaussian // a memo of newGaussian(fitted)
}

var _ Strategy = (*bayes)(nil)

func newBayes(l *ledger) Strategy { return &bayes{ledger: l} }

// settings are the numbers in which bayes, descent and auto could have been made otherwise.
type settings struct {
	// FirstPoints are asked before the process has a say.
	FirstPoints int
	// Middle is how much nearer to another point a first point may be for being nearer to the middle of the space.
	Middle float64
	// FitSize and DataSize bound the points on which scales are chosen and predictions rest: time grows with their cubes.
	FitSize, DataSize int
	// Strangers is how many random points are considered at a time, and Leaders of how many of the best the neighbours are.
	Strangers, Leaders int
	// Squashed is what is left of a log cost's distance above the median.
	Squashed float64
	// Thrift is the power of the effort by which expected improvement is divided.
	Thrift float64
	// ModelFirst is how many answers bayes asks for before descent takes turns with it in auto, and ModelEvery in how many
	// of these bayes has one.
	ModelFirst, ModelEvery int
}

// chosen are those of experiments/2026-11-auto-hyperparameters.
var chosen = settings{
	FirstPoints: 3, Middle: 0.5, FitSize: 32, DataSize: 96, Strangers: 400, Leaders: 6, Squashed: 0.1, Thrift: 1,
	ModelFirst: 150, ModelEvery: 32,
}

// Ask implements Strategy.
func (b *bayes) Ask(n int) []Trial { return b.askEach(n, b.next) }

func (b *bayes) next() (int, bool) {
	if i, ok := b.nextStart(); ok {
		return i, true
	}
	dice := b.dice()
	data := squash(b.data(), b.set.Squashed)
	if len(b.arms) < b.set.FirstPoints || len(data) < 2 {
		if i, ok := b.distant(dice); ok {
			return i, true
		}
	} else if pool := b.pool(data, dice); len(pool) > 0 {
		return b.improve(data, pool), true
	}
	return b.again()
}

// data returns what is known of the measured points, cheapest first. Where one trial does not say how long it took, all
// count as equally long.
func (b *bayes) data() []datum {
	var data []datum
	timed := true
	for _, a := range b.arms {
		if a.failed == OK && len(a.logs) > 0 {
			timed = timed && a.took > 0
			data = append(data, datum{point: a.point, cost: median(a.logs), effort: math.Log(a.took.Seconds())})
		}
	}
	for i := range data {
		if !timed {
			data[i].effort = 0
		}
	}
	slices.SortFunc(data, func(x, y datum) int { return cmp.Or(cmp.Compare(grains(x.cost), grains(y.cost)), x.point-y.point) })
	return data
}

// squash returns data, sorted, with costs above the median moved towards it: how bad a bad point is says little about
// where the good ones are, and much variance would be spent on it.
func squash(data []datum, left float64) []datum {
	if len(data) == 0 {
		return nil
	}
	middle := data[len(data)/2].cost
	for i := range data {
		if above := data[i].cost - middle; above > 0 {
			data[i].cost = middle + left*above
		}
	}
	return data
}

// again returns the best point that may be asked again.
func (b *bayes) again() (int, bool) {
	known := b.belief()
	if known == nil {
		return 0, false
	}
	for _, point := range known.points {
		if b.live(point) {
			return point, true
		}
	}
	return 0, false
}

// pool returns the points to consider: the fresh neighbours of the best, and strangers.
func (b *bayes) pool(data []datum, dice *rand.Rand) []int {
	pool := b.strangers(b.set.Strangers, dice)
	for _, d := range data[:min(b.set.Leaders, len(data))] {
		for _, i := range b.space.neighbours(d.point) {
			if b.fresh(i) {
				pool = append(pool, i)
			}
		}
	}
	slices.Sort(pool)
	return slices.Compact(pool)
}

// prospect is a point that may be asked next.
type prospect struct {
	point int
	bound float64   // the merit that it has at the most
	mean  float64   // of its log cost
	price float64   // what is subtracted for the effort of measuring it
	cross []float64 // correlation with the known points
}

// improve returns the point of the greatest merit: expected improvement, times the probability of not failing, by
// effort. Improvement grows with the uncertainty, which is dear to compute, and is largest where nothing is known: so the
// points are visited by that bound, until it falls below the best merit.
func (b *bayes) improve(data []datum, pool []int) int {
	g := b.process(data)
	best, most := data[0].cost, math.Sqrt(g.variance)
	field := make([]prospect, len(pool))
	for n, i := range pool {
		cross := g.cross(b.space.At(i))
		p := prospect{point: i, mean: g.cost.at(cross), price: b.set.Thrift * g.effort.at(cross), cross: cross}
		p.bound = grains(logImprovement(best-p.mean, most) - p.price)
		field[n] = p
	}
	slices.SortFunc(field, func(x, y prospect) int { return cmp.Or(cmp.Compare(y.bound, x.bound), x.point-y.point) })
	choice, merit := field[0].point, math.Inf(-1)
	for _, p := range field {
		if p.bound <= merit {
			break
		}
		m := logImprovement(best-p.mean, g.deviation(p.cross)) - p.price
		if grains(m) <= merit {
			continue
		}
		if m = grains(m + math.Log(b.feasible(b.space.At(p.point)))); m > merit {
			choice, merit = p.point, m
		}
	}
	return choice
}

// process returns the process that predicts from data. Its scales are chosen on points that are drawn by a hash of
// their numbers: whatever the order of the tells, they are the same, and seldom change when there are many.
func (b *bayes) process(data []datum) *gaussian {
	fit := slices.Clone(data)
	slices.SortFunc(fit, func(x, y datum) int { return cmp.Compare(b.hash(x.point), b.hash(y.point)) })
	fit = fit[:min(b.set.FitSize, len(fit))]
	if !slices.Equal(fit, b.fitted) {
		b.fitted, b.scales = fit, newGaussian(b.space, fit)
	}
	g := *b.scales
	g.condition(thin(data, b.set.DataSize))
	return &g
}

// thin returns n of data, which are sorted: the first half of n, and of the others every so many.
func thin(data []datum, n int) []datum {
	if len(data) <= n {
		return data
	}
	kept, rest := slices.Clone(data[:n/2]), data[n/2:]
	more := n - n/2
	for i := range more {
		kept = append(kept, rest[i*len(rest)/more])
	}
	return kept
}

// logImprovement returns the logarithm of the improvement that is expected of a normal variable that lies gain below
// the best, in the mean: its expectation where it is below, and 0 elsewhere. Far in the tail it is the first term of the
// asymptotic series, which joins within 8 % (Ament et al. 2023 say why the logarithm).
func logImprovement(gain, deviation float64) float64 {
	z := gain / deviation
	if z < -5 {
		return math.Log(deviation) - z*z/2 - 2*math.Log(-z) - math.Log(2*math.Pi)/2
	}
	density := math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
	return math.Log(deviation) + math.Log(z*math.Erfc(-z/math.Sqrt2)/2+density)
}
