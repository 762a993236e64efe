//go:build candidates

package bandit

import (
	"math"
	"math/rand/v2"
)

// member is a strategy without its memory, which the members of a portfolio share.
type member interface {
	Strategy
	next() (int, bool)
}

func init() {
	member := func(name string, l *ledger) member { return registry[name](l).(member) }
	third := []string{"ucb", "forest", "knn", "evolution", "neighbourhoods", "thompson", "halving"}
	for _, name := range third {
		if name != "halving" {
			register("auto, "+name+" for descent", func(l *ledger) Strategy {
				return newSchedule(l, member("bayes", l), member(name, l))
			})
			register("auto, "+name+" for bayes", func(l *ledger) Strategy {
				return newSchedule(l, member(name, l), member("descent", l))
			})
			register("auto, "+name+" mixed", func(l *ledger) Strategy {
				return newSchedule(l, member("bayes", l), member("descent", l), member(name, l))
			})
		}
	}
	register("auto, ucb and bayes in turns", func(l *ledger) Strategy {
		return newSchedule(l, &turns{bayes{ledger: l}, ucb{bayes{ledger: l}}}, member("descent", l))
	})
	register("auto by credit", func(l *ledger) Strategy { return newCredit(l, member("bayes", l), member("descent", l)) })
	register("auto by credit of three", func(l *ledger) Strategy {
		return newCredit(l, member("bayes", l), member("descent", l), member("evolution", l))
	})
}

// schedule is auto with other members: the first asks as its model does there, the others share the turns of descent.
type schedule struct {
	*ledger
	members []member
}

func newSchedule(l *ledger, members ...member) Strategy { return &schedule{l, members} }

// Ask implements Strategy.
func (s *schedule) Ask(n int) []Trial { return s.askEach(n, s.next) }

// Tell implements Strategy.
func (s *schedule) Tell(done ...Trial) {
	for _, m := range s.members {
		if n, ok := m.(*neighbourhoods); ok {
			n.Tell(done...)
			return
		}
	}
	s.ledger.Tell(done...)
}

func (s *schedule) next() (int, bool) {
	if s.told < s.set.ModelFirst && (len(s.members) < 3 || s.told%4 != 3) || s.told%s.set.ModelEvery == 0 {
		return s.members[0].next()
	}
	if s.told < s.set.ModelFirst {
		return s.members[2].next()
	}
	return s.members[1+s.told%(len(s.members)-1)].next()
}

// turns asks by the expected improvement and the confidence bound in turns.
type turns struct {
	improvement bayes
	bound       ucb
}

func (t *turns) Ask(n int) []Trial  { return t.bound.askEach(n, t.next) }
func (t *turns) Tell(done ...Trial) { t.bound.Tell(done...) }
func (t *turns) next() (int, bool) {
	if t.bound.told%2 == 0 {
		return t.improvement.next()
	}
	return t.bound.next()
}

// credit chooses among members by how much the best improved in their turns, per time, with a memory that fades: by a
// draw in proportion, and at least one turn in ten for each.
type credit struct {
	schedule
	earned, spent []float64
	open          map[int]int
}

func newCredit(l *ledger, members ...member) Strategy {
	return &credit{schedule{l, members}, make([]float64, len(members)), make([]float64, len(members)), map[int]int{}}
}

// Ask implements Strategy.
func (c *credit) Ask(n int) []Trial { return c.askEach(n, c.next) }

// Tell implements Strategy.
func (c *credit) Tell(done ...Trial) {
	for _, t := range done {
		before := c.best()
		c.ledger.Tell(t)
		i, ok := c.space.Index(t.Point)
		m, asked := c.open[i]
		if !ok || !asked {
			continue
		}
		delete(c.open, i)
		for k := range c.earned {
			c.earned[k] *= 0.98
			c.spent[k] *= 0.98
		}
		if gain := before - c.best(); gain > 0 && !math.IsInf(gain, 1) {
			c.earned[m] += gain
		}
		c.spent[m] += t.Elapsed.Seconds()
	}
}

// best is the least log cost known.
func (c *credit) best() float64 {
	if r := c.ranked(); len(r) > 0 {
		return median(c.arm(r[0].point).logs)
	}
	return math.Inf(1)
}

func (c *credit) next() (int, bool) {
	m := c.choose(rand.New(rand.NewPCG(c.opt.Seed, uint64(c.told))))
	i, ok := c.members[m].next()
	if ok {
		c.open[i] = m
	}
	return i, ok
}

func (c *credit) choose(dice *rand.Rand) int {
	if c.told < 2*c.set.FirstPoints {
		return 0
	}
	share, sum := make([]float64, len(c.members)), 0.0
	for m := range share {
		share[m] = (c.earned[m] + 0.01) / (c.spent[m] + 1)
		sum += share[m]
	}
	const least = 0.1
	luck := dice.Float64()
	for m := range share {
		if luck -= least + (1-least*float64(len(share)))*share[m]/sum; luck < 0 {
			return m
		}
	}
	return 0
}
