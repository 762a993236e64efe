package t4

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
)

// Records gathers records of one host, model, target and regime, so that they can be written as one file. A setting
// that was measured several times is one entry with all samples; one failure outweighs them. Nested names of a setting
// are joined with dots. Each entry carries the records that it was made of, for Import.
type Records struct {
	group   string
	head    Header
	entries []*gathered
	byID    map[string]*gathered
	params  map[string]int
	known   []map[string]bool
}

// gathered is an entry with the records that it was made of, as JSON.
type gathered struct {
	Entry
	records []string
}

// recordsField is the field of an entry in which it carries its records.
const recordsField = "records"

// absent stands for a parameter that a setting does not have: the files of other tuners want every one. It is no value of
// ours, and Import does not read it, as each entry carries its records.
const absent = `"unset"`

// Add takes one record. It fails where the record belongs to another group than the first.
func (g *Records) Add(r history.Record) error {
	group := fmt.Sprintf("host %s model %s target %s regime %s", r.Host, r.Model, r.Target, r.Regime)
	if g.group == "" {
		g.group, g.byID, g.params = group, map[string]*gathered{}, map[string]int{}
		g.head = Header{Device: r.Host, Kernel: r.Model + "/" + r.Regime, Objective: "time", Rest: []Field{{Name: "target", JSON: quote(r.Target)}}}
	}
	if group != g.group {
		return fmt.Errorf("t4: record of %s: want %s like the first", group, g.group)
	}
	values, err := g.values(r.Config)
	if err != nil {
		return fmt.Errorf("t4: record: run %d seq %d: config: %w", r.Run, r.Seq, err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("t4: record: run %d seq %d: %w", r.Run, r.Seq, err)
	}
	g.add(values, r, string(text))
	return nil
}

// values returns the values of a setting, in the order of the parameters, which are those of all settings so far.
func (g *Records) values(config []byte) ([]string, error) {
	var flat []Field
	if err := flatten(config, "", &flat, 0); err != nil {
		return nil, err
	}
	for _, f := range flat {
		if _, ok := g.params[f.Name]; !ok {
			g.extend(f.Name)
		}
	}
	values := make([]string, len(g.head.Params))
	for k := range values {
		values[k] = absent
	}
	for _, f := range flat {
		values[g.params[f.Name]] = f.JSON
	}
	return values, nil
}

// extend adds a parameter, which the settings so far do not have.
func (g *Records) extend(name string) {
	g.params[name] = len(g.head.Params)
	g.head.Params, g.known = append(g.head.Params, Param{Name: name}), append(g.known, map[string]bool{})
	clear(g.byID)
	for _, e := range g.entries {
		e.Values = append(e.Values, absent)
		g.byID[e.key()] = e
		g.know(len(g.known)-1, absent)
	}
}

// know lists a value among those of a parameter.
func (g *Records) know(k int, value string) {
	if !g.known[k][value] {
		g.known[k][value] = true
		g.head.Params[k].Values = append(g.head.Params[k].Values, value)
	}
}

// flatten lists the scalars of a JSON object by name.
func flatten(text []byte, prefix string, flat *[]Field, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested more than %d deep", maxDepth)
	}
	s := newScanner(bytes.NewReader(text))
	err := s.object(func(key string) error {
		value, err := s.raw()
		if err != nil {
			return err
		}
		if value[0] == '{' {
			return flatten([]byte(value), prefix+key+".", flat, depth+1)
		}
		if scalar(value) != nil {
			value = quote(value) // a list, or null, by its text
		}
		*flat = append(*flat, Field{Name: prefix + key, JSON: value})
		return nil
	})
	if errors.Is(err, errTorn) {
		return fmt.Errorf("%.40q: want an object", text)
	}
	return err
}

func (g *Records) add(values []string, r history.Record, text string) {
	probe := Entry{Values: values}
	e := g.byID[probe.key()]
	if e == nil {
		e = &gathered{Entry: Entry{Values: values, Time: math.NaN(), Unit: "ms", Spent: NotRecorded(), Stamp: stamp(r.Time)}}
		e.Spent[Benchmark] = 0
		g.byID[e.key()] = e
		g.entries = append(g.entries, e)
	}
	e.records = append(e.records, text)
	for k, value := range values {
		g.know(k, value)
	}
	const ms = 1e6 // nanoseconds
	e.Spent[Benchmark] += float64(r.Elapsed) / ms
	if class := classOf(r.Status); class != "" {
		e.Failure = class
		e.Rest = []Field{{Name: "status", JSON: quote(r.Status)}}
	}
	for _, ns := range r.Samples {
		e.Times = append(e.Times, ns/ms)
	}
	if len(e.Times) > 0 {
		e.Time = median(e.Times)
	}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// classOf returns Kernel Tuner's class of a status; "" of what is no failure.
func classOf(status string) string {
	switch status {
	case history.StatusOK, history.StatusCensored:
		return ""
	case history.StatusRejected:
		return "InvalidConfig"
	case history.StatusMismatch:
		return "CorrectnessFailedConfig"
	case history.StatusTimeout:
		return "TimeoutFailedConfig"
	}
	return "RuntimeFailedConfig"
}

func median(times []float64) float64 {
	sorted := slices.Sorted(slices.Values(times))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Name names the device and the kernel, which are else the fingerprints of the host and the model.
func (g *Records) Name(device, kernel string) { g.head.Device, g.head.Kernel = device, kernel }

// Header is the header of what was added.
func (g *Records) Header() Header { return g.head }

// Entries are what was added, one of each setting, in order of appearance, without those of which no sample is known
// and which did not fail.
func (g *Records) Entries() []Entry {
	var whole []Entry
	for _, e := range g.entries {
		if e.Failure == "" && len(e.Times) == 0 {
			continue
		}
		entry := e.Entry
		entry.Rest = append(slices.Clone(e.Rest), Field{Name: recordsField, JSON: "[" + strings.Join(e.records, ",") + "]"})
		whole = append(whole, entry)
	}
	return whole
}
