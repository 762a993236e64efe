package tuner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// An operator may pin single knobs, such as decode.threads, and leave the others to the tuner. They hold for everything that
// answers, whatever it was learned with, for the default that a run compares with, and for what a run tries.

// knobsField is in the envelope of what was learned while knobs were pinned: it is the best of fewer.
const knobsField = "pinned_knobs"

// PinKnobs makes every answer for a model have these values, written "decode.threads=3", until UnpinKnobs or Unpin. They join
// those that are pinned already. One that is not possible on this host is refused.
func (t *Tuner) PinKnobs(ctx context.Context, model string, set []string, by string) error {
	if t.opt.Store == "" {
		return errors.New("pin: no store to keep it in: name a directory")
	}
	p, err := t.problem(ctx, model)
	if err != nil {
		return err
	}
	snapshot, err := t.snapshot()
	if err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	if _, whole := p.pin(snapshot); whole {
		return fmt.Errorf("pin: all of the config of %s is pinned; unpin it first", p.Model.Name)
	}
	p, _, _ = t.answering(ctx, p, snapshot)
	var knobs []history.PinnedKnob
	for _, text := range set {
		k, err := p.parseKnob(text)
		if err != nil {
			return fmt.Errorf("pin: %w", err)
		}
		k.By, k.At = by, t.opt.Now().UTC()
		knobs = append(knobs, k)
	}
	p.knobs = merged(p.knobs, knobs)
	if err := p.possible(); err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	return t.changePin(ctx, p, func(pin *history.Pin) error {
		pin.Knobs, pin.By, pin.At = merged(pin.Knobs, knobs), by, t.opt.Now().UTC()
		return nil
	})
}

// UnpinKnobs gives these knobs of a model back to the tuner. One that is not pinned is an error.
func (t *Tuner) UnpinKnobs(ctx context.Context, model string, names []string) error {
	p, err := t.problem(ctx, model)
	if err != nil {
		return err
	}
	if there, err := t.readStore(); err != nil || there == nil {
		return errors.Join(err, fmt.Errorf("unpin: %s has no pinned knobs: there is no history in %q", p.Model.Name, t.opt.Store))
	}
	var missing error
	err = t.changePin(ctx, p, func(pin *history.Pin) error {
		for _, name := range names {
			i := slices.IndexFunc(pin.Knobs, func(k history.PinnedKnob) bool { return k.Knob == name })
			if i < 0 {
				missing = fmt.Errorf("unpin: knob %q of %s is not pinned; these are: %s", name, p.Model.Name, orNone(knobText(pin.Knobs)))
				return missing
			}
			pin.Knobs = slices.Delete(pin.Knobs, i, i+1)
		}
		return nil
	})
	if missing != nil {
		return missing
	}
	return err
}

func (t *Tuner) changePin(ctx context.Context, p Problem, change func(*history.Pin) error) error {
	store, err := history.Open(t.opt.Store, history.Options{})
	if err != nil {
		return err
	}
	defer t.forget()
	return store.ChangePin(ctx, p.Model.Fingerprint(), change)
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// merged is a list of knobs with those of another in place of older ones, in order.
func merged(list, more []history.PinnedKnob) []history.PinnedKnob {
	all := slices.Clone(list)
	for _, k := range more {
		all = slices.DeleteFunc(all, func(old history.PinnedKnob) bool { return old.Knob == k.Knob && old.Target == k.Target })
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b history.PinnedKnob) int { return strings.Compare(a.Target+" "+a.Knob, b.Target+" "+b.Knob) })
	return all
}

// knobText is the canonical form of a list of knobs: "decode.threads=3 prefill.batch=128".
func knobText(list []history.PinnedKnob) string {
	var words []string
	for _, k := range list {
		words = append(words, k.Knob+"="+k.Value)
	}
	return strings.Join(words, " ")
}

// parseKnob reads "decode.threads=3". What it returns has a form that the knob can have; whether it is possible together with
// the other knobs, possible tells.
func (p Problem) parseKnob(text string) (history.PinnedKnob, error) {
	name, value, ok := strings.Cut(text, "=")
	k := history.PinnedKnob{Target: p.Target, Knob: name, Value: value}
	if !ok {
		return k, fmt.Errorf("%q: want KNOB=VALUE such as decode.threads=3", text)
	}
	if name == knobLayout { // the one knob that is of no regime
		if !slices.Contains(p.in("").layouts(), kernels.Layout(value)) {
			return k, fmt.Errorf("%s: one of %v", text, p.in("").layouts())
		}
		return k, nil
	}
	regime, knob, _ := strings.Cut(name, ".")
	if !slices.Contains(Regimes, target.Regime(regime)) || knob == knobLayout {
		return k, fmt.Errorf("%s: want %s, which all regimes share, or one of %v with a knob such as decode.threads", text, knobLayout, Regimes)
	}
	p.knobs = nil
	space, err := p.in("").Space(target.Regime(regime))
	if err != nil {
		return k, err
	}
	var names []string
	for _, known := range space.Knobs() {
		switch {
		case known.Name != knob:
			names = append(names, known.Name)
			continue
		case known.Kind == bandit.Categorical && !slices.Contains(known.Values, value):
			return k, fmt.Errorf("%s: one of %s", text, strings.Join(known.Values, ", "))
		case known.Kind == bandit.Ordinal:
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 {
				return k, fmt.Errorf("%s: want a number such as %s", text, known.Values[0])
			}
			k.Value = strconv.Itoa(n)
		}
		return k, nil
	}
	return k, fmt.Errorf("%s: the knobs of %s are %s", text, regime, strings.Join(names, ", "))
}

// pinnedOf are the pinned knobs of a regime: name to value.
func (p Problem) pinnedOf(r target.Regime) map[string]string {
	pinned := map[string]string{}
	for _, k := range p.knobs {
		if name, ok := strings.CutPrefix(k.Knob, string(r)+"."); ok && k.Target == p.Target {
			pinned[name] = k.Value
		}
	}
	return pinned
}

// pinnedLayout is the layout that the pinned knobs leave, "" = any: a kernel has its own. The error is where they leave none.
func (p Problem) pinnedLayout() (kernels.Layout, error) {
	var layout kernels.Layout
	for _, k := range p.knobs {
		of := kernels.Layout(k.Value)
		if kernel, ok := kernels.ByName(k.Value); ok && strings.HasSuffix(k.Knob, "."+knobKernel) {
			of = kernel.Layout
		} else if k.Knob != knobLayout {
			continue
		}
		if k.Target != p.Target {
			continue
		}
		if layout != "" && of != layout {
			return "", fmt.Errorf("%s: layouts %s and %s at once: the weights are held once", knobText(p.knobs), layout, of)
		}
		layout = of
	}
	return layout, nil
}

// possible is the reason why the pinned knobs cannot be had on this host, if there is one.
func (p Problem) possible() error {
	layout, err := p.pinnedLayout()
	if err != nil {
		return err
	}
	p.Layout = layout
	for _, r := range Regimes {
		if _, err := p.Space(r); err != nil {
			return fmt.Errorf("%s: %w", knobText(p.knobs), err)
		}
		if err := p.domain().judge(r, p.obeying(r, p.domain().standard().Arm(r))); err != nil {
			return fmt.Errorf("%s: %s: %w", knobText(p.knobs), r, err)
		}
	}
	return nil
}

// under is p with the knobs that are pinned for its model. Those that cannot be had on this host, whose limits may have become
// narrower, are left out, and the note says so.
func (p Problem) under(snapshot *history.Snapshot) Problem {
	if snapshot == nil {
		return p
	}
	i := slices.IndexFunc(snapshot.Pins, func(pin history.Pin) bool { return pin.Model == p.Model.Fingerprint() })
	if i < 0 || len(snapshot.Pins[i].Knobs) == 0 {
		return p
	}
	for _, k := range snapshot.Pins[i].Knobs {
		with := p
		with.knobs = append(slices.Clone(p.knobs), k)
		if err := with.possible(); err != nil {
			p.knobNote += "; a pinned knob is not possible here: " + err.Error()
			continue
		}
		p.knobs = with.knobs
	}
	if len(p.knobs) > 0 {
		p.Layout, _ = p.pinnedLayout()
	}
	return p
}

// restricted are the knobs of a space with the pinned ones fixed.
func (p Problem) restricted(r target.Regime, knobs []bandit.Knob) []bandit.Knob {
	pinned := p.pinnedOf(r)
	for i := range knobs {
		if value, ok := pinned[knobs[i].Name]; ok {
			knobs[i].Values = []string{value}
		}
	}
	return knobs
}

// obeys reports whether an arm has the values of the pinned knobs.
func (p Problem) obeys(r target.Regime, a target.Arm) bool {
	if layout, _ := p.pinnedLayout(); layout != "" && a.Layout != layout {
		return false
	}
	values := p.domain().values(a)
	for name, value := range p.pinnedOf(r) {
		if values[name] != value {
			return false
		}
	}
	return true
}

// obeying is an arm with the pinned knobs, and the others as they are where that can be: the point of the space that agrees
// with it in most knobs.
func (p Problem) obeying(r target.Regime, a target.Arm) target.Arm {
	if len(p.knobs) == 0 || p.obeys(r, a) {
		return a
	}
	layout, _ := p.pinnedLayout()
	if layout == "" {
		layout = a.Layout
	}
	space, err := p.in(layout).Space(r)
	if err != nil {
		return a // possible has told
	}
	values, best, most := p.domain().values(a), bandit.Point(nil), -1
	for i := range space.Size() {
		point, agree := space.At(i), 0
		for _, k := range space.Knobs() {
			if space.Value(point, k.Name) == values[k.Name] {
				agree++
			}
		}
		if agree > most {
			best, most = point, agree
		}
	}
	return p.ArmAt(space, best)
}

// kept is a config with the pinned knobs, and whether that is another one.
func (p Problem) kept(c Config) (Config, bool) {
	if len(p.knobs) == 0 {
		return c, false
	}
	was := c
	for _, r := range Regimes {
		arm := p.obeying(r, was.Arm(r))
		c, c.Layout = c.with(r, arm), arm.Layout
	}
	if c.equal(was) {
		return c, false
	}
	return p.completed(c), true
}

// lifted are the knobs that were pinned when l was learned and are not now, or not to the same value: l is only the best of what
// they left.
func (p Problem) lifted(l history.Learned) []string {
	now := strings.Fields(knobText(p.knobs))
	return slices.DeleteFunc(strings.Fields(l.Envelope[knobsField]), func(k string) bool { return slices.Contains(now, k) })
}
