package tuner

import (
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// decided reports whether v says which setting is to be used.
func (v RegimeVerdict) decided() bool { return v.Verdict == measure.Adopt || v.Verdict == measure.Keep }

// winner is the arm that a decided verdict says is to be used.
func (v RegimeVerdict) winner() target.Arm {
	if v.Verdict == measure.Adopt {
		return v.Best
	}
	return v.Default
}

// proof is the verdict in force for a regime: this run's own, or an earlier one that it took over.
func (c Certificate) proof(r target.Regime) (RegimeVerdict, bool) {
	for _, list := range [][]RegimeVerdict{c.Regimes, c.Inherited} {
		for _, v := range list {
			if v.Regime == r && v.decided() {
				return v, true
			}
		}
	}
	return RegimeVerdict{}, false
}

// unproven names the regimes for which nothing was proven: their settings are from facts alone.
func (c Certificate) unproven() string {
	var names []string
	for _, r := range Regimes {
		if _, ok := c.proof(r); !ok {
			names = append(names, string(r))
		}
	}
	return strings.Join(names, " and ")
}

// proven is the newest verdict for a regime that was reached on this very host, under these limits, with this kernel
// table.
func (p Problem) proven(snapshot *history.Snapshot, r target.Regime) (RegimeVerdict, bool) {
	for _, c := range p.learned(snapshot) {
		if !c.ok || c.source != Measured {
			continue
		}
		if v, ok := c.proof.proof(r); ok {
			return v, true
		}
	}
	return RegimeVerdict{}, false
}
