package measure

// Verdict is what a comparison comes to.
type Verdict string

// The three verdicts. Inconclusive is a result, not a failure: the host did not let itself be measured well enough.
const (
	Adopt        Verdict = "ADOPT"
	Keep         Verdict = "KEEP_DEFAULT"
	Inconclusive Verdict = "INCONCLUSIVE"
)

// Decide says what follows from c. It adopts the candidate if its gain is worth a switch even at the low end of the
// interval, above minGain, and is larger as measured than what this host shows between a thing and itself, noiseFloor
// (see Timer.NoiseFloor; 0 if unknown). It keeps the base if the whole interval lies below 1 + minGain, so that a gain
// worth a switch is ruled out. Anything else, a comparison without an interval too, is Inconclusive. minGain and
// noiseFloor are fractions.
func Decide(c Comparison, minGain, noiseFloor float64) Verdict {
	switch {
	case c.High <= 0: // the zero Comparison
		return Inconclusive
	case c.Low > 1+minGain && c.Ratio > 1+noiseFloor:
		return Adopt
	case c.High < 1+minGain:
		return Keep
	}
	return Inconclusive
}
