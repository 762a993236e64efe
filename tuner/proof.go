package tuner

import (
	"slices"
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

// proof is the verdict in force for a regime: this run's own, or an earlier one that it took over. A verdict in another
// layout than the answer's is none.
func (c Certificate) proof(r target.Regime) (RegimeVerdict, bool) {
	for _, list := range [][]RegimeVerdict{c.Regimes, c.Inherited} {
		for _, v := range list {
			if v.Regime == r && v.decided() && v.winner().Layout == c.Best.Config.Layout {
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
// table, and whose winner was not found wrong since.
func (p Problem) proven(snapshot *history.Snapshot, r target.Regime) (RegimeVerdict, bool) {
	wrong := p.wrong(snapshot)
	for _, c := range p.here(snapshot) {
		if v, ok := c.proof.proof(r); ok && !slices.Contains(wrong, v.winner()) && p.obeys(r, v.winner()) {
			return v, true
		}
	}
	return RegimeVerdict{}, false
}

// wrong are the arms that runs on this host with this kernel table found to give wrong results, under whatever limits.
func (p Problem) wrong(snapshot *history.Snapshot) []target.Arm {
	var list []target.Arm
	for _, c := range p.learned(snapshot) {
		if c.source == NearHost && !c.received || c.entry.Signature != p.domain().signature() {
			continue
		}
		for _, a := range c.proof.Wrong {
			if !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
	}
	return list
}

// tainted is the first regime of c whose arm is among the wrong ones, if any.
func (c Config) tainted(wrong []target.Arm) (target.Regime, bool) {
	for _, r := range Regimes {
		if slices.Contains(wrong, c.Arm(r)) {
			return r, true
		}
	}
	return "", false
}

// sound is the heuristic, with the default in place of every arm that was found wrong.
func (p Problem) sound(wrong []target.Arm) Config {
	c, standard := p.Heuristic(), p.Default()
	for _, r := range Regimes {
		if slices.Contains(wrong, c.Arm(r)) {
			c = c.with(r, standard.Arm(r))
		}
	}
	return c
}

// here are the usable candidates of this very host and limits, the newest first.
func (p Problem) here(snapshot *history.Snapshot) []candidate {
	return slices.DeleteFunc(p.learned(snapshot), func(c candidate) bool { return !c.ok || !c.here })
}
