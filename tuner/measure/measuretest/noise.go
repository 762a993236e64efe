package measuretest

import (
	"math/rand/v2"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// Noise is a kind of disturbance: it begins an Effect for one host. A value may be used for any number of hosts.
type Noise func(r *rand.Rand) Effect

// Effect says how long a sample takes, given how long it would take without this effect (Sample.Took).
type Effect func(Sample) time.Duration

// Sample is a run that an Effect may disturb.
type Sample struct {
	Start    time.Duration     // virtual time
	Work     time.Duration     // the true cost of its iterations
	Took     time.Duration     // Work and what earlier effects made of it
	Done     int               // iterations that this arm has run before
	Counters *measure.Counters // of the host; an effect that a real host would admit raises them
}

// scale stretches a duration.
func scale(d time.Duration, factor float64) time.Duration { return time.Duration(float64(d) * factor) }
