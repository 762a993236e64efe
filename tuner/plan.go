package tuner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
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
	Hash        string    `json:"hash"` // of Config, as ModeFrozen wants it
	MeasuredAt  time.Time `json:"measured_at,omitzero"`
	Evaluations int       `json:"evaluations"`
	Ratio       Ratio     `json:"ratio"` // measured gain over the default; zero unless Measured
	// Recheck names what has changed since the measurement and may have shifted it: fields of the host's condition, or
	// "host" for what was never measured on this one. A tune settles it; Verify tells whether there is need of one.
	Recheck []string `json:"recheck,omitempty"`
	// LayoutReason is why the weights lie in this layout; "" unless Measured with a choice of layouts.
	LayoutReason string `json:"layout_reason,omitempty"`
	// PinnedKnobs are those that an operator set; all others are from Source.
	PinnedKnobs []history.PinnedKnob `json:"pinned_knobs,omitempty"`
	// Device says how strategy, threads, batch and memory follow from facts; nil unless the source is Heuristic.
	Device *device.Decision `json:"device,omitempty"`
}

// candidate is something a plan can be made of, with the reason it was or was not taken.
type candidate struct {
	source Source
	plan   Plan
	reason string // why this one, or why it was passed over
	ok     bool
	entry  *history.Learned // what it was learned as; nil for a pin and the heuristic
	proof  Certificate      // of entry
	// received: another host of this class proved it, and it was checked on this one.
	received bool
	here     bool // it was measured on this host under these limits, though perhaps with other knobs pinned
}

// plan picks the surest candidate for p out of a snapshot, which may be nil.
func (p Problem) plan(snapshot *history.Snapshot) Plan {
	for _, c := range p.candidates(snapshot) {
		if c.ok {
			c.plan.Source, c.plan.Reason = c.source, c.reason
			c.plan.Model, c.plan.Fingerprint = p.Model.Name, p.fingerprint()
			c.plan.Reason, c.plan.Hash = c.plan.Reason+p.knobNote, c.plan.Config.Hash()
			if c.source != Pinned {
				c.plan.PinnedKnobs = p.knobs
			}
			return c.plan
		}
	}
	panic("tuner: the heuristic always answers")
}

// candidates lists what is known, surest first; the last is the heuristic and always usable. No source, not even an
// operator, can make an arm the answer that was found to give wrong results here.
func (p Problem) candidates(snapshot *history.Snapshot) []candidate {
	var list []candidate
	var wrong []target.Arm
	missed := "nothing was measured here yet; run tune"
	learned := p.shipped()
	if snapshot != nil {
		wrong = p.wrong(snapshot)
		list = p.pinned(snapshot)
		learned = append(p.learned(snapshot), learned...)
	}
	if p.unused != "" {
		learned, missed = nil, p.unused
	}
	list = append(list, learned...)
	if len(learned) > 0 {
		missed = learned[0].reason
	}
	for i := range list {
		if r, bad := list[i].plan.Config.tainted(wrong); bad && list[i].ok {
			list[i].ok = false
			list[i].reason += "; passed over because its " + string(r) + " setting was found to give wrong results"
		}
		if later, ok := list[i].refusedSince(learned); ok && list[i].ok {
			list[i].ok = false
			list[i].reason += "; passed over because it was refused when it was checked again: " + later.Reason
		}
	}
	if slices.ContainsFunc(list, func(c candidate) bool { return c.ok }) {
		p.device.Log = nil // what is decided from facts is not the answer, so it is no news
	}
	how := "chosen from host and model facts alone: "
	if p.device.Off {
		how = "the fixed configuration, as asked for: "
	}
	facts := candidate{source: Heuristic, ok: true, plan: p.decide(wrong, snapshot), reason: how + missed}
	facts.plan.Config, _ = p.kept(facts.plan.Config)
	return append(list, facts)
}

func (p Problem) pinned(snapshot *history.Snapshot) []candidate {
	var list []candidate
	for _, pin := range snapshot.Pins {
		if pin.Model != p.Model.Fingerprint() || len(pin.Knobs) > 0 {
			continue
		}
		c := candidate{source: Pinned, ok: true, reason: fmt.Sprintf("pinned by %s on %s", pin.By, pin.At.Format(time.DateOnly))}
		if err := json.Unmarshal(pin.Config, &c.plan.Config); err != nil {
			c.ok, c.reason = false, "the pinned config does not parse: "+err.Error()
		} else if err := p.on(c.plan.Config.target()).validate(c.plan.Config); err != nil {
			c.ok, c.reason = false, "the pinned config is not possible here: "+err.Error()
		}
		list = append(list, c)
	}
	return list
}

// pin is the pinned config of p's model, if it has one that parses.
func (p Problem) pin(snapshot *history.Snapshot) (Config, bool) {
	if snapshot == nil {
		return Config{}, false
	}
	for _, c := range p.pinned(snapshot) {
		if c.plan.Config.Strategy != "" {
			return c.plan.Config, true
		}
	}
	return Config{}, false
}

// learned turns every learned config for this model and target into a candidate, the surest first: for this very host
// and limits, for p's objective, the newest.
func (p Problem) learned(snapshot *history.Snapshot) []candidate {
	var list []candidate
	for _, l := range p.entries(snapshot) {
		list = append(list, p.candidate(l, ""))
	}
	rank := map[Source]int{Measured: 0, Derived: 1, NearHost: 2}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(rank[a.source], rank[b.source]) })
	return list
}

// entries are the learned configs for this model and target, of the nearest host first, and the newest first among
// equals, whatever its objective: a run keeps the settings of the regimes that it does not measure.
func (p Problem) entries(snapshot *history.Snapshot) []history.Learned {
	if snapshot == nil {
		return nil
	}
	here := fields(p.identity())
	var list []history.Learned
	for _, l := range snapshot.Learned {
		if l.Model == p.Model.Fingerprint() && l.Target == p.Target {
			list = append(list, l)
		}
	}
	slices.SortStableFunc(list, func(a, b history.Learned) int {
		if c := cmp.Compare(len(differing(here, a.Identity)), len(differing(here, b.Identity))); c != 0 {
			return c
		}
		return b.MeasuredAt.Compare(a.MeasuredAt)
	})
	return list
}

// candidate is what a learned config is worth here. from names the prior that it is from, "" the own store.
func (p Problem) candidate(l history.Learned, from string) candidate {
	identity := differing(fields(p.identity()), l.Identity)
	envelope := differing(fields(p.Host.Envelope()), l.Envelope)
	c := candidate{source: Measured, entry: &l}
	if len(identity) > 0 || from != "" {
		c.source = NearHost
	} else if len(envelope) > 0 {
		c.source = Derived
	}
	if err := json.Unmarshal(l.Config, &c.plan.Config); err != nil {
		c.reason = "a learned config does not parse: " + err.Error()
		return c
	}
	if err := json.Unmarshal(l.Certificate, &c.proof); err != nil {
		c.reason = "the certificate of a learned config does not parse: " + err.Error()
		return c
	}
	if c.received = c.proof.Received != nil && len(identity) == 0 && from == ""; c.received {
		c.source = NearHost
	}
	if l.Signature != p.domain().signature() {
		c.reason = "what was learned is of another kernel table (" + l.Signature + "); run tune to renew it"
		return c
	}
	if crosses(identity) {
		c.reason = "what was learned is of another kind of host, which differs in " + strings.Join(identity, ", ")
		return c
	}
	p.explain(&c, identity, envelope)
	if from != "" {
		c.reason = "from the site prior " + from + ": " + c.reason
	}
	if c.proof.Received != nil && c.proof.Received.Verdict == Failed {
		if !c.received {
			c.reason += "; passed over because it was refused where it was checked"
		}
		return c
	}
	if c.source == NearHost && !c.received && p.domain().narrower(c.plan.Config) {
		c.reason += "; passed over because it knows no kernel as wide as this host's"
		return c
	}
	c.here = c.source == Measured
	p.keepTo(&c)
	if err := p.validate(c.plan.Config); err != nil {
		c.reason += "; not possible here: " + err.Error()
		return c
	}
	c.ok = true
	return c
}

// keepTo makes a candidate have the pinned knobs. What was measured with others is only where its config is from.
func (p Problem) keepTo(c *candidate) {
	config, changed := p.kept(c.plan.Config)
	why := ""
	if changed {
		why = "not measured with " + knobText(p.knobs) + ", which is pinned"
	} else if lifted := p.lifted(*c.entry); len(lifted) > 0 {
		why = "only the best with " + strings.Join(lifted, " ") + ", which is not pinned any more"
	}
	c.plan.Config = config
	if why == "" {
		return
	}
	c.reason += "; " + why
	if c.source == Measured {
		c.source, c.plan.MeasuredAt, c.plan.Evaluations, c.plan.Ratio = Derived, time.Time{}, 0, Ratio{}
	}
}

// explain fills the reason of a candidate, its evidence where it is this host's own, and re-bounds it where it is not.
func (p Problem) explain(c *candidate, identity, envelope []string) {
	l := c.entry
	measured := fmt.Sprintf("measured on %s for %s with %d arms known", l.MeasuredAt.Local().Format(time.DateOnly), l.Objective, l.Evaluations)
	switch {
	case c.received:
		c.reason = c.proof.Received.sentence(measured)
	case c.source == NearHost && len(identity) == 0:
		c.reason = measured + " on another host of this kind"
	case c.source == NearHost:
		c.reason = measured + " on a host that differs in " + strings.Join(identity, ", ")
	case c.source == Derived:
		c.reason = measured + " on this host, re-bounded because " + strings.Join(envelope, ", ") + " changed"
	default:
		c.reason = measured + " on this host under these limits"
		c.plan.MeasuredAt, c.plan.Evaluations, c.plan.Ratio = l.MeasuredAt, l.Evaluations, c.proof.Ratio
		c.plan.LayoutReason = c.proof.layoutReason()
	}
	if back := c.proof.RolledBack; back != nil {
		c.reason += fmt.Sprintf("; rolled back to by %s on %s: %s", back.By, back.At.Local().Format(time.DateOnly), back.Why)
	}
	if open := c.proof.unproven(); open != "" && !c.received { // of which all was checked
		c.reason += "; " + open + " from facts alone, not measured or not decided"
	}
	if c.source != Measured {
		c.plan.Config = p.rebound(c.plan.Config, *l)
	}
	p.recheck(c)
	if c.received && len(envelope) > 0 {
		c.plan.Recheck = slices.Concat(envelope, c.plan.Recheck)
		c.reason += "; re-bounded since, because " + strings.Join(envelope, ", ") + " changed"
	}
}

// recheck notes what may have shifted a measurement since it was taken. A changed condition leaves the answer and
// doubles its interval.
func (p Problem) recheck(c *candidate) {
	if c.source == NearHost && !c.received {
		c.plan.Recheck = []string{"host"}
		return
	}
	here, there := fields(p.Host.Condition()), c.entry.Condition
	c.plan.Recheck = differing(here, there)
	if len(c.plan.Recheck) == 0 {
		return
	}
	var changes []string
	for _, name := range c.plan.Recheck {
		changes = append(changes, fmt.Sprintf("%s was %s and is %s", name, there[name], here[name]))
	}
	c.reason += "; to be checked again, since " + strings.Join(changes, ", ")
	c.plan.Ratio = c.plan.Ratio.widened(conditionDoubt)
}

// conditionDoubt is how much wider an interval is, on the scale of logarithms, once the condition has changed: our
// choice, for want of a measurement. The next tune replaces it; a verify only tells.
const conditionDoubt = 2

// widened returns r with an interval that many times as wide.
func (r Ratio) widened(times float64) Ratio {
	if r.Low > 0 && r.High > 0 && r.Estimate > 0 {
		r.Low = r.Estimate * math.Pow(r.Low/r.Estimate, times)
		r.High = r.Estimate * math.Pow(r.High/r.Estimate, times)
	}
	return r
}

// crosses reports whether a differing identity field makes another host's config meaningless here. Another card does;
// another driver of the same card does not.
func crosses(identity []string) bool {
	for _, name := range identity {
		switch name {
		case "os", "arch", "cpu_vendor", "gpu", "gpu_capability", "gpu_memory_gib":
			return true
		}
	}
	return false
}

// Curve is the best cost seen at each thread count, per regime, relative to the heuristic: what a plan under other
// limits is derived from.
type Curve map[target.Regime]map[int]float64

// rebound fits the threads of a learned config to what may be used here: the best measured count within the bound
// where the curve is known. Where more may be used here than was tried there, the heuristic's count: nothing is known
// of it, but the learned one is only the best of the few.
func (p Problem) rebound(c Config, l history.Learned) Config {
	var curve Curve
	if json.Unmarshal(l.Curve, &curve) != nil {
		curve = nil
	}
	tried, err := strconv.Atoi(l.Envelope["usable_cores"])
	grown := err == nil && tried < p.threads()
	heuristic := p.Heuristic()
	for _, r := range Regimes {
		s := c.setting(r)
		switch {
		case grown:
			s.Threads = heuristic.setting(r).Threads
		case s.Threads > p.threads():
			s.Threads = curve.best(r, p.threads())
		}
	}
	return p.completed(c)
}

// best is the cheapest thread count of a regime within a bound, the bound itself where nothing is known.
func (c Curve) best(r target.Regime, bound int) int {
	best := bound
	for _, n := range slices.Sorted(maps.Keys(c[r])) {
		if known, ok := c[r][best]; n <= bound && (!ok || c[r][n] < known) {
			best = n
		}
	}
	return best
}

// differing lists the names of the fields that differ, in order. A field that either side does not know does not
// count: the unknown heals when it becomes known.
func differing(here, there map[string]string) []string {
	var names []string
	for name, value := range here {
		if other, ok := there[name]; ok && value != other && known(value) && known(other) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// known reports whether a field's value says anything: probe writes "" or "0" for what it could not read.
func known(value string) bool { return value != "" && value != "0" }

// Field is one part of the key under which results are kept, compared between now and when something was learned.
type Field struct {
	Class   string `json:"class"` // identity, envelope or condition
	Name    string `json:"name"`
	Here    string `json:"here"`
	Learned string `json:"learned"`
	Match   bool   `json:"match"`
	Unknown bool   `json:"unknown"` // on one side or both: no mismatch, and it heals when it becomes known
}

// Explanation is why a plan is what it is.
type Explanation struct {
	Plan         Plan            `json:"plan"`
	PassedOver   []string        `json:"passed_over"` // candidates that could not be used, with the reason
	Fields       []Field         `json:"fields"`      // the key, field by field; empty when nothing was learned
	Regimes      []RegimeVerdict `json:"regimes"`     // evidence of the run behind the plan
	Layouts      []LayoutVerdict `json:"layouts"`     // how that run chose the layout
	Measurements int             `json:"measurements"`
}

// Explain says why Plan answers as it does for a model: the evidence, which fields of the key matched or missed, and
// the runners-up.
func (t *Tuner) Explain(ctx context.Context, model string) (Explanation, error) {
	p, err := t.problem(ctx, model)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{PassedOver: []string{}, Fields: []Field{}, Regimes: []RegimeVerdict{}, Layouts: []LayoutVerdict{}}
	snapshot, err := t.snapshot()
	if err != nil {
		e.PassedOver = append(e.PassedOver, "the learned configs could not be read: "+err.Error())
	}
	if t.prior.err != nil {
		e.PassedOver = append(e.PassedOver, "the site prior could not be read: "+t.prior.err.Error())
	}
	p, note, _ := t.answering(ctx, p, snapshot)
	e.Plan = p.plan(snapshot)
	e.Plan.Reason += note
	p.device.Log = nil // said already
	for _, c := range p.candidates(snapshot) {
		if !c.ok {
			e.PassedOver = append(e.PassedOver, c.reason)
		}
		if c.entry != nil && (c.ok || len(e.Fields) == 0) {
			e.Fields, e.Regimes = p.compareFields(*c.entry), slices.Concat(c.proof.Regimes, c.proof.Inherited)
			e.Layouts = append(e.Layouts[:0], c.proof.Layouts...)
		}
		if c.ok {
			break
		}
	}
	if e.Measurements, err = t.countRecords(ctx, p); err != nil {
		e.PassedOver = append(e.PassedOver, "the measurements could not be read: "+err.Error())
	}
	return e, nil
}

func (p Problem) compareFields(l history.Learned) []Field {
	var list []Field
	add := func(class string, now []probe.Field, then map[string]string) {
		for _, f := range now {
			was := then[f.Name]
			list = append(list, Field{Class: class, Name: f.Name, Here: f.Value, Learned: was, Match: f.Value == was, Unknown: !known(f.Value) || !known(was)})
		}
	}
	add("identity", p.identity(), l.Identity)
	here := p.domain().signature()
	list = append(list, Field{Class: "identity", Name: "kernels", Here: here, Learned: l.Signature, Match: here == l.Signature})
	add("envelope", p.Host.Envelope(), l.Envelope)
	add("condition", p.Host.Condition(), l.Condition)
	return list
}
