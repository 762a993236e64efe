package bandit

import "math/rand/v2"

func init() { register("random", newRandom) }

// newRandom draws points without replacement, in rounds: no point gets a second sample before every point has one.
// It is the baseline that every other strategy has to beat.
func newRandom(l *ledger) Strategy {
	order := rand.New(rand.NewPCG(l.opt.Seed, 0)).Perm(l.space.Size())
	return &sweep{ledger: l, order: func(at int) int { return order[at] }}
}
