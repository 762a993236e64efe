package advisor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Rule judges a context. It returns at most one suggestion: nil where there is nothing to suggest. An error that wraps
// *Missing says that the context lacks what the rule needs; any other error is a failure, which the report tells.
type Rule interface {
	Check(c *Context) (*Suggestion, error)
}

// Options are how an Advisor is made. The zero value works.
type Options struct {
	Constants *Constants // if nil, Defaults
	// Silence are the ids that are not to be suggested: "threads/smt-siblings" whatever it says, or
	// "threads/smt-siblings@1f00ba7d" only while it says the same.
	Silence []string
	// Further adds the advice that has no figure.
	Further bool
}

// Advisor turns contexts into reports. It changes nothing on the host.
type Advisor struct {
	constants Constants
	silence   []string
	rules     []row
}

// row is a rule with what never changes about its suggestions.
type row struct {
	id         string
	category   Category
	difficulty Difficulty
	impact     Impact // Critical, or of what has no figures; "" = what the figures come to
	check      func(c *Context) (*Suggestion, error)
}

// New returns an advisor with the built-in rules.
func New(opt Options) (*Advisor, error) {
	a := &Advisor{constants: Defaults, rules: slices.Clone(builtins)}
	if opt.Constants != nil {
		a.constants = *opt.Constants
	}
	if opt.Further {
		a.rules = append(a.rules, further...)
	}
	for _, entry := range opt.Silence {
		id, _, _ := strings.Cut(entry, "@")
		if !knownID(id) && !strings.HasPrefix(id, customPrefix) {
			return nil, fmt.Errorf("advisor: silence %q: no rule of that id; custom ones begin with %q", entry, customPrefix)
		}
		a.silence = append(a.silence, entry)
	}
	return a, nil
}

// customPrefix begins the ids of rules that are not built in, so that no later version of this package takes one.
const customPrefix = "custom/"

// Add adds a rule under an id that begins with "custom/".
func (a *Advisor) Add(id string, r Rule) error {
	if !strings.HasPrefix(id, customPrefix) || len(id) == len(customPrefix) {
		return fmt.Errorf("advisor: add rule %q: want an id that begins with %q", id, customPrefix)
	}
	if slices.ContainsFunc(a.rules, func(r row) bool { return r.id == id }) {
		return fmt.Errorf("advisor: add rule %q: there is one of that id", id)
	}
	a.rules = append(a.rules, row{id: id, check: r.Check})
	return nil
}

// IDs are those of the built-in rules in order, with or without those that have no figure.
func IDs(furtherToo bool) []string {
	var ids []string
	for _, r := range builtins {
		ids = append(ids, r.id)
	}
	if furtherToo {
		for _, r := range further {
			ids = append(ids, r.id)
		}
	}
	slices.Sort(ids)
	return ids
}

func knownID(id string) bool { return slices.Contains(IDs(true), id) }

// Advise applies every rule to c.
func (a *Advisor) Advise(c Context) Report {
	c.Constants = &a.constants
	r := Report{Host: c.Host.Fingerprint(), Checked: len(a.rules), Constrained: c.constrained(),
		Suggestions: []Suggestion{}, Skipped: []Skipped{}, Failed: []Skipped{}, Silenced: []string{}}
	if c.Model != nil {
		r.Model = c.Model.Name
	}
	for _, rule := range a.rules {
		a.apply(rule, &c, &r)
	}
	r.sort()
	return r
}

// apply adds to the report what one rule has to say.
func (a *Advisor) apply(rule row, c *Context, r *Report) {
	s, err := rule.guarded(c)
	var missing *Missing
	switch {
	case errors.As(err, &missing):
		r.Skipped = append(r.Skipped, Skipped{rule.id, missing.Error()})
		return
	case err != nil:
		r.Failed = append(r.Failed, Skipped{rule.id, err.Error()})
		return
	case s == nil:
		return
	}
	complete := *s
	if err := rule.complete(&complete, c); err != nil {
		r.Failed = append(r.Failed, Skipped{rule.id, err.Error()})
		return
	}
	if e, ok := c.Evidence[rule.id]; ok && c.Current["engine"] != "" && !c.parks() {
		complete.Warnings = append(complete.Warnings, fmt.Sprintf("with this program's own kernels it was measured here: %s of %s (%s); engine %s may do otherwise",
			e, e.Regime, strings.Join(e.Records, ", "), c.Current["engine"]))
	} else if ok {
		if e.High <= 1 {
			r.Skipped = append(r.Skipped, Skipped{rule.id, fmt.Sprintf("measured here: no gain, %s (%s)", e, strings.Join(e.Records, ", "))})
			return
		}
		complete.prove(e, a.constants)
	}
	if slices.Contains(a.silence, rule.id) || slices.Contains(a.silence, rule.id+"@"+complete.Digest) {
		r.Silenced = append(r.Silenced, rule.id)
		return
	}
	r.Suggestions = append(r.Suggestions, complete)
}

// guarded runs the rule; a panic is its failure and not the advisor's.
func (rule row) guarded(c *Context) (s *Suggestion, err error) {
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("the rule panicked: %v", p)
		}
	}()
	seen := *c // a rule may not change what the next one sees of it
	seen.Current = maps.Clone(c.Current)
	return rule.check(&seen)
}

// complete fills in what the row knows, and refuses what no report could show.
func (rule row) complete(s *Suggestion, c *Context) error {
	s.ID = rule.id
	if rule.category != "" {
		s.Category, s.Difficulty = rule.category, rule.difficulty
	}
	if rule.impact != "" {
		s.Impact = rule.impact
	}
	if s.Impact == "" {
		s.Impact = c.constants().impactOf(s.Expected.gainPercent())
	}
	s.Basis = Estimate
	s.Digest = s.digest()
	if len(s.Change) > 0 && c.Model != nil && c.Model.Tunable() == nil && (c.Current["engine"] == "" || c.parks()) && c.canRun() {
		s.Measure = c.command(s.ID)
	}
	s.Steps = append([]string{}, s.Steps...)
	s.Warnings = append([]string{}, s.Warnings...)
	switch {
	case s.Title == "":
		return errors.New("the suggestion has no title")
	case !slices.Contains(Categories, s.Category):
		return fmt.Errorf("category %q: one of %v", s.Category, Categories)
	case !slices.Contains(Impacts, s.Impact):
		return fmt.Errorf("impact %q: one of %v", s.Impact, Impacts)
	case !slices.Contains(difficulties, s.Difficulty):
		return fmt.Errorf("difficulty %q: one of %v", s.Difficulty, difficulties)
	case s.Expected.Source == "":
		return errors.New("the expected improvement has no source")
	}
	return s.Expected.validate()
}

// command is what measures the change that a rule suggests: original and changed configuration, interleaved.
func (c *Context) command(id string) string {
	name := c.Model.Source
	if name == "preset" {
		name = c.Model.Name
	}
	var current []string
	for _, key := range c.Current.keys() {
		current = append(current, key+"="+c.Current[key])
	}
	return fmt.Sprintf("bitnet-autotune advise --model %s --current %s --try %s", shellWord(name), shellWord(strings.Join(current, ",")), id)
}

// shellWord quotes what a shell would take apart.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=,:+", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// prove puts what was measured in place of an estimate. What a rule called critical for want of a measurement is graded by
// it too.
func (s *Suggestion) prove(e Evidence, k Constants) {
	s.Basis = Measured
	s.Expected = Improvement{Speed: &Range{e.Low, e.Ratio, e.High}, Of: e.Regime, Source: "on this host", Confidence: e.Confidence, Records: e.Records}
	s.Impact = k.impactOf(s.Expected.gainPercent())
	s.Warnings = append(s.Warnings, e.Warnings...)
	if e.Low <= 1 {
		s.Impact = Low
		s.Warnings = append(s.Warnings, "the interval holds 1: this host could not tell the two configurations apart")
	}
}

func (e Evidence) String() string {
	return fmt.Sprintf("%.3fx, %.0f %% interval %.3f-%.3f", e.Ratio, 100*e.Confidence, e.Low, e.High)
}
