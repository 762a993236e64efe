package daemon

import (
	"slices"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// Check is one regime's comparison of what serves with the default, and what the detector made of it.
type Check struct {
	At         time.Time     `json:"at"`
	Regime     target.Regime `json:"regime"`
	Verdict    tuner.Outcome `json:"verdict"`
	Ratio      tuner.Ratio   `json:"ratio"`
	Why        string        `json:"why,omitempty"`
	Drift      float64       `json:"drift"` // the statistic after it; 0 for a regime that is not watched
	DriftLimit float64       `json:"drift_limit"`
}

// mostChecks is how many checks of a model are kept: two weeks of three regimes every six hours.
const mostChecks = 170

// note keeps a check.
func (d *Daemon) note(m *sentinel, c tuner.RegimeCheck) {
	check := Check{At: d.opt.Now(), Regime: c.Regime, Verdict: c.Verdict, Ratio: c.Ratio, Why: c.Reason, DriftLimit: driftLimit}
	if watched := m.saved.Detectors[c.Regime]; watched != nil {
		check.Drift = watched.Sum
	}
	m.saved.Past = append(m.saved.Past, check)
	m.saved.Past = slices.Clone(m.saved.Past[max(0, len(m.saved.Past)-mostChecks):])
}

// Checks are those of a model, also by earlier daemons, the newest last.
func (d *Daemon) Checks(model string) []Check {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.past[model])
}
