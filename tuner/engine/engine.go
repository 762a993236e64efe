package engine

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// Engine is a program that can be started with settings and tells how fast it was.
type Engine interface {
	// Describe says what there is to set and to measure. It is asked once, before anything runs.
	Describe(ctx context.Context) (Description, error)
	// Run starts one process with the setting and measures the regimes with it. Failure is a Status. It is killed after
	// limit; 0 is no limit.
	Run(ctx context.Context, s Setting, regimes []string, limit time.Duration) Outcome
}

// Description is what an engine has to offer.
type Description struct {
	Regimes []Regime
	Knobs   []Knob                                 // in the order of the stages
	Left    []string                               // why a flag that is known is not a knob here
	Facts   map[string]string                      // of the program itself
	Note    string                                 // what its figures leave open
	Reject  func(Setting) error                    // why a setting is not possible; nil = all are
	Bare    func(facts map[string]string) []string // see Learned.Bare; nil = none
}

// Regime is one way in which an engine is used.
type Regime struct {
	Name  string  `json:"name"`  // "decode", "prefill"; "figure" of a command of one's own
	Units float64 `json:"units"` // tokens of one request
	Unit  string  `json:"unit"`  // "token"
}

// perToken is the unit of engines that serve tokens.
const perToken = "token"

// The regimes of the llama.cpp family, by the names the history uses.
const (
	Decode  = "decode"
	Prefill = "prefill"
)

// Stage is when a knob is tried.
type Stage int

// The stages, in order.
const (
	Threads Stage = iota + 1 // unimodal, found by bisection; each regime its own
	Batch                    // ordered, climbed from the engine's own value
	Others                   // one at a time
)

// Knob is a setting that may be tried. The engine's own value needs none: it is not to give the flag at all.
type Knob struct {
	Name    string   `json:"name"`   // as in a Setting; persistent
	Values  []string `json:"values"` // in order where they have one
	Stage   Stage    `json:"stage"`
	Ordered bool     `json:"ordered"`
	Own     string   `json:"own,omitempty"` // the engine's own value as its help says it; "" unknown
	// Fact is the field of the output that says what the engine took; "" if none does.
	Fact string `json:"fact,omitempty"`
	// Regimes are those that it can change; nil = all.
	Regimes []string `json:"regimes,omitempty"`
	// Beside is set together with it: a value that another knob must have at the least, as batch-size beside ubatch-size.
	Beside string `json:"beside,omitempty"`
	// Rounding: another order of the same sums, so that the last bits of a result may differ and its quality does not.
	Rounding bool `json:"rounding,omitempty"`
}

// Setting is the value of each knob that is given; the others are the engine's own. Nil is the engine's default.
type Setting map[string]string

// With is s with one value more.
func (s Setting) With(knob, value string) Setting {
	more := maps.Clone(s)
	if more == nil {
		more = Setting{}
	}
	more[knob] = value
	return more
}

// String is a setting for people, knobs in alphabetical order; it is its identity too.
func (s Setting) String() string {
	if len(s) == 0 {
		return "the engine's own"
	}
	var words []string
	for _, knob := range slices.Sorted(maps.Keys(s)) {
		words = append(words, knob+"="+s[knob])
	}
	return strings.Join(words, " ")
}

// Outcome is what one process measured.
type Outcome struct {
	Status  Status
	Note    string
	Samples map[string][]float64 // ns per unit of each repetition, by regime
	Facts   map[string]string    // what the engine said of itself and of its settings
	Elapsed time.Duration        // with loading the model
}

// Plan is a setting for each regime. Where an engine takes one set of flags, only the knobs of stage Threads differ.
type Plan map[string]Setting

// Equal reports whether two plans are the same.
func (p Plan) Equal(q Plan) bool {
	return maps.EqualFunc(p, q, func(a, b Setting) bool { return maps.Equal(a, b) })
}

// with is p with a value of a knob in some regimes.
func (p Plan) with(knob, value string, regimes []string) Plan {
	q := maps.Clone(p)
	for _, r := range regimes {
		q[r] = q[r].With(knob, value)
	}
	return q
}
