package bandit

import (
	"fmt"
	"time"
)

// Status is how a trial ended. A failure is a Status, never a cost.
type Status int

// The statuses. Every one but OK takes a point out of the search for good. All but OK and Censored also speak against
// its neighbours.
const (
	OK          Status = iota // measured
	Timeout                   // took too long to be measured at all
	Crash                     // ended with an error
	OutOfMemory               // did not fit
	Mismatch                  // gave a wrong result
	Rejected                  // cannot run on this target
	Censored                  // stopped early because it was clearly slow; its costs, if any, are not used
)

var statusNames = [...]string{"ok", "timeout", "crash", "out_of_memory", "mismatch", "rejected", "censored"}

// String returns the persistent name: "ok", "timeout", "crash", "out_of_memory", "mismatch", "rejected", "censored".
func (s Status) String() string {
	if s < 0 || int(s) >= len(statusNames) {
		return fmt.Sprintf("Status(%d)", int(s))
	}
	return statusNames[s]
}

// MarshalText implements encoding.TextMarshaler.
func (s Status) MarshalText() ([]byte, error) {
	if s < 0 || int(s) >= len(statusNames) {
		return nil, fmt.Errorf("bandit: write status %d: want 0 to %d", int(s), len(statusNames)-1)
	}
	return []byte(s.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Status) UnmarshalText(text []byte) error {
	for i, name := range statusNames {
		if name == string(text) {
			*s = Status(i)
			return nil
		}
	}
	return fmt.Errorf("bandit: read status %q: want one of %q", text, statusNames)
}

// Trial is a question where Ask returns it, and an answer where Tell takes it.
type Trial struct {
	Point Point
	// Want is how many further samples of Point are asked for. Tell ignores it: more or fewer are welcome.
	Want int
	// Status is how the measurement ended.
	Status Status
	// Costs are the samples: positive and finite, lower is better, only ratios matter. Best are ratios of paired
	// blocks, candidate over default, which cancel drift. A trial that is OK and has no costs hands the question
	// back: it may be asked again.
	Costs []float64
	// Elapsed is how long the trial took, for strategies that weigh knowledge against time. 0 is unknown.
	Elapsed time.Duration
}
