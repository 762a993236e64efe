package advisor

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// Report is what the rules had to say, in order: by impact, then the easy first, then by id; on a host that is short of
// memory what saves memory comes before all else.
type Report struct {
	Host        string       `json:"host"` // fingerprint
	Model       string       `json:"model,omitempty"`
	Suggestions []Suggestion `json:"suggestions"`
	Skipped     []Skipped    `json:"skipped"`  // rules that lack a fact, and what was found to bring nothing
	Failed      []Skipped    `json:"failed"`   // rules that broke
	Silenced    []string     `json:"silenced"` // rules that had something to say and were told not to
	Checked     int          `json:"checked"`  // rules that were asked
	Filtered    int          `json:"filtered"` // suggestions that a filter left out
	Constrained bool         `json:"memory_constrained"`
}

// Skipped is a rule with the reason why it says nothing.
type Skipped struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// Schema describes the JSON of a Report (JSON Schema, draft 2020-12).
//
//go:embed report.schema.json
var Schema string

func (r *Report) sort() {
	slices.SortFunc(r.Suggestions, func(s, t Suggestion) int {
		if r.Constrained && s.savesMemory() != t.savesMemory() {
			if s.savesMemory() {
				return -1
			}
			return 1
		}
		return s.compare(t)
	})
	byID := func(s, t Skipped) int { return cmp.Compare(s.ID, t.ID) }
	slices.SortFunc(r.Skipped, byID)
	slices.SortFunc(r.Failed, byID)
	slices.Sort(r.Silenced)
}

// Filter chooses suggestions. The zero value takes all.
type Filter struct {
	Categories []Category
	MinImpact  Impact // "" = any; High is critical and high
	Easy       bool   // only what a configuration settles
}

// takes reports whether the filter lets a suggestion through.
func (f Filter) takes(s Suggestion) bool {
	return (len(f.Categories) == 0 || slices.Contains(f.Categories, s.Category)) &&
		(f.MinImpact == "" || slices.Index(Impacts, s.Impact) <= slices.Index(Impacts, f.MinImpact)) &&
		(!f.Easy || s.Difficulty == Easy)
}

// Filter returns the report with the suggestions that f takes, and how many it left out.
func (r Report) Filter(f Filter) Report {
	kept := []Suggestion{}
	for _, s := range r.Suggestions {
		if f.takes(s) {
			kept = append(kept, s)
		}
	}
	r.Filtered += len(r.Suggestions) - len(kept)
	r.Suggestions = kept
	return r
}

// Find returns the suggestion of an id, so that a caller can ask, before it exports a model, what speaks against it.
func (r Report) Find(id string) (Suggestion, bool) {
	i := slices.IndexFunc(r.Suggestions, func(s Suggestion) bool { return s.ID == id })
	if i < 0 {
		return Suggestion{}, false
	}
	return r.Suggestions[i], true
}

// WriteJSON writes the report as one indented JSON document.
func (r Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("advisor: write report: %w", err)
	}
	return nil
}

// ReadJSON reads what WriteJSON wrote.
func ReadJSON(r io.Reader) (Report, error) {
	var report Report
	if err := json.NewDecoder(r).Decode(&report); err != nil {
		return Report{}, fmt.Errorf("advisor: read report: %w", err)
	}
	return report, nil
}

// validate refuses figures that make no sense, which only a custom rule can have.
func (i Improvement) validate() error {
	for _, f := range []struct {
		name  string
		r     *Range
		least float64
	}{{"latency_percent", i.Latency, -100}, {"memory_percent", i.Memory, -100}, {"throughput_ratio", i.Throughput, 0}, {"speed_ratio", i.Speed, 0}} {
		if f.r == nil {
			continue
		}
		r := *f.r
		if !(f.least <= r.Low && r.Low <= r.Estimate && r.Estimate <= r.High) || math.IsInf(r.High, 0) {
			return fmt.Errorf("%s %v: want low <= estimate <= high, from %v on", f.name, r, f.least)
		}
	}
	return nil
}
