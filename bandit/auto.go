package bandit

func init() { register("auto", newAuto) }

// auto is a portfolio, and the default. Where several samples of a point are wanted, because one is noisy, it is
// bayes. Where one sample tells the cost, it is bayes while its process is worth its time, and then descent, with a
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
		return newBayes(l)
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
