package bandit

func init() { register("auto", newAuto) }

// newAuto is the default: the strategy that was best, or no worse than the best, at 10, 20 and 40 samples on the
// tables of the study in the package documentation.
func newAuto(l *ledger) Strategy { return newThompson(l) }
