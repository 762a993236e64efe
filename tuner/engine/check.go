package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrUnfit means that a plan from elsewhere holds what this engine would not be tried with here.
var ErrUnfit = errors.New("engine: a plan that does not fit")

// checkPairs are the pairs of a check: enough for an interval, and no gain has to be proven.
const checkPairs = leastPairs

// Check duels a plan that was found elsewhere with the engine's default, without a search. Before anything runs, each of its
// settings must be one that a search here could come to; the error wraps ErrUnfit where one is not.
func Check(ctx context.Context, e Engine, p Plan, opt Options) (*Certificate, error) {
	opt.Pairs = checkPairs
	s, err := newSession(ctx, e, opt)
	if err != nil {
		return nil, err
	}
	if err := s.what.Fits(p); err != nil {
		return nil, err
	}
	if err := s.standard(ctx); err != nil {
		return s.certificate(nil), err
	}
	s.best, s.stopped = s.spared(p), "a check searches for nothing"
	return s.certificate(s.duel(ctx)), nil
}

// Fits reports the first thing in p that a search of what is described could not come to: a regime or a knob that there is
// not, a value that would not be tried, a combination that the engine rejects, or that no server can have.
func (d Description) Fits(p Plan) error {
	for _, regime := range slices.Sorted(maps.Keys(p)) {
		if !slices.ContainsFunc(d.Regimes, func(r Regime) bool { return r.Name == regime }) {
			return fmt.Errorf("%w: %q: no regime of this request", ErrUnfit, regime)
		}
		for _, name := range slices.Sorted(maps.Keys(p[regime])) {
			i := slices.IndexFunc(d.Knobs, func(k Knob) bool { return k.Name == name })
			if i < 0 {
				return fmt.Errorf("%w: %s: %q is no knob that is tried here", ErrUnfit, regime, name)
			}
			if value := p[regime][name]; !slices.Contains(d.Knobs[i].Values, value) {
				return fmt.Errorf("%w: %s: %s %q: one of %q", ErrUnfit, regime, name, value, d.Knobs[i].Values)
			}
		}
		if d.Reject == nil {
			continue
		}
		if err := d.Reject(p[regime]); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrUnfit, regime, err)
		}
	}
	for _, r := range d.Regimes {
		if _, there := p[r.Name]; !there {
			return fmt.Errorf("%w: it has no setting for %s", ErrUnfit, r.Name)
		}
	}
	return d.servable(p)
}

// servable reports a knob that differs between regimes, other than the counts of threads: a server has one value for it, with
// which one of the regimes would run as it was not measured.
func (d Description) servable(p Plan) error {
	for _, k := range d.Knobs {
		for _, r := range d.Regimes {
			if one, other := p[d.Regimes[0].Name][k.Name], p[r.Name][k.Name]; one != other && k.Stage != Threads {
				return fmt.Errorf("%w: %s is %q for %s and %q for %s: want one value", ErrUnfit, k.Name, one, d.Regimes[0].Name, other, r.Name)
			}
		}
	}
	return nil
}
