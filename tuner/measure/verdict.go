package measure

// Verdict is what a comparison comes to.
type Verdict string

// The three verdicts. Inconclusive is a result, not a failure: the host did not let itself be measured well enough.
const (
	Adopt        Verdict = "ADOPT"
	Keep         Verdict = "KEEP_DEFAULT"
	Inconclusive Verdict = "INCONCLUSIVE"
)

// Decide adopts the candidate only if the whole interval lies above 1 + max(minGain, noiseFloor), and keeps the base
// only if the whole interval lies below 1 + minGain, so that a gain worth having is ruled out. Both are fractions:
// minGain is the gain worth a switch, noiseFloor is from Timer.NoiseFloor, 0 if it was not measured. A gain worth having
// but smaller than the noise floor can be neither proven nor ruled out by wishing: that is Inconclusive, and so is a
// comparison without an interval.
func Decide(c Comparison, minGain, noiseFloor float64) Verdict {
	switch {
	case c.High <= 0:
		return Inconclusive
	case c.Low > 1+max(minGain, noiseFloor):
		return Adopt
	case c.High < 1+minGain:
		return Keep
	}
	return Inconclusive
}
