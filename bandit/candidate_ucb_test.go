//go:build candidates

package bandit

import "math"

func init() {
	register("ucb", func(l *ledger) Strategy { return &ucb{bayes{ledger: l}} })
}

// ucb asks for the point with the lowest confidence bound of bayes' process (Cox and John 1992; Srinivas et al. 2010):
// by how much it may at best improve, by effort and the probability of not failing.
type ucb struct{ bayes }

// Ask implements Strategy.
func (u *ucb) Ask(n int) []Trial { return u.askEach(n, u.next) }

func (u *ucb) next() (int, bool) {
	if i, ok := u.begin(); ok {
		return i, true
	}
	const width = 2 // standard deviations
	pool := u.pool(u.dice())
	if len(u.ranked()) < 2 || len(pool) == 0 {
		return u.again()
	}
	g := u.process()
	best := median(u.arm(u.ranked()[0].point).logs)
	choice, most := pool[0], math.Inf(-1)
	for _, i := range pool {
		p := u.space.At(i)
		cross := g.cross(p, make([]float64, g.count))
		gain, price := best-g.cost.at(cross), u.set.Thrift*g.effort.at(cross)
		deviation := g.deviation(1 - g.factor.whiten(cross, 0, g.count))
		m := math.Log(max(gain+width*deviation, 1e-9)) - price + math.Log(u.feasible(p))
		if m = grains(m); m > most {
			choice, most = i, m
		}
	}
	return choice, true
}
