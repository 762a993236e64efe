package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/daemon"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// entries are what happened to a model, the newest first.
type entries struct {
	Entries []entry `json:"entries"`
	Damage  string  `json:"damage,omitempty"`
}

// entry is one thing that happened.
type entry struct {
	At         time.Time     `json:"at"`
	Kind       string        `json:"kind"`
	By         string        `json:"by,omitempty"`
	Why        string        `json:"why,omitempty"`
	Verdict    string        `json:"verdict,omitempty"`
	Target     string        `json:"target,omitempty"`
	Objective  string        `json:"objective,omitempty"`
	Run        string        `json:"run,omitempty"`
	Regime     target.Regime `json:"regime,omitempty"`
	Ratio      *tuner.Ratio  `json:"ratio,omitempty"`
	Drift      float64       `json:"drift,omitempty"` // after the check
	DriftLimit float64       `json:"drift_limit,omitempty"`
	Serving    bool          `json:"serving,omitempty"` // its config answers now
}

// The kinds of entries.
const (
	kindTune     = "tune"     // a run ended
	kindCompare  = "compare"  // two settings were compared
	kindPublish  = "publish"  // what came from a fleet was checked
	kindCheck    = "check"    // the sentinel's, of one regime
	kindPin      = "pin"      // that is in force
	kindUnpin    = "unpin"    // since the daemon began
	kindRollback = "rollback" // that is in force
)

// mostEntries bounds a timeline.
const mostEntries = 300

func (s *Server) timeline(ctx context.Context, name string) (any, error) {
	a, plan, err := s.archiveAndPlan(ctx, name)
	if err != nil {
		return nil, err
	}
	shown := entries{Entries: []entry{}, Damage: a.damage}
	add := func(e entry) { shown.Entries = append(shown.Entries, e) }
	serving := plan.Source == tuner.Measured // by the newest run that came to what answers
	for _, r := range a.runs {
		if r.Finished.IsZero() {
			continue
		}
		e := r.entry()
		e.Serving = serving && e.Kind == kindTune && r.Verdict != string(measure.Inconclusive) && plan.Config.Hash() == r.proof.Best.Config.Hash()
		serving = serving && !e.Serving
		add(e)
	}
	for _, c := range s.opt.Daemon.Checks(name) {
		add(entry{At: c.At, Kind: kindCheck, By: "the sentinel", Why: c.Why, Verdict: string(c.Verdict), Regime: c.Regime, Ratio: &c.Ratio, Drift: c.Drift, DriftLimit: c.DriftLimit})
	}
	for _, e := range s.opt.Daemon.State().Events {
		if by, ok := strings.CutPrefix(e.What, daemon.Unpinned); ok && e.Model == name {
			add(entry{At: e.At, Kind: kindUnpin, By: by, Why: e.Why})
		}
	}
	snapshot, err := s.published()
	if err != nil {
		shown.Damage = strings.TrimPrefix(shown.Damage+"; "+err.Error(), "; ")
	}
	a.addPublished(snapshot, plan, add)
	slices.SortStableFunc(shown.Entries, func(x, y entry) int { return cmp.Or(y.At.Compare(x.At), cmp.Compare(x.Kind, y.Kind)) })
	shown.Entries = shown.Entries[:min(len(shown.Entries), mostEntries)]
	return shown, nil
}

// entry is a run that ended.
func (r *run) entry() entry {
	e := entry{At: r.Finished, Kind: kindTune, Verdict: r.Verdict, Target: r.Target, Objective: r.Objective, Run: runName(r.ID)}
	if r.Strategy == compareStrategy {
		e.Kind = kindCompare
		return e
	}
	if r.proof.Ratio.Estimate > 0 {
		e.Ratio = &r.proof.Ratio
	}
	return e
}

// addPublished adds what the snapshot tells of the model: pins, rollbacks, and what came from a fleet. As with runs, what hosts
// that share the store did on their CPUs is theirs.
func (a *archive) addPublished(snapshot *history.Snapshot, plan tuner.Plan, add func(entry)) {
	model := a.model.Fingerprint()
	for _, p := range snapshot.Pins {
		if p.Model == model {
			add(entry{At: p.At, Kind: kindPin, By: p.By, Why: pinnedKnobs(p), Serving: plan.Source == tuner.Pinned})
		}
	}
	var told []tuner.RolledBack
	for _, l := range snapshot.Learned {
		var proof tuner.Certificate
		if l.Model != model || l.Target == cpu && l.Host != a.host || json.Unmarshal(l.Certificate, &proof) != nil {
			continue
		}
		if back := proof.RolledBack; back != nil && !slices.Contains(told, *back) { // one for each objective
			told = append(told, *back)
			add(entry{At: back.At, Kind: kindRollback, By: back.By, Why: back.Why, Run: back.Run})
		}
		if got := proof.Received; got != nil && !got.CheckedAt.IsZero() {
			add(entry{At: got.CheckedAt, Kind: kindPublish, By: "the fleet", Why: got.Reason, Verdict: string(got.Verdict), Objective: string(got.Objective)})
		}
	}
}

// pinnedKnobs says what a pin sets, where that is not all of the config.
func pinnedKnobs(p history.Pin) string {
	var list []string
	for _, k := range p.Knobs {
		list = append(list, k.Knob+" = "+k.Value)
	}
	return strings.Join(list, ", ")
}

// published is the snapshot, an empty one where there is none. With an error comes the last that could be read.
func (s *Server) published() (*history.Snapshot, error) {
	snapshot, err := s.reader.Load()
	if errors.Is(err, history.ErrNoSnapshot) {
		err = nil
	}
	if snapshot == nil {
		snapshot = &history.Snapshot{}
	}
	return snapshot, err
}
