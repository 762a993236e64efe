package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
)

// Setting names a value for every knob.
type Setting map[string]string

// Head begins a table of samples: the space, and what a search of it knows before it measures.
type Head struct {
	Name      string    `json:"name"`
	Model     bool      `json:"model"` // computed, not measured
	Knobs     []Knob    `json:"knobs"`
	Starts    []Setting `json:"starts"`    // what a search asks first
	Default   Setting   `json:"default"`   // what nobody's tuning gives
	Yardstick Setting   `json:"yardstick"` // what every sample was paired with
	Notes     []string  `json:"notes,omitempty"`
}

// Knob is a knob of the space as a line holds it.
type Knob struct {
	Name    string   `json:"name"`
	Ordinal bool     `json:"ordinal"`
	Values  []string `json:"values"`
}

// Row is what was measured of a point. Rows of one point add up.
type Row struct {
	Point  Setting       `json:"point"`
	Status bandit.Status `json:"status"`
	// SetupMs is what preparing and verifying the point took, once.
	SetupMs float64 `json:"setup_ms,omitempty"`
	// Ratios are the samples: cost over the yardstick's of the same moment.
	Ratios     []float64 `json:"ratios,omitempty"`
	NsPerToken []float64 `json:"ns_per_token,omitempty"`
	ElapsedMs  []float64 `json:"elapsed_ms,omitempty"` // how long each sample took
}

// Line is a line of a file of samples: one of its fields.
type Line struct {
	Host json.RawMessage `json:"host,omitempty"` // where the tables that follow were recorded
	Head *Head           `json:"space,omitempty"`
	Row  *Row            `json:"row,omitempty"`
}

// Samples is a space whose points were sampled several times each.
type Samples struct {
	Head
	Host  json.RawMessage
	Space *bandit.Space
	Rows  []Row // by number of the point

	at map[string]int // while reading: the place in Rows of a point
}

// ReadSamples reads the tables of a file of samples, plain or gzipped. A last line that was cut short is left out.
func ReadSamples(r io.Reader) ([]*Samples, error) {
	tables, err := readSamples(r)
	if err != nil {
		return nil, fmt.Errorf("replay: read samples: %w", err)
	}
	return tables, nil
}

func readSamples(r io.Reader) ([]*Samples, error) {
	lines, err := unzip(r)
	if err != nil {
		return nil, err
	}
	var tables []*Samples
	var host json.RawMessage
	for n := 1; ; n++ {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		var line Line
		if err == nil {
			err = json.Unmarshal(text, &line)
		}
		switch {
		case err != nil:
		case line.Host != nil:
			host = line.Host
		case line.Head != nil:
			tables = append(tables, &Samples{Head: *line.Head, Host: host, at: map[string]int{}})
		case line.Row != nil && len(tables) > 0:
			if err = line.Row.check(); err == nil {
				tables[len(tables)-1].add(*line.Row)
			}
		default:
			err = errors.New(`want "host", "space", or after a space "row"`)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	for _, t := range tables {
		if err := t.settle(); err != nil {
			return nil, fmt.Errorf("space %s: %w", t.Name, err)
		}
	}
	return tables, nil
}

// check refuses what no clock can have measured.
func (r Row) check() error {
	for _, field := range []struct {
		name   string
		values []float64
	}{{"ratios", r.Ratios}, {"ns_per_token", r.NsPerToken}, {"elapsed_ms", r.ElapsedMs}} {
		for _, x := range field.values {
			if !(x > 0) {
				return fmt.Errorf("%s of %v: %g: want more than 0", field.name, r.Point, x)
			}
		}
	}
	if r.SetupMs < 0 {
		return fmt.Errorf("setup_ms of %v: %g: want 0 or more", r.Point, r.SetupMs)
	}
	return nil
}

// unzip returns a reader of plain text.
func unzip(r io.Reader) (*bufio.Reader, error) {
	plain := bufio.NewReader(r)
	if magic, _ := plain.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return plain, nil
	}
	z, err := gzip.NewReader(plain)
	return bufio.NewReader(z), err
}

// add puts a row to what is known of its point.
func (s *Samples) add(r Row) {
	key := fmt.Sprint(r.Point) // a map prints in the order of its keys
	i, known := s.at[key]
	if !known {
		s.at[key] = len(s.Rows)
		s.Rows = append(s.Rows, r)
		return
	}
	have := &s.Rows[i]
	have.Status = max(have.Status, r.Status)
	have.SetupMs += r.SetupMs
	have.Ratios = append(have.Ratios, r.Ratios...)
	have.NsPerToken = append(have.NsPerToken, r.NsPerToken...)
	have.ElapsedMs = append(have.ElapsedMs, r.ElapsedMs...)
}

// settle makes the space of the rows and orders them by number.
func (s *Samples) settle() error {
	knobs := make([]bandit.Knob, len(s.Knobs))
	for k, knob := range s.Knobs {
		knobs[k] = bandit.Knob{Name: knob.Name, Kind: bandit.Categorical, Values: knob.Values}
		if knob.Ordinal {
			knobs[k].Kind = bandit.Ordinal
		}
	}
	points := make([]bandit.Point, len(s.Rows))
	for i, row := range s.Rows {
		for _, knob := range knobs {
			points[i] = append(points[i], slices.Index(knob.Values, row.Point[knob.Name]))
		}
	}
	space, err := bandit.ListSpace(knobs, points)
	if err != nil {
		return err
	}
	rows := make([]Row, len(s.Rows))
	for i, row := range s.Rows {
		at, _ := space.Index(points[i])
		rows[at] = row
	}
	s.Space, s.Rows, s.at = space, rows, nil
	return nil
}

// Find returns the number of the point of a setting.
func (s *Samples) Find(setting Setting) (int, error) {
	point, ok := s.Space.Lookup(setting)
	if !ok {
		return 0, fmt.Errorf("replay: space %s: no point %v", s.Name, setting)
	}
	i, _ := s.Space.Index(point)
	return i, nil
}

// Table sums the samples up for a replay without noise: the time of a point is the median of its samples, in ms per token
// of the yardstick's median. An evaluation costs preparing it and one paired block.
func (s *Samples) Table() (*Table, error) {
	yardstick, err := s.Find(s.Yardstick)
	if err != nil {
		return nil, err
	}
	n := len(s.Rows)
	t := &Table{Name: s.Name, Space: s.Space, times: make([]float64, n), costs: make([]float64, n), statuses: make([]bandit.Status, n), samples: make([][]float32, n)}
	unit := s.Rows[yardstick]
	for i, row := range s.Rows {
		t.times[i], t.costs[i], t.statuses[i] = math.NaN(), max(row.SetupMs, 1), row.Status
		if row.Status != bandit.OK {
			continue
		}
		if len(row.Ratios) == 0 || len(row.ElapsedMs) == 0 || len(unit.NsPerToken) == 0 || len(unit.ElapsedMs) == 0 {
			return nil, fmt.Errorf("replay: space %s: no samples of %v, or none of the yardstick", s.Name, row.Point)
		}
		scale := middle(unit.NsPerToken) / 1e6
		for _, ratio := range row.Ratios {
			t.samples[i] = append(t.samples[i], float32(ratio*scale))
		}
		t.times[i] = middle(row.Ratios) * scale
		t.costs[i] += 2*middle(row.ElapsedMs) + 2*middle(unit.ElapsedMs)
	}
	return t, nil
}
