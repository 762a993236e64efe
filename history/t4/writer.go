package t4

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// Writer writes one file, entry by entry.
type Writer struct {
	format Format
	head   Header
	out    *bufio.Writer
	begun  bool
}

// NewWriter writes the header of a file. A cache has to list the values of its parameters before its entries; results
// list none.
func NewWriter(w io.Writer, format Format, head Header) (*Writer, error) {
	wr := &Writer{format: format, head: head, out: bufio.NewWriter(w)}
	if len(head.Params) == 0 {
		return nil, errors.New("t4: write: no parameters; want at least one")
	}
	for _, p := range head.Params {
		for _, value := range p.Values {
			if err := scalar(value); err != nil {
				return nil, fmt.Errorf("t4: write: parameter %s: value %s: %w", p.Name, value, err)
			}
		}
	}
	if format == Results {
		wr.openResults()
	} else {
		wr.openCache()
	}
	return wr, nil
}

func (w *Writer) openCache() {
	w.out.WriteString("{")
	w.member("\n", "device_name", quote(w.head.Device))
	w.member(",\n", "kernel_name", quote(w.head.Kernel))
	if w.head.ProblemSize != "" {
		w.member(",\n", "problem_size", w.head.ProblemSize)
	}
	w.member(",\n", "tune_params_keys", w.paramNames())
	w.member(",\n", "tune_params", w.paramValues())
	w.member(",\n", "objective", quote(w.head.objective()))
	for _, f := range w.head.Rest {
		w.member(",\n", f.Name, f.JSON)
	}
	w.out.WriteString(",\n\"cache\": {")
}

func (h *Header) objective() string {
	if h.Objective == "" {
		return "time"
	}
	return h.Objective
}

func (w *Writer) paramNames() string {
	names := make([]string, len(w.head.Params))
	for k, p := range w.head.Params {
		names[k] = quote(p.Name)
	}
	return "[" + strings.Join(names, ", ") + "]"
}

func (w *Writer) paramValues() string {
	values := make([]string, len(w.head.Params))
	for k, p := range w.head.Params {
		values[k] = quote(p.Name) + ": [" + strings.Join(p.Values, ", ") + "]"
	}
	return "{" + strings.Join(values, ",\n") + "}"
}

func (w *Writer) openResults() {
	w.out.WriteString("{")
	version := false
	for _, f := range w.head.Rest {
		w.member("\n", f.Name, f.JSON)
		w.out.WriteString(",")
		version = version || f.Name == "schema_version"
	}
	if !version {
		w.out.WriteString("\n\"schema_version\": \"1.0.0\",")
	}
	w.out.WriteString("\n\"results\": [")
}

// member writes a member of an object after sep.
func (w *Writer) member(sep, name, json string) {
	w.out.WriteString(sep)
	w.out.WriteString(quote(name))
	w.out.WriteString(": ")
	w.out.WriteString(json)
}

// quote is the JSON spelling of a string.
func quote(text string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(text) != nil {
		panic("t4: a string cannot be spelled") // Encode replaces what is not UTF-8
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Write adds an entry.
func (w *Writer) Write(e Entry) error {
	if len(e.Values) != len(w.head.Params) {
		return fmt.Errorf("t4: write: %d values; want one for each of %d parameters", len(e.Values), len(w.head.Params))
	}
	for k, value := range e.Values {
		if err := scalar(value); err != nil {
			return fmt.Errorf("t4: write: parameter %s: value %s: %w", w.head.Params[k].Name, value, err)
		}
	}
	if w.begun {
		w.out.WriteString(",")
	}
	w.begun = true
	w.out.WriteString("\n")
	if w.format == Results {
		w.result(&e)
	} else {
		w.cached(&e)
	}
	_, err := w.out.Write(nil) // nil unless something before it failed
	return wrote(err)
}

func wrote(err error) error {
	if err != nil {
		return fmt.Errorf("t4: write: %w", err)
	}
	return nil
}

// Close ends the file. It does not close what it is written to.
func (w *Writer) Close() error {
	if w.format == Results {
		w.out.WriteString("\n]\n}\n")
	} else {
		w.out.WriteString("\n}\n}\n")
	}
	return wrote(w.out.Flush())
}

// cached writes an entry of a cache.
func (w *Writer) cached(e *Entry) {
	w.out.WriteString(quote(e.key()))
	w.out.WriteString(": {")
	w.settings(e)
	w.member(", ", "time", e.timeText())
	if e.Times != nil {
		w.member(", ", "times", list(e.Times))
	}
	for phase, name := range cachePhases {
		if ms := e.Spent[phase]; !math.IsNaN(ms) {
			w.member(", ", name, spell(ms))
		}
	}
	for _, f := range e.Rest {
		w.member(", ", f.Name, f.JSON)
	}
	if e.Stamp != "" {
		w.member(", ", "timestamp", quote(e.Stamp))
	}
	w.out.WriteString("}")
}

// key is the name of an entry in a cache.
func (e *Entry) key() string {
	values := make([]string, len(e.Values))
	for k, value := range e.Values {
		values[k] = plain(value)
	}
	return strings.Join(values, ",")
}

func (w *Writer) settings(e *Entry) {
	sep := ""
	for k, value := range e.Values {
		w.member(sep, w.head.Params[k].Name, value)
		sep = ", "
	}
}

// timeText is the time, or the class of the error in its place.
func (e *Entry) timeText() string {
	if e.Failure != "" {
		return quote(e.Failure)
	}
	return spell(e.Time)
}

func list(times []float64) string {
	spelled := make([]string, len(times))
	for i, x := range times {
		spelled[i] = spell(x)
	}
	return "[" + strings.Join(spelled, ", ") + "]"
}

// result writes an entry of results.
func (w *Writer) result(e *Entry) {
	w.out.WriteString("{")
	sep := ""
	if e.Stamp != "" {
		w.member(sep, "timestamp", quote(e.Stamp))
		sep = ", "
	}
	w.out.WriteString(sep + `"configuration": {`)
	w.settings(e)
	w.out.WriteString(`}, "times": {`)
	w.spent(e)
	w.out.WriteString("}")
	for _, f := range e.resultFields(w.head.objective()) {
		if !strings.HasPrefix(f.Name, timesPrefix) {
			w.member(", ", f.Name, f.JSON)
		}
	}
	w.out.WriteString(`, "measurements": [`)
	w.measurement("", Field{Name: "time", JSON: e.timeText(), Unit: e.Unit})
	for _, f := range e.Rest {
		w.measurement(", ", f)
	}
	w.out.WriteString("]}")
}

// spent writes the members of "times".
func (w *Writer) spent(e *Entry) {
	sep := ""
	write := func(name, json string) {
		w.member(sep, name, json)
		sep = ", "
	}
	for phase, name := range resultPhases {
		if ms := e.Spent[phase]; !math.IsNaN(ms) {
			write(name, spell(ms))
		}
	}
	for _, f := range e.Result {
		if name, ok := strings.CutPrefix(f.Name, timesPrefix); ok {
			write(name, f.JSON)
		}
	}
	if e.Times != nil {
		write("runtimes", list(e.Times))
	}
}

func (w *Writer) measurement(sep string, f Field) {
	w.out.WriteString(sep + "{")
	w.member("", "name", quote(f.Name))
	w.member(", ", "value", f.JSON)
	w.member(", ", "unit", quote(f.Unit))
	w.out.WriteString("}")
}

// resultFields are the fields that a cache has no room for.
func (e *Entry) resultFields(objective string) []Field {
	if e.Result != nil {
		return e.Result
	}
	correct := "1"
	if e.Failure != "" {
		correct = "0"
	}
	return []Field{
		{Name: "invalidity", JSON: quote(invalidity(e.Failure))},
		{Name: "correctness", JSON: correct},
		{Name: "objectives", JSON: "[" + quote(objective) + "]"},
	}
}
