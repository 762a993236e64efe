package tuner

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// Source says where a plan comes from, the surest first.
type Source string

// The sources.
const (
	Pinned    Source = "pinned"    // an operator said so
	Measured  Source = "measured"  // proven on this host under these limits
	Derived   Source = "derived"   // proven on this host, re-bounded to other limits
	NearHost  Source = "near_host" // proven on a host like this one
	Heuristic Source = "heuristic" // from facts alone
)

// Plan is the answer to "how should this model run here": what to do, how that is known, and what was missing for a
// surer answer. It marshals to the document that the config verb prints.
type Plan struct {
	Source      Source    `json:"source"`
	Model       string    `json:"model"`
	Fingerprint string    `json:"fingerprint"`
	Reason      string    `json:"reason"`
	Config      Config    `json:"config"`
	MeasuredAt  time.Time `json:"measured_at,omitzero"`
	Evaluations int       `json:"evaluations"`
	Ratio       Ratio     `json:"ratio"` // measured gain over the default; zero unless Measured
}

// candidate is something a plan can be made of, with the reason it was or was not taken.
type candidate struct {
	source Source
	plan   Plan
	reason string // why this one, or why it was passed over
	ok     bool
}

// plan picks the surest candidate for p out of a snapshot, which may be nil.
func (p Problem) plan(snapshot *history.Snapshot) Plan {
	for _, c := range p.candidates(snapshot) {
		if c.ok {
			c.plan.Source, c.plan.Reason = c.source, c.reason
			c.plan.Model, c.plan.Fingerprint = p.Model.Name, p.Host.Fingerprint()
			return c.plan
		}
	}
	panic("tuner: the heuristic always answers")
}

// candidates lists what is known, surest first; the last is the heuristic and always usable.
func (p Problem) candidates(snapshot *history.Snapshot) []candidate {
	var list []candidate
	missed := "nothing was measured here yet; run tune"
	if snapshot != nil {
		list = append(list, p.pinned(snapshot)...)
		learned := p.learned(snapshot)
		list = append(list, learned...)
		if len(learned) > 0 {
			missed = learned[0].reason
		}
	}
	return append(list, candidate{source: Heuristic, ok: true, plan: Plan{Config: p.Heuristic()},
		reason: "chosen from host and model facts alone: " + missed})
}

func (p Problem) pinned(snapshot *history.Snapshot) []candidate {
	var list []candidate
	for _, pin := range snapshot.Pins {
		if pin.Model != p.Model.Fingerprint() {
			continue
		}
		c := candidate{source: Pinned, ok: true, reason: fmt.Sprintf("pinned by %s on %s", pin.By, pin.At.Format(time.DateOnly))}
		if err := json.Unmarshal(pin.Config, &c.plan.Config); err != nil {
			c.ok, c.reason = false, "the pinned config does not parse: "+err.Error()
		} else if err := c.plan.Config.Validate(p.Host); err != nil {
			c.ok, c.reason = false, "the pinned config is not possible here: "+err.Error()
		}
		list = append(list, c)
	}
	return list
}

// learned turns every learned config for this model and target into a candidate, the surest first: for this very host
// and limits, for p's objective, the newest.
func (p Problem) learned(snapshot *history.Snapshot) []candidate {
	var list []candidate
	for _, l := range p.entries(snapshot) {
		list = append(list, p.candidate(l))
	}
	rank := map[Source]int{Measured: 0, Derived: 1, NearHost: 2}
	sort.SliceStable(list, func(i, j int) bool { return rank[list[i].source] < rank[list[j].source] })
	return list
}

// entries are the learned configs for this model and target, those for p's objective first, the nearest host first
// among them, and the newest first among equals.
func (p Problem) entries(snapshot *history.Snapshot) []history.Learned {
	if snapshot == nil {
		return nil
	}
	here := fields(p.Host.Identity())
	var list []history.Learned
	for _, l := range snapshot.Learned {
		if l.Model == p.Model.Fingerprint() && l.Target == p.Target {
			list = append(list, l)
		}
	}
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if own := string(p.Objective); (a.Objective == own) != (b.Objective == own) {
			return a.Objective == own
		}
		if x, y := len(differing(here, a.Identity)), len(differing(here, b.Identity)); x != y {
			return x < y
		}
		return a.MeasuredAt.After(b.MeasuredAt)
	})
	return list
}

func (p Problem) candidate(l history.Learned) candidate {
	identity := differing(fields(p.Host.Identity()), l.Identity)
	envelope := differing(fields(p.Host.Envelope()), l.Envelope)
	c := candidate{ok: true}
	var proof Certificate
	if err := json.Unmarshal(l.Config, &c.plan.Config); err != nil {
		return candidate{source: NearHost, reason: "a learned config does not parse: " + err.Error()}
	}
	measured := fmt.Sprintf("measured on %s for %s with %d evaluations", l.MeasuredAt.Format(time.DateOnly), l.Objective, l.Evaluations)
	switch {
	case len(identity) > 0:
		c.source, c.reason = NearHost, "learned on a host that differs in "+strings.Join(identity, ", ")
		c.ok = !crosses(identity)
	case l.Signature != kernels.Signature():
		c.source, c.reason = Derived, "measured here with another kernel table ("+l.Signature+"); run tune to renew it"
	case len(envelope) > 0:
		c.source, c.reason = Derived, measured+" on this host, re-bounded because "+strings.Join(envelope, ", ")+" changed"
	default:
		c.source, c.reason = Measured, measured+" on this host under these limits"
		c.plan.MeasuredAt, c.plan.Evaluations = l.MeasuredAt, l.Evaluations
		if err := json.Unmarshal(l.Certificate, &proof); err == nil {
			c.plan.Ratio = proof.Ratio
		}
	}
	if c.source != Measured {
		c.plan.Config = p.rebound(c.plan.Config, l.Curve)
	}
	if err := c.plan.Config.Validate(p.Host); err != nil {
		c.ok, c.reason = false, c.reason+"; not possible here: "+err.Error()
	}
	return c
}

// crosses reports whether a differing identity field makes another host's config meaningless here.
func crosses(identity []string) bool {
	for _, name := range identity {
		if name == "arch" || name == "vendor" {
			return true
		}
	}
	return false
}

// Curve is the best cost seen at each thread count, per regime, in ns per token: what a plan under other limits is
// derived from.
type Curve map[target.Regime]map[int]float64

// rebound cuts the threads of a learned config to what may be used here: the best measured count within the bound
// where the curve is known, else the bound itself.
func (p Problem) rebound(c Config, raw json.RawMessage) Config {
	var curve Curve
	if json.Unmarshal(raw, &curve) != nil {
		curve = nil
	}
	for _, r := range Regimes {
		s := c.setting(r)
		if s.Threads <= p.threads() {
			continue
		}
		best := p.threads()
		for n, cost := range curve[r] {
			if known, ok := curve[r][best]; n <= p.threads() && (!ok || cost < known) {
				best = n
			}
		}
		s.Threads = best
	}
	c.WorkspaceBytes = c.workspace(p.Model)
	return c
}

// differing lists the names of the fields that differ, in order. A field that either side does not know does not
// count: the unknown heals when it becomes known.
func differing(here, there map[string]string) []string {
	var names []string
	for name, value := range here {
		if other, ok := there[name]; ok && value != "" && other != "" && value != other {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// Field is one part of the key under which results are kept, compared between now and when something was learned.
type Field struct {
	Class   string `json:"class"` // identity, envelope or condition
	Name    string `json:"name"`
	Here    string `json:"here"`
	Learned string `json:"learned"`
	Match   bool   `json:"match"`
}

// Explanation is why a plan is what it is.
type Explanation struct {
	Plan         Plan            `json:"plan"`
	PassedOver   []string        `json:"passed_over"` // candidates that could not be used, with the reason
	Fields       []Field         `json:"fields"`      // the key, field by field; empty when nothing was learned
	Regimes      []RegimeVerdict `json:"regimes"`     // evidence of the run behind the plan
	Measurements int             `json:"measurements"`
}

// Explain says why Plan answers as it does for a model: the evidence, which fields of the key matched or missed, and
// the runners-up.
func (t *Tuner) Explain(ctx context.Context, model string) (Explanation, error) {
	p, err := t.problem(ctx, model)
	if err != nil {
		return Explanation{}, err
	}
	snapshot, err := t.snapshot()
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Plan: p.plan(snapshot)}
	for _, c := range p.candidates(snapshot) {
		if !c.ok {
			e.PassedOver = append(e.PassedOver, c.reason)
		}
	}
	if known := p.entries(snapshot); len(known) > 0 {
		l := known[0]
		e.Fields = compareFields(p.Host, l)
		var proof Certificate
		if err := json.Unmarshal(l.Certificate, &proof); err == nil {
			e.Regimes = proof.Regimes
		}
	}
	e.Measurements, err = t.countRecords(ctx, p)
	return e, err
}

func compareFields(h probe.Host, l history.Learned) []Field {
	var list []Field
	add := func(class string, now []probe.Field, then map[string]string) {
		for _, f := range now {
			list = append(list, Field{Class: class, Name: f.Name, Here: f.Value, Learned: then[f.Name], Match: f.Value == then[f.Name]})
		}
	}
	add("identity", h.Identity(), l.Identity)
	list = append(list, Field{Class: "identity", Name: "kernels", Here: kernels.Signature(), Learned: l.Signature, Match: kernels.Signature() == l.Signature})
	add("envelope", h.Envelope(), l.Envelope)
	add("condition", h.Condition(), l.Condition)
	return list
}
