package bandit

import "slices"

var recMode = "model"
var kappa = 0.5

// Recommend implements Recommender.
func (l *ledger) Recommend(k int) []Point {
	b := l.belief()
	type ranked struct {
		i     int
		score float64
	}
	var order []ranked
	for i := range b.arms {
		score := b.y[i]
		if recMode == "model" {
			m, v := b.at(b.points[i])
			score = m + kappa*sqrt(v)
		}
		order = append(order, ranked{i, quantum(score)})
	}
	slices.SortStableFunc(order, func(a, b ranked) int {
		if a.score < b.score {
			return -1
		}
		if a.score > b.score {
			return 1
		}
		return 0
	})
	var out []Point
	for _, r := range order[:max(0, min(k, len(order)))] {
		out = append(out, l.space.At(b.arms[r.i].point))
	}
	return out
}

func (l *ledger) belief() *belief {
	if l.fit == nil {
		l.fit = newBelief(l)
	}
	return l.fit
}
