package t4

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Format is one of the two kinds of file.
type Format int

// The formats.
const (
	Cache   Format = iota // what Kernel Tuner appends to while it runs
	Results               // T4, the common format of auto-tuning results
)

// String returns "cache" or "results".
func (f Format) String() string {
	if f == Results {
		return "results"
	}
	return "cache"
}

// Header is what a file says about all of its entries.
type Header struct {
	Device      string // "" where the file does not say
	Kernel      string // "" where the file does not say
	ProblemSize string // as JSON; "" where the file does not say
	Objective   string // name of what was minimised; "" is "time"
	Params      []Param
	// Rest are the other fields of the file, in its order: metadata, schema_version.
	Rest []Field
}

// Param is one tunable parameter. A cache lists its values; of results they are the ones that occur, in order of
// appearance.
type Param struct {
	Name   string
	Values []string // JSON scalars, as spelled in the file: 16, 0.5, "half", true
}

// Field is a named value that these packages carry without understanding it.
type Field struct {
	Name string
	JSON string
	Unit string // of a measurement in results; elsewhere ""
}

// Entry is one configuration and what became of it. All times are in milliseconds.
type Entry struct {
	Values []string // of Header.Params, as JSON scalars
	// Time is what the kernel took; it means nothing where Failure is not empty, and is NaN where none was given.
	Time    float64
	Unit    string    // of Time, as results give it
	Failure string    // "" or the error class, such as "RuntimeFailedConfig"
	Times   []float64 // the samples that Time sums up
	Spent   Spent
	Stamp   string  // when it was measured, as spelled in the file; "" is unknown
	Rest    []Field // other fields of a cache entry, measurements of results
	// Result are the fields that only results have room for, as they stand there: invalidity, correctness,
	// objectives. A writer of results that finds none derives them.
	Result []Field
}

// Spent is what measuring took. NaN stands for what was not recorded.
type Spent [phases]float64

// The parts of Spent.
const (
	Compile = iota
	Verify
	Benchmark
	Strategy
	Framework
	phases
)

// NotRecorded is a Spent that knows nothing.
func NotRecorded() Spent {
	nan := math.NaN()
	return Spent{nan, nan, nan, nan, nan}
}

// The names of the parts of Spent in a cache, and in the object "times" of results.
var (
	cachePhases  = [phases]string{"compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time"}
	resultPhases = [phases]string{"compilation", "validation", "benchmark", "search_algorithm", "framework"}
)

// Cost returns what the evaluation cost a searcher, in milliseconds: compilation, verification, all samples, the
// framework and the searcher itself. What was not recorded costs nothing. The time of the benchmark phase is no part of
// it, for it holds the samples.
func (e *Entry) Cost() float64 {
	sum := 0.0
	for _, phase := range []int{Compile, Verify, Framework, Strategy} {
		if ms := e.Spent[phase]; !math.IsNaN(ms) {
			sum += ms
		}
	}
	for _, ms := range e.Times {
		sum += ms
	}
	return sum
}

// Failed reports whether the entry holds no time. Kernel Tuner once wrote 1e20 for a failure.
func (e *Entry) Failed() bool { return e.Failure != "" || !(e.Time > 0 && e.Time < 1e20) }

// scalar checks that text is a JSON scalar other than null.
func scalar(text string) error {
	switch {
	case text == "true" || text == "false" || numeral(text):
		return nil
	case len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"':
		return nil
	}
	return errors.New("want a number, a string, true or false")
}

// plain is a scalar as the key of a cache entry spells it: as Python's str does.
func plain(json string) string {
	switch {
	case json == "true":
		return "True"
	case json == "false":
		return "False"
	case strings.HasPrefix(json, `"`):
		return unquote(json)
	}
	return json
}

// Plain returns a JSON scalar without the quotes of a string, for people and for names of values.
func Plain(json string) string {
	if strings.HasPrefix(json, `"`) {
		return unquote(json)
	}
	return json
}

var (
	errNumber = errors.New("want a number")
	errRange  = errors.New("number is out of range")
)

// number parses a JSON number, or one of the three that Python adds: NaN, Infinity, -Infinity.
func number(text string) (float64, error) {
	if !numeral(text) {
		return 0, errNumber
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, errRange
	}
	return x, nil
}

// numeral reports whether text is the spelling of a number.
func numeral(text string) bool {
	switch text {
	case "NaN", "Infinity", "-Infinity":
		return true
	}
	text = strings.TrimPrefix(text, "-")
	whole, rest := digits(text)
	if whole == 0 || whole > 1 && text[0] == '0' {
		return false
	}
	if fraction, ok := strings.CutPrefix(rest, "."); ok {
		var n int
		if n, rest = digits(fraction); n == 0 {
			return false
		}
	}
	if rest == "" {
		return true
	}
	if rest[0] != 'e' && rest[0] != 'E' {
		return false
	}
	rest = rest[1:]
	if rest != "" && (rest[0] == '+' || rest[0] == '-') {
		rest = rest[1:]
	}
	n, rest := digits(rest)
	return n > 0 && rest == ""
}

// digits returns how many digits text begins with, and the rest.
func digits(text string) (n int, rest string) {
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return n, text[n:]
}

// spell is the shortest spelling of x that reads back as x, in Python's dialect of JSON.
func spell(x float64) string {
	switch {
	case math.IsNaN(x):
		return "NaN"
	case math.IsInf(x, 1):
		return "Infinity"
	case math.IsInf(x, -1):
		return "-Infinity"
	}
	format := byte('f')
	if a := math.Abs(x); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.FormatFloat(x, format, -1, 64)
}
