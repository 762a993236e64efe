package bandit

// Settings are the hyperparameters of auto, for the experiment that chose them.
type Settings = settings

// Choose makes strategies that are made from now on use other settings, and returns the present ones.
func Choose(s Settings) (before Settings) {
	before, chosen = chosen, s
	return before
}
