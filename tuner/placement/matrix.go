package placement

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

// Level is how well a family runs on a kind of hardware.
type Level string

// The levels, the best first.
const (
	High   Level = "high"
	Medium Level = "medium"
	Low    Level = "low"
	None   Level = "none" // it does not run there
)

// Levels are all levels, the best first.
var Levels = []Level{High, Medium, Low, None}

// rank is 0 for the best level.
func (l Level) rank() int { return slices.Index(Levels, l) }

// Families are the families that the matrix knows, in the order in which it is printed.
var Families = []string{model.Embedding, model.TextGeneration, model.Vision, model.Audio, model.Multimodal}

// Cell is what is known of a family on a kind of hardware, or of a layout on an instruction set.
type Cell struct {
	Level      Level        `json:"level"`
	Overridden bool         `json:"overridden,omitempty"`
	Measured   *Measurement `json:"measured,omitempty"`
}

// Measurement is what was timed on this host and bears a cell out.
type Measurement struct {
	Model           string    `json:"model"`
	Kernel          string    `json:"kernel"`
	TokensPerSecond float64   `json:"decode_tokens_per_second,omitempty"`
	Ratio           float64   `json:"ratio_to_default,omitempty"`
	At              time.Time `json:"measured_at,omitzero"`
}

// Matrix says what runs how well on what.
type Matrix struct {
	Families map[string]map[Kind]Cell `json:"families"`
	// Layouts is, for the CPU, by layout of the ternary weights and instruction set.
	Layouts map[string]map[string]Cell `json:"cpu_layouts"`
}

//go:embed matrix.json
var matrixJSON []byte

// DefaultMatrix is the matrix of the requirements (R3.30), and a column of our own for the CPU, on which this project has
// kernels for the ternary models of two families. It has no layouts: see AddKernel.
func DefaultMatrix() *Matrix {
	var levels map[string]map[Kind]Level
	if err := json.Unmarshal(matrixJSON, &levels); err != nil {
		panic("placement: the embedded matrix is damaged")
	}
	m := &Matrix{Families: make(map[string]map[Kind]Cell), Layouts: make(map[string]map[string]Cell)}
	for family, row := range levels {
		m.Families[family] = make(map[Kind]Cell)
		for kind, level := range row {
			m.Families[family][kind] = Cell{Level: level}
		}
	}
	return m
}

// Portable is the column of the reference kernels, which need no instruction set.
const Portable = "portable"

// AddKernel says that there is a kernel for a layout that needs these features. One for an instruction set of its own is
// high, the portable reference low.
func (m *Matrix) AddKernel(layout string, needs probe.Feature) {
	column, level := isa(needs), High
	if needs == 0 {
		level = Low
	}
	if m.Layouts[layout] == nil {
		m.Layouts[layout] = make(map[string]Cell)
	}
	m.Layouts[layout][column] = Cell{Level: level}
}

// isa names the most demanding feature that a kernel needs.
func isa(needs probe.Feature) string {
	names := needs.Names()
	if len(names) == 0 {
		return Portable
	}
	return names[len(names)-1]
}

// AddMeasurement lets a measurement bear out the cell of a layout and the features that its kernel needs; of several
// the fastest stays.
func (m *Matrix) AddMeasurement(layout string, needs probe.Feature, found Measurement) {
	cell, known := m.Layouts[layout][isa(needs)]
	if !known || cell.Measured != nil && cell.Measured.Ratio >= found.Ratio {
		return
	}
	cell.Measured = &found
	m.Layouts[layout][isa(needs)] = cell
}

// Override sets one cell, written as text_generation/rocm=high or, for a layout, t5f/avx512vnni=medium.
func (m *Matrix) Override(text string) error {
	name, level, ok := strings.Cut(text, "=")
	row, column, both := strings.Cut(name, "/")
	if !ok || !both || !slices.Contains(Levels, Level(level)) {
		return fmt.Errorf("placement: cell %q: want ROW/COLUMN=LEVEL, such as text_generation/rocm=high, with a level of high, medium, low or none", text)
	}
	cell := Cell{Level: Level(level), Overridden: true}
	switch {
	case m.Families[row] != nil && slices.Contains(Kinds, Kind(column)):
		m.Families[row][Kind(column)] = cell
	case m.Layouts[row] != nil && m.has(column):
		cell.Measured = m.Layouts[row][column].Measured
		m.Layouts[row][column] = cell
	default:
		return fmt.Errorf("placement: cell %q: there is no such row or column; want a family (%s) with a kind of hardware (%s), or a layout (%s) with an instruction set (%s)",
			text, strings.Join(Families, ", "), joinKinds(Kinds), strings.Join(slices.Sorted(maps.Keys(m.Layouts)), ", "), strings.Join(m.InstructionSets(), ", "))
	}
	return nil
}

func (m *Matrix) has(column string) bool { return slices.Contains(m.InstructionSets(), column) }

// InstructionSets are the columns of Layouts, the portable one first.
func (m *Matrix) InstructionSets() []string {
	var sets []string
	for _, row := range m.Layouts {
		for column := range row {
			if !slices.Contains(sets, column) {
				sets = append(sets, column)
			}
		}
	}
	slices.SortFunc(sets, func(a, b string) int { return featureOrder(a) - featureOrder(b) })
	return sets
}

func featureOrder(name string) int {
	f, err := probe.ParseFeature(name)
	if err != nil {
		return -1
	}
	return int(f)
}

// Level is how well a family runs on a kind. The CPU runs every family that the table does not say otherwise of; nothing
// else is known to run an unknown family.
func (m *Matrix) Level(family string, kind Kind) Level {
	cell, known := m.Families[family][kind]
	switch {
	case known:
		return cell.Level
	case kind == CPU:
		return Low
	}
	return None
}

// Recommend orders the kinds of hardware that are there by how well a family runs on them, the best first, and the CPU last
// among equals. The CPU always qualifies.
func (m *Matrix) Recommend(family string, here []Kind) []Kind {
	var kinds []Kind
	for _, k := range Kinds {
		if k == CPU || slices.Contains(here, k) && m.Level(family, k) != None {
			kinds = append(kinds, k)
		}
	}
	slices.SortStableFunc(kinds, func(a, b Kind) int { return m.Level(family, a).rank() - m.Level(family, b).rank() })
	return kinds
}
