package replay

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/history/t4"
)

// Table is a recorded space: what became of every configuration, and what each evaluation cost. It is immutable and
// safe for concurrent use.
type Table struct {
	Name  string
	Space *bandit.Space
	Torn  bool // the file ended early, and the table has what is whole
	// By number of the point:
	times    []float64 // ms; NaN of what failed
	costs    []float64 // ms
	statuses []bandit.Status
	samples  [][]float32 // ms
}

// Read reads a cache or results, plain or gzipped. A torn file gives the table of what is whole.
func Read(name string, r io.Reader) (*Table, error) {
	t, err := read(r)
	if err != nil {
		return nil, fmt.Errorf("replay: table %s: %w", name, err)
	}
	t.Name = name
	return t, nil
}

func read(r io.Reader) (*Table, error) {
	rd, err := t4.NewReader(r)
	if err != nil {
		return nil, err
	}
	var rows []row
	var settings [][]string
	for {
		e, err := rd.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		r := newRow(&e)
		if !(r.cost >= 0 && r.cost <= math.MaxFloat64) {
			return nil, fmt.Errorf("entry %s: cost of the evaluation %v: want times of 0 or more", strings.Join(e.Values, ","), r.cost)
		}
		rows = append(rows, r)
		settings = append(settings, e.Values)
	}
	if len(rows) == 0 {
		return nil, errors.New("no whole entry")
	}
	t, err := newTable(rd.Header().Params, settings, rows)
	if err != nil {
		return nil, err
	}
	t.Torn = rd.Torn()
	return t, nil
}

// row is what a table keeps of an entry.
type row struct {
	time, cost float64
	status     bandit.Status
	samples    []float32
}

func newRow(e *t4.Entry) row {
	r := row{time: e.Time, cost: e.Cost()}
	for _, ms := range e.Times {
		r.samples = append(r.samples, float32(ms))
	}
	if e.Failed() {
		r.time, r.samples = math.NaN(), nil
		if r.status.UnmarshalText([]byte(t4.StatusOf(e.Failure))) != nil {
			panic("replay: a history's statuses are those of trials")
		}
	}
	return r
}

// newTable makes the space of the settings and sorts the rows by number of their points.
func newTable(params []t4.Param, settings [][]string, rows []row) (*Table, error) {
	knobs, places := knobsOf(params)
	points := make([]bandit.Point, len(settings))
	for i, values := range settings {
		points[i] = make(bandit.Point, len(knobs))
		for k, value := range values {
			points[i][k] = places[k][value]
		}
	}
	space, err := bandit.ListSpace(knobs, points)
	if err != nil {
		return nil, err
	}
	n := space.Size()
	t := &Table{Space: space, times: make([]float64, n), costs: make([]float64, n), statuses: make([]bandit.Status, n), samples: make([][]float32, n)}
	for i, p := range points {
		at, _ := space.Index(p)
		t.times[at], t.costs[at], t.statuses[at], t.samples[at] = rows[i].time, rows[i].cost, rows[i].status, rows[i].samples
	}
	return t, nil
}

// knobsOf returns one knob for each parameter, and of each its values' places.
func knobsOf(params []t4.Param) (knobs []bandit.Knob, places []map[string]int) {
	for _, p := range params {
		values := slices.Clone(p.Values)
		kind := kindOf(values)
		if kind == bandit.Ordinal {
			slices.SortStableFunc(values, func(x, y string) int {
				a, _ := strconv.ParseFloat(x, 64)
				b, _ := strconv.ParseFloat(y, 64)
				return cmpFloat(a, b)
			})
		}
		knob, at := bandit.Knob{Name: p.Name, Kind: kind}, map[string]int{}
		for i, value := range values {
			at[value] = i
			knob.Values = append(knob.Values, t4.Plain(value))
		}
		knobs, places = append(knobs, knob), append(places, at)
	}
	return knobs, places
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// kindOf tells amounts from codes. Numbers are amounts and have an order, unless they count from 0 to 2 or further:
// so methods are numbered, while sizes, factors and counts seldom start at nothing and go up by one.
func kindOf(values []string) bandit.Kind {
	code := len(values) > 2
	for i, value := range values {
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			return bandit.Categorical
		}
		code = code && value == strconv.Itoa(i)
	}
	if code {
		return bandit.Categorical
	}
	return bandit.Ordinal
}

// Failed returns how many points failed.
func (t *Table) Failed() int {
	failed := 0
	for _, ms := range t.times {
		if math.IsNaN(ms) {
			failed++
		}
	}
	return failed
}

// Times returns what each point took in milliseconds, by number; NaN of one that failed.
func (t *Table) Times() []float64 { return slices.Clone(t.times) }

// Costs returns what each evaluation cost in milliseconds, by number.
func (t *Table) Costs() []float64 { return slices.Clone(t.costs) }

// Samples returns the recorded samples of point i in milliseconds; none of one that failed.
func (t *Table) Samples(i int) []float32 { return t.samples[i] }

// Answer says what became of a point when it was recorded. The cost of an OK trial is the recorded time, Elapsed is
// what the evaluation cost. It refuses a point that the table does not hold.
func (t *Table) Answer(ask bandit.Trial) (bandit.Trial, error) {
	i, err := t.find(ask.Point)
	if err != nil {
		return bandit.Trial{}, err
	}
	return t.answer(ask.Point, i), nil
}

func (t *Table) find(p bandit.Point) (int, error) {
	i, ok := t.Space.Index(p)
	if !ok {
		return 0, fmt.Errorf("replay: table %s: point %v was never recorded", t.Name, p)
	}
	return i, nil
}

func (t *Table) answer(p bandit.Point, i int) bandit.Trial {
	done := bandit.Trial{Point: p, Status: t.statuses[i], Elapsed: time.Duration(t.costs[i] * float64(time.Millisecond))}
	if done.Status == bandit.OK {
		done.Costs = t.times[i : i+1 : i+1]
	}
	return done
}
