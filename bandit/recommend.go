package bandit

// Recommend implements Recommender.
func (l *ledger) Recommend(k int) []Point {
	b := l.belief()
	if b == nil {
		return nil
	}
	var best []Point
	for _, point := range b.points[:max(0, min(k, len(b.points)))] {
		best = append(best, l.space.At(point))
	}
	return best
}

// belief returns the posterior of what was told so far; nil where nothing has been measured.
func (l *ledger) belief() *belief {
	if l.fit == nil {
		l.fit = newBelief(l)
	}
	return l.fit
}
