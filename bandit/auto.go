package bandit

func init() { register("auto", newAuto) }

// auto is a portfolio, and the default. Where several samples of a point are wanted, because one is noisy, it is noisyAuto.
// Where one sample tells the cost, it is bayes while its process is worth its time, and then descent, with a
// question of bayes now and then. The parts share what was told, and which of them asks depends on nothing else, so
// that a log needs no record of it.
type auto struct {
	*ledger
	bayes   *bayes
	descent *descent
}

var _ Strategy = (*auto)(nil)

func newAuto(l *ledger) Strategy {
	if l.opt.Samples > 1 {
		return &noisyAuto{l, &thompson{l}, &augmented{bayes{ledger: l}}}
	}
	return &auto{ledger: l, bayes: &bayes{ledger: l}, descent: &descent{l}}
}

// Ask implements Strategy.
func (a *auto) Ask(n int) []Trial { return a.askEach(n, a.next) }

func (a *auto) next() (int, bool) {
	if a.told < a.set.ModelFirst || a.told%a.set.ModelEvery == 0 {
		return a.bayes.next()
	}
	return a.descent.next()
}

// noisyAuto is auto where one sample does not tell the cost: thompson, whose effects of knobs need the fewest points, and from
// effectsFirst answers on bayes with repeats, which tells apart what knobs do together.
type noisyAuto struct {
	*ledger
	thompson *thompson
	bayes    *augmented
}

var _ Strategy = (*noisyAuto)(nil)

// effectsFirst was chosen among 0, 8, 12, 16, 24, 32 and for ever, and against taking turns: experiments/2026-11-noise.
const effectsFirst = 16

// Ask implements Strategy.
func (n *noisyAuto) Ask(most int) []Trial { return n.askEach(most, n.next) }

func (n *noisyAuto) next() (int, bool) {
	if n.told < effectsFirst {
		if i, ok := n.thompson.next(); ok {
			return i, true
		}
	}
	return n.bayes.next()
}
