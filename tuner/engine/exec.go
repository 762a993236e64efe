package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FigureRegime is the one regime of a command.
const FigureRegime = "figure"

// Spec says how to measure a command of one's own. It is a JSON file; see the package's documentation for examples.
type Spec struct {
	// Command is the program and its arguments. An argument may name knobs, {threads}; a list in place of an argument is
	// left out unless all its knobs are set, which is how the program's own choice is measured.
	Command []Words           `json:"command"`
	Env     map[string]string `json:"env,omitempty"` // besides this process's; one that names a knob which is not set is left out
	Dir     string            `json:"dir,omitempty"`
	Knobs   []SpecKnob        `json:"knobs"`
	// Constraints are comparisons of knobs with knobs or values, "threads <= 8"; what breaks one is not tried.
	Constraints []string   `json:"constraints,omitempty"`
	Figure      SpecFigure `json:"figure"`
	// Check is a command that fails where results are wrong. It runs before a setting's figure counts, once for each setting.
	Check   []Words `json:"check,omitempty"`
	Timeout float64 `json:"timeout_seconds,omitempty"` // of each process; 0 = four times the default's and ten seconds
}

// SpecKnob is a knob of a command.
type SpecKnob struct {
	Name   string   `json:"name"`
	Values []string `json:"values"` // in order, where they have one
	// Kind: "threads" has one best value and falls off on both sides, "ordered" is climbed, "categorical" is tried throughout.
	Kind    string `json:"kind"`
	Default string `json:"default,omitempty"` // what the program takes by itself, if that is known
}

// SpecFigure says where the figure is. One of JSON, Regexp and Elapsed is needed.
type SpecFigure struct {
	JSON    string `json:"json,omitempty"`    // dotted path in the output: "results.0.seconds"; a number or a list of them
	Regexp  string `json:"regexp,omitempty"`  // its first group is the number; each match is a repetition
	Elapsed bool   `json:"elapsed,omitempty"` // the time that the process takes
	Unit    string `json:"unit,omitempty"`    // ns, us, ms, s, or a name of your own
	Better  string `json:"better,omitempty"`  // "lower" or "higher"
}

// Words are an argument, or several that stand and fall together.
type Words struct {
	List     []string
	Optional bool
}

// UnmarshalJSON reads a text or a list of texts.
func (w *Words) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &w.List); err == nil {
		w.Optional = true
		return nil
	}
	w.List = make([]string, 1)
	return json.Unmarshal(data, &w.List[0])
}

// MarshalJSON is the inverse.
func (w Words) MarshalJSON() ([]byte, error) {
	if w.Optional || len(w.List) != 1 {
		return json.Marshal(w.List)
	}
	return json.Marshal(w.List[0])
}

var (
	placeholder = regexp.MustCompile(`\{([\w-]+)\}`)
	constraint  = regexp.MustCompile(`^(\S+) (<=|>=|<|>|==|!=) (\S+)$`)
	timeUnits   = map[string]float64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
	kinds       = map[string]Knob{"threads": {Stage: Threads, Ordered: true}, "ordered": {Stage: Batch, Ordered: true}, "categorical": {Stage: Others}}
)

// ReadSpec reads and checks a spec file.
func ReadSpec(path string) (*Spec, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("engine: spec: %w", err)
	}
	var s Spec
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return nil, fmt.Errorf("engine: spec %s: %w", path, err)
	}
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("engine: spec %s: %w", path, err)
	}
	return &s, nil
}

func (s *Spec) validate() error {
	if len(s.Command) == 0 || s.Command[0].Optional {
		return errors.New("command: want a program first, and then its arguments")
	}
	if len(s.Knobs) == 0 {
		return errors.New("knobs: want one at least")
	}
	names := map[string]SpecKnob{}
	for _, k := range s.Knobs {
		_, twice := names[k.Name]
		if placeholder.FindString("{"+k.Name+"}") == "" || twice {
			return fmt.Errorf("knobs: %q: want a name of letters, digits, _ and -, once", k.Name)
		}
		if _, known := kinds[k.Kind]; !known {
			return fmt.Errorf("knob %s: kind %q: want threads, ordered or categorical", k.Name, k.Kind)
		}
		if sorted := slices.Sorted(slices.Values(k.Values)); len(k.Values) < 2 || len(slices.Compact(sorted)) < len(k.Values) {
			return fmt.Errorf("knob %s: values %q: want two or more that differ", k.Name, k.Values)
		}
		names[k.Name] = k
	}
	for _, w := range slices.Concat(s.Command, s.Check, s.envWords()) {
		for _, name := range knobsIn(w.List) {
			k, known := names[name]
			if !known {
				return fmt.Errorf("{%s}: no knob of that name", name)
			}
			if !w.Optional && k.Default == "" {
				return fmt.Errorf("{%s} stands where something must stand: give the knob a default, or put the argument into a list", name)
			}
		}
	}
	for _, c := range s.Constraints {
		if !constraint.MatchString(c) {
			return fmt.Errorf("constraint %q: want two words with one of <= >= < > == != between", c)
		}
	}
	return s.Figure.validate()
}

// envWords are the variables as words that are left out where a knob is not set.
func (s *Spec) envWords() (list []Words) {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		list = append(list, Words{List: []string{name + "=" + s.Env[name]}, Optional: true})
	}
	return list
}

func (f SpecFigure) validate() error {
	given := 0
	for _, there := range []bool{f.JSON != "", f.Regexp != "", f.Elapsed} {
		if there {
			given++
		}
	}
	if given != 1 {
		return errors.New("figure: want one of json, regexp and elapsed")
	}
	if f.Regexp != "" {
		re, err := regexp.Compile(f.Regexp)
		if err != nil {
			return fmt.Errorf("figure: regexp: %w", err)
		}
		if re.NumSubexp() < 1 {
			return errors.New("figure: regexp: want a group around the number")
		}
	}
	if f.Elapsed {
		if f.Unit != "" || f.Better == "higher" {
			return errors.New("figure: elapsed has its unit, and lower is better")
		}
		return nil
	}
	if f.Better != "lower" && f.Better != "higher" {
		return fmt.Errorf("figure: better %q: want lower or higher", f.Better)
	}
	if _, time := timeUnits[f.Unit]; time && f.Better == "higher" {
		return fmt.Errorf("figure: unit %s is a time: lower is better", f.Unit)
	}
	return nil
}

// knobsIn are the knobs that words name.
func knobsIn(words []string) (names []string) {
	for _, w := range words {
		for _, m := range placeholder.FindAllStringSubmatch(w, -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// fill puts values into words; optional ones go where a knob is not set, others take its default.
func (s *Spec) fill(list []Words, set Setting) (words []string) {
	for _, w := range list {
		if w.Optional && slices.ContainsFunc(knobsIn(w.List), func(k string) bool { return set[k] == "" }) {
			continue
		}
		for _, word := range w.List {
			words = append(words, placeholder.ReplaceAllStringFunc(word, func(p string) string { return s.value(p[1:len(p)-1], set) }))
		}
	}
	return words
}

// value is what a knob is set to, else its default.
func (s *Spec) value(knob string, set Setting) string {
	if v := set[knob]; v != "" {
		return v
	}
	for _, k := range s.Knobs {
		if k.Name == knob {
			return k.Default
		}
	}
	return ""
}

// reject says which constraint a setting breaks. Where a knob's own value is not known, nothing is broken.
func (s *Spec) reject(set Setting) error {
	for _, c := range s.Constraints {
		m := constraint.FindStringSubmatch(c)
		left, right := s.side(m[1], set), s.side(m[3], set)
		if left == "" || right == "" || holds(left, m[2], right) {
			continue
		}
		return fmt.Errorf("it breaks the constraint %s", c)
	}
	return nil
}

// side is one side of a comparison: a knob's value, or the word itself.
func (s *Spec) side(word string, set Setting) string {
	if slices.ContainsFunc(s.Knobs, func(k SpecKnob) bool { return k.Name == word }) {
		return s.value(word, set)
	}
	return word
}

// holds compares as numbers where both are, else as texts.
func holds(left, op, right string) bool {
	order := strings.Compare(left, right)
	a, badA := strconv.ParseFloat(left, 64)
	b, badB := strconv.ParseFloat(right, 64)
	if badA == nil && badB == nil {
		order = 0
		if a < b {
			order = -1
		} else if a > b {
			order = 1
		}
	}
	switch op {
	case "<=":
		return order <= 0
	case ">=":
		return order >= 0
	case "<":
		return order < 0
	case ">":
		return order > 0
	case "==":
		return order == 0
	}
	return order != 0
}

// Exec is a command of one's own.
type Exec struct {
	Spec *Spec

	checked map[string]Result
}

// Describe implements Engine.
func (e *Exec) Describe(context.Context) (Description, error) {
	path, err := exec.LookPath(e.Spec.Command[0].List[0])
	if err != nil {
		return Description{}, fmt.Errorf("engine: command: %w", err)
	}
	build, err := hashFile(path)
	if err != nil {
		return Description{}, fmt.Errorf("engine: command: %w", err)
	}
	d := Description{
		Regimes: []Regime{{Name: FigureRegime, Units: 1, Unit: e.Spec.Figure.unit()}}, Reject: e.Spec.reject,
		Facts: map[string]string{"build_commit": build[:16], "program": path}, Note: execNote(len(e.Spec.Check) > 0),
	}
	for _, k := range e.Spec.Knobs {
		knob := kinds[k.Kind]
		knob.Name, knob.Values, knob.Own = k.Name, k.Values, k.Default
		d.Knobs = append(d.Knobs, knob)
	}
	return d, nil
}

func execNote(checks bool) string {
	if checks {
		return "the spec's check command passed for every setting whose figure counts"
	}
	return "the spec has no check command: nobody looked at the results"
}

// Command is the process for a setting.
func (e *Exec) Command(set Setting) Command { return e.command(e.Spec.Command, set) }

func (e *Exec) command(list []Words, set Setting) Command {
	words := e.Spec.fill(list, set)
	return Command{Path: words[0], Args: words[1:], Env: append(os.Environ(), e.Variables(set)...), Dir: e.Spec.Dir}
}

// Variables are those of the spec for a setting, NAME=value.
func (e *Exec) Variables(set Setting) []string { return e.Spec.fill(e.Spec.envWords(), set) }

// Run implements Engine: the check first, if there is one, and then the figure.
func (e *Exec) Run(ctx context.Context, set Setting, _ []string, limit time.Duration) Outcome {
	if own := time.Duration(e.Spec.Timeout * float64(time.Second)); own > 0 {
		limit = min(limit, own)
	}
	checking := time.Now()
	if check := e.check(ctx, set, limit); check.Status != OK {
		return Outcome{Status: check.Status, Note: check.Note, Elapsed: time.Since(checking)}
	}
	r := Run(ctx, e.Command(set), limit)
	o := Outcome{Status: r.Status, Note: r.Note, Elapsed: r.Elapsed}
	if r.Status != OK {
		return o
	}
	costs, err := e.Spec.Figure.costs(r)
	if err != nil {
		o.Status, o.Note = Garbage, err.Error()
		return o
	}
	o.Samples = map[string][]float64{FigureRegime: costs}
	return o
}

// check runs the check command once for each setting. One that says no by its exit status is a mismatch.
func (e *Exec) check(ctx context.Context, set Setting, limit time.Duration) Result {
	if len(e.Spec.Check) == 0 {
		return Result{Status: OK}
	}
	if known, ok := e.checked[set.String()]; ok {
		return known
	}
	r := Run(ctx, e.command(e.Spec.Check, set), limit)
	if r.Status == ExitStatus {
		r.Status = Mismatch
	}
	if r.Note != "" {
		r.Note = "check: " + r.Note
	}
	if r.Status == Stopped {
		return r
	}
	if e.checked == nil {
		e.checked = map[string]Result{}
	}
	e.checked[set.String()] = r
	return r
}

func (f SpecFigure) unit() string {
	if f.Elapsed {
		return "s"
	}
	return f.Unit
}

// costs are the figures of a process as costs: ns where the unit is a time; of a rate, its inverse.
func (f SpecFigure) costs(r Result) ([]float64, error) {
	if f.Elapsed {
		return []float64{float64(r.Elapsed)}, nil
	}
	values, err := f.values(r.Stdout)
	if err != nil {
		return nil, fmt.Errorf("figure: %w", err)
	}
	for i, v := range values {
		if !(v > 0) || v > 1e300 {
			return nil, fmt.Errorf("figure: %g: want a positive number", v)
		}
		if f.Better == "higher" {
			values[i] = 1e9 / v
		} else {
			values[i] = v * orDefault(timeUnits[f.Unit], 1)
		}
	}
	return values, nil
}

func (f SpecFigure) values(out []byte) (values []float64, err error) {
	if f.Regexp != "" {
		for _, m := range regexp.MustCompile(f.Regexp).FindAllSubmatch(out, -1) {
			v, err := strconv.ParseFloat(string(m[1]), 64)
			if err != nil {
				return nil, fmt.Errorf("regexp: %q: want a number", m[1])
			}
			values = append(values, v)
		}
		if len(values) == 0 {
			return nil, fmt.Errorf("regexp: nothing in the output matches %s", f.Regexp)
		}
		return values, nil
	}
	var doc any
	if err := json.Unmarshal(out, &doc); err != nil {
		return nil, fmt.Errorf("json: %w", err)
	}
	for _, name := range strings.Split(f.JSON, ".") {
		switch at := doc.(type) {
		case map[string]any:
			doc = at[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(at) {
				return nil, fmt.Errorf("json: %s: no item %s in a list of %d", f.JSON, name, len(at))
			}
			doc = at[i]
		default:
			return nil, fmt.Errorf("json: %s: nothing at %s", f.JSON, name)
		}
	}
	list, ok := doc.([]any)
	if !ok {
		list = []any{doc}
	}
	for _, item := range list {
		v, ok := item.(float64)
		if !ok {
			return nil, fmt.Errorf("json: %s: %v: want a number", f.JSON, item)
		}
		values = append(values, v)
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("json: %s: an empty list", f.JSON)
	}
	return values, nil
}
