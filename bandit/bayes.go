package bandit

import (
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
	rows   []float64 // improve works in it
}

var _ Strategy = (*bayes)(nil)

func newBayes(l *ledger) Strategy {
	if l.opt.Samples > 1 {
		return &augmented{bayes{ledger: l}}
	}
	return &bayes{ledger: l}
}

// settings are the numbers in which bayes, descent and auto could have been made otherwise.
type settings struct {
	// FirstPoints are asked before the process has a say.
	FirstPoints int
	// Middle is how much nearer to another point a first point may be for being nearer to the middle of the space.
	Middle float64
	// FitSize and DataSize bound the points on which scales are chosen and predictions rest: time grows with their cubes.
	// DataSize tapers off in long searches.
	FitSize, DataSize int
	// Strangers is how many random points are considered at a time, and Leaders of how many of the best the neighbours are.
	// Strangers tapers off in long searches.
	Strangers, Leaders int
	// Squashed is what is left of a log cost's distance above the median.
	Squashed float64
	// Thrift is the power of the effort by which expected improvement is divided.
	Thrift float64
	// ModelFirst is how many answers bayes asks for before descent takes turns with it in auto, and ModelEvery in how many
	// of these bayes has one.
	ModelFirst, ModelEvery int
}

// chosen are those of experiments/2026-11-auto-hyperparameters, but for Middle, which is of 2026-11-strategies.
var chosen = settings{
	FirstPoints: 3, Middle: 1, FitSize: 32, DataSize: 96, Strangers: 400, Leaders: 6, Squashed: 0.1, Thrift: 1,
	ModelFirst: 150, ModelEvery: 32,
}

// Ask implements Strategy.
func (b *bayes) Ask(n int) []Trial { return b.askEach(n, b.next) }

func (b *bayes) next() (int, bool) {
	if i, ok := b.nextStart(); ok {
		return i, true
	}
	dice := b.dice()
	if len(b.arms) < b.set.FirstPoints || len(b.ranked()) < 2 {
		if i, ok := b.distant(dice); ok {
			return i, true
		}
	} else if pool := b.pool(dice); len(pool) > 0 {
		return b.improve(pool), true
	}
	return b.again()
}

// data returns what is known of measured points, cheapest first. Costs above their median are moved towards it: how bad
// a bad point is says little about where the good ones are, and much variance would be spent on it. Where one trial does
// not say how long it took, all count as equally long.
func (b *bayes) data(points []rank, middle float64) []datum {
	timed := !slices.ContainsFunc(b.ranked(), func(r rank) bool { return b.arm(r.point).took == 0 })
	data := make([]datum, len(points))
	for i, r := range points {
		a := b.arm(r.point)
		d := datum{point: r.point, cost: median(a.logs)}
		if above := d.cost - middle; above > 0 {
			d.cost = middle + b.set.Squashed*above
		}
		if timed {
			d.effort = math.Log(a.took.Seconds())
		}
		data[i] = d
	}
	return data
}

// middle returns the median log cost of ranked points, the upper one of two.
func (b *bayes) middle(points []rank) float64 { return median(b.arm(points[len(points)/2].point).logs) }

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
func (b *bayes) pool(dice *rand.Rand) []int {
	pool, best := b.strangers(b.tapered(b.set.Strangers), dice), b.ranked()
	for _, r := range best[:min(b.set.Leaders, len(best))] {
		for _, i := range b.space.neighbours(r.point) {
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
	gain  float64   // how far the mean of its log cost lies below the best known
	price float64   // what is subtracted for the effort of measuring it
	cross []float64 // correlation with the known points, whitened so far as it was looked at
}

// merit is that of p, if it does not fail, where its log cost has this standard deviation.
func (p *prospect) merit(deviation float64) float64 {
	return logImprovement(p.gain, deviation) - p.price
}

// improve returns the point of the greatest merit: expected improvement, times the probability of not failing, by
// effort. Improvement grows with the uncertainty, which is dear to compute, and is largest where nothing is known: so the
// points are visited by that bound, until it falls below the best merit, and each is left when the part of what is known
// that was looked at leaves too little.
func (b *bayes) improve(pool []int) int {
	g := b.process()
	best := median(b.arm(b.ranked()[0].point).logs)
	field := make([]prospect, len(pool))
	b.rows = slices.Grow(b.rows[:0], len(pool)*g.count)[:len(pool)*g.count]
	point := make(Point, len(b.space.knobs))
	for n, i := range pool {
		b.space.read(i, point)
		cross := g.cross(point, b.rows[n*g.count:(n+1)*g.count])
		p := prospect{point: i, gain: best - g.cost.at(cross), price: b.set.Thrift * g.effort.at(cross), cross: cross}
		p.bound = p.merit(g.deviation(1))
		field[n] = p
	}
	choice, most := pool[0], math.Inf(-1)
	for _, r := range ascending(len(field), func(i int) float64 { return -field[i].bound }) {
		p := &field[r.point]
		if grains(p.bound) <= most {
			break
		}
		m, left := p.bound, 1.0
		for done := 0; done < g.count && grains(m) > most; {
			to := g.factor.next(done)
			left -= g.factor.whiten(p.cross, done, to)
			m, done = p.merit(g.deviation(left)), to
		}
		if grains(m) <= most {
			continue
		}
		if m = grains(m + math.Log(b.feasible(b.space.At(p.point)))); m > most {
			choice, most = p.point, m
		}
	}
	return choice
}

// process returns the process that predicts from what is known. Its scales are chosen on few points, with the median of
// those, so that they are a function of few and seldom change when there are many.
func (b *bayes) process() *gaussian {
	ranks := b.ranked()
	few := b.drawn(b.set.FitSize)
	slices.SortFunc(few, rank.compare)
	if fit := b.data(few, b.middle(few)); !slices.Equal(fit, b.fitted) {
		b.fitted, b.scales = fit, newGaussian(b.space, fit)
	}
	g := *b.scales
	g.condition(b.data(thin(ranks, b.tapered(b.set.DataSize)), b.middle(ranks)))
	return &g
}

// thin returns n of the points, which are sorted: the first half of n, and of the others every so many.
func thin(points []rank, n int) []rank {
	if len(points) <= n {
		return points
	}
	kept, rest := slices.Clone(points[:n/2]), points[n/2:]
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
