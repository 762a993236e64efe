//go:build candidates

package bandit

import (
	"math"
	"math/rand/v2"
	"slices"
)

func init() {
	register("forest", func(l *ledger) Strategy { return &forest{bayes: bayes{ledger: l}} })
	register("knn", func(l *ledger) Strategy { return &knn{bayes: bayes{ledger: l}} })
}

// forest asks for the point from which a random forest expects the greatest improvement, by effort and the probability
// of not failing (Hutter et al. 2011): trees that split at random on three knobs in four, on resampled log costs; their
// spread is the uncertainty. It is grown anew when the number of known points has grown by an eighth.
type forest struct {
	bayes
	trees []tree
	size  int
}

const (
	treeCount = 24
	leafSize  = 3
	dataMost  = 512
)

// Ask implements Strategy.
func (f *forest) Ask(n int) []Trial { return f.askEach(n, f.next) }

func (f *forest) next() (int, bool) {
	if i, ok := f.begin(); ok {
		return i, true
	}
	dice := f.dice()
	pool := f.pool(dice)
	if len(f.ranked()) < 2 || len(pool) == 0 {
		return f.again()
	}
	f.grow(dice)
	return f.pick(pool, func(p Point) (mean, deviation float64) {
		sum, squares := 0.0, 0.0
		for _, t := range f.trees {
			m, v := t.at(p)
			sum, squares = sum+m, squares+v+m*m
		}
		mean = sum / treeCount
		return mean, math.Sqrt(max(squares/treeCount-mean*mean, 1e-6))
	}), true
}

// pick returns the point of pool with the greatest expected improvement, by the effort of its nearest known point.
func (b *bayes) pick(pool []int, predict func(Point) (mean, deviation float64)) int {
	best := median(b.arm(b.ranked()[0].point).logs)
	choice, most := pool[0], math.Inf(-1)
	for _, i := range pool {
		p := b.space.At(i)
		mean, deviation := predict(p)
		if m := grains(logImprovement(best-mean, deviation) + math.Log(b.feasible(p))); m > most {
			choice, most = i, m
		}
	}
	return choice
}

func (f *forest) grow(dice *rand.Rand) {
	known := f.ranked()
	if f.trees != nil && len(known) < f.size+max(1, f.size/8) {
		return
	}
	f.size = len(known)
	some := thin(known, dataMost)
	data := f.data(some, f.middle(known))
	points := make([]Point, len(data))
	for i, d := range data {
		points[i] = f.space.At(d.point)
	}
	f.trees = f.trees[:0]
	for range treeCount {
		rows := make([]int, len(data))
		for i := range rows {
			rows[i] = dice.IntN(len(data))
		}
		f.trees = append(f.trees, f.split(points, data, rows, dice))
	}
}

// tree is a regression tree.
type tree struct {
	mean, variance float64
	knob, value    int // p[knob] <= value goes below; of a Categorical one, p[knob] == value
	equal          bool
	below, above   *tree
}

func (t *tree) at(p Point) (mean, variance float64) {
	for t.below != nil {
		if v := p[t.knob]; v == t.value || v < t.value && !t.equal {
			t = t.below
		} else {
			t = t.above
		}
	}
	return t.mean, t.variance
}

func (f *forest) split(points []Point, data []datum, rows []int, dice *rand.Rand) tree {
	var t tree
	sum, squares := 0.0, 0.0
	for _, r := range rows {
		sum, squares = sum+data[r].cost, squares+data[r].cost*data[r].cost
	}
	n := float64(len(rows))
	t.mean, t.variance = sum/n, max(0, squares/n-sum/n*sum/n)
	if len(rows) <= leafSize || t.variance < 1e-9 {
		return t
	}
	best := squares - sum*sum/n - 1e-12
	for k, knob := range f.space.knobs {
		if len(knob.Values) == 1 || dice.IntN(4) == 0 {
			continue
		}
		total, count := make([]float64, len(knob.Values)), make([]float64, len(knob.Values))
		for _, r := range rows {
			v := points[r][k]
			total[v] += data[r].cost
			count[v]++
		}
		left, m := 0.0, 0.0
		for v := range knob.Values {
			if left, m = left+total[v], m+count[v]; knob.Kind == Categorical {
				left, m = total[v], count[v]
			}
			if m == 0 || m == n {
				continue
			}
			if e := squares - left*left/m - (sum-left)*(sum-left)/(n-m); e < best {
				best, t.knob, t.value, t.equal, t.below = e, k, v, knob.Kind == Categorical, &tree{}
			}
		}
	}
	if t.below == nil {
		return t
	}
	var low, high []int
	for _, r := range rows {
		if v := points[r][t.knob]; v == t.value || v < t.value && !t.equal {
			low = append(low, r)
		} else {
			high = append(high, r)
		}
	}
	below, above := f.split(points, data, low, dice), f.split(points, data, high, dice)
	t.below, t.above = &below, &above
	return t
}

// knn asks for the point from which the mean of its five nearest known points, weighed by distance, expects the
// greatest improvement; the uncertainty is their spread and the distance of the nearest.
type knn struct{ bayes }

// Ask implements Strategy.
func (s *knn) Ask(n int) []Trial { return s.askEach(n, s.next) }

func (s *knn) next() (int, bool) {
	if i, ok := s.begin(); ok {
		return i, true
	}
	pool := s.pool(s.dice())
	if len(s.ranked()) < 2 || len(pool) == 0 {
		return s.again()
	}
	known := s.ranked()
	data := s.data(thin(known, 256), s.middle(known))
	points := make([]Point, len(data))
	for i, d := range data {
		points[i] = s.space.At(d.point)
	}
	spread := spreadOf(data)
	return s.pick(pool, func(p Point) (mean, deviation float64) {
		const k = 5
		type near struct{ distance, cost float64 }
		nearest := make([]near, 0, k+1)
		for i, q := range points {
			d := s.space.distance(p, q)
			if len(nearest) == k && d >= nearest[k-1].distance {
				continue
			}
			at := 0
			for at < len(nearest) && nearest[at].distance <= d {
				at++
			}
			nearest = slices.Insert(nearest, at, near{d, data[i].cost})[:min(k, len(nearest)+1)]
		}
		sum, squares, all := 0.0, 0.0, 0.0
		for _, n := range nearest {
			w := 1 / (n.distance + 0.05)
			sum, squares, all = sum+w*n.cost, squares+w*n.cost*n.cost, all+w
		}
		mean = sum / all
		far := 1 - math.Exp(-nearest[0].distance)
		return mean, math.Sqrt(max(squares/all-mean*mean, 0) + far*spread*spread + 1e-6)
	}), true
}

// spreadOf returns the standard deviation of costs.
func spreadOf(data []datum) float64 {
	sum, squares := 0.0, 0.0
	for _, d := range data {
		sum, squares = sum+d.cost, squares+d.cost*d.cost
	}
	n := float64(len(data))
	return math.Sqrt(max(0, squares/n-sum/n*sum/n))
}

// begin returns the start points and the first points, as bayes asks them.
func (l *ledger) begin() (int, bool) {
	if i, ok := l.nextStart(); ok {
		return i, true
	}
	if len(l.arms) < l.set.FirstPoints || len(l.ranked()) < 2 {
		return l.distant(l.dice())
	}
	return 0, false
}
