package measure

import "errors"

// What a result may have to be doubted for. They are values in the Warnings of a Summary or Comparison, wrapped with
// the figures of the case: a doubtful result is still a result. errors.Is tells which it is.
var (
	ErrFewSamples = errors.New("need >= 6 samples for a 95 % interval") // more for a higher confidence: 8 for 99 %
	ErrUnsteady   = errors.New("not seen to become steady while warming up")
	ErrNoisy      = errors.New("coefficient of variation above 8 %")
	ErrCensored   = errors.New("samples censored for throttling or steal")
	ErrUnwatched  = errors.New("host counters cannot be read, nothing is censored")
)

// noisyCV is the coefficient of variation above which a result is called noisy: the mark that tuners of local
// language models have settled on.
const noisyCV = 0.08

// censoredShare is the share of censored attempts from which a result is doubted.
const censoredShare = 0.10
