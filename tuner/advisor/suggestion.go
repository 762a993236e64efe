package advisor

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Category is the part of a deployment that a suggestion is about.
type Category string

// The categories.
const (
	Architecture    Category = "architecture"
	MemoryUse       Category = "memory"
	Compute         Category = "compute"
	Quantization    Category = "quantization"
	Parallelization Category = "parallelization"
	Hardware        Category = "hardware"
	DataPipeline    Category = "data_pipeline"
)

// Categories lists them.
var Categories = []Category{Architecture, MemoryUse, Compute, Quantization, Parallelization, Hardware, DataPipeline}

// Impact is how much a suggestion matters.
type Impact string

// The impacts, the greatest first. Critical is a rule's word, the others are what the expected gain comes to.
const (
	Critical Impact = "critical" // must be fixed
	High     Impact = "high"     // above 30 %
	Medium   Impact = "medium"   // 10 to 30 %
	Low      Impact = "low"      // below 10 %, or without a figure
)

// Impacts lists them, the greatest first.
var Impacts = []Impact{Critical, High, Medium, Low}

// Difficulty is what following a suggestion takes.
type Difficulty string

// The difficulties, the easiest first.
const (
	Easy   Difficulty = "easy"   // a configuration
	Coding Difficulty = "medium" // code
	Hard   Difficulty = "hard"   // another architecture
)

var difficulties = []Difficulty{Easy, Coding, Hard}

// Basis is what the expected improvement of a suggestion rests on.
type Basis string

// The bases.
const (
	Measured Basis = "measured" // on this host, by the runs that Improvement.Records names
	Estimate Basis = "estimate"
)

// Suggestion is one piece of advice.
type Suggestion struct {
	ID          string      `json:"id"` // of the rule; never reused
	Category    Category    `json:"category"`
	Impact      Impact      `json:"impact"`
	Difficulty  Difficulty  `json:"difficulty"`
	Title       string      `json:"title"`
	Description string      `json:"description"`
	Expected    Improvement `json:"expected_improvement"`
	Basis       Basis       `json:"evidence"`
	Steps       []string    `json:"steps"` // in order
	Examples    []string    `json:"examples,omitempty"`
	Warnings    []string    `json:"warnings"` // prerequisites and trade-offs
	// Change is what to set where a knob of the tuner settles it: the settings of the current configuration to replace.
	Change Settings `json:"change,omitempty"`
	// Measure is the command that would measure the gain; "" where it is outside the tuner's reach.
	Measure string `json:"measure,omitempty"`
	// Digest stands for this very advice: the rule with what it wants changed. It is another one once the advice is.
	Digest string `json:"digest"`
}

// Improvement is what following a suggestion is expected to bring.
type Improvement struct {
	Latency    *Range   `json:"latency_percent,omitempty"`  // change of the time taken: -30 is 30 % less, 20 a cost
	Memory     *Range   `json:"memory_percent,omitempty"`   // change of the memory taken
	Throughput *Range   `json:"throughput_ratio,omitempty"` // new / old
	Speed      *Range   `json:"speed_ratio,omitempty"`      // old time / new time
	Of         string   `json:"of,omitempty"`               // what the figures are of, where not of everything
	Source     string   `json:"source"`                     // of the figures
	Confidence float64  `json:"confidence,omitempty"`       // that the interval holds the true value; 0 of an estimate
	Records    []string `json:"records,omitempty"`          // runs that hold the samples
}

// Range is a number that is known to lie between two others.
type Range struct {
	Low      float64 `json:"low"`
	Estimate float64 `json:"estimate"`
	High     float64 `json:"high"`
}

// exactly is a figure without a span.
func exactly(x float64) *Range { return &Range{x, x, x} }

// between is a span with its middle.
func between(low, high float64) *Range { return &Range{low, (low + high) / 2, high} }

// gainPercent is the greatest gain among the figures, by their estimates; 0 where there are none.
func (i Improvement) gainPercent() float64 {
	gain := 0.0
	for _, r := range []*Range{i.Latency, i.Memory} {
		if r != nil {
			gain = max(gain, -r.Estimate)
		}
	}
	for _, r := range []*Range{i.Throughput, i.Speed} {
		if r != nil {
			gain = max(gain, 100*(r.Estimate-1))
		}
	}
	return gain
}

// impactOf grades a gain: above high, from medium on, below. A ratio such as 1.1 is 10 % all the same, whatever its last bit.
func (k Constants) impactOf(percent float64) Impact {
	const rounding = 1e-9
	switch {
	case percent > k.HighImpactPercent+rounding:
		return High
	case percent >= k.MediumImpactPercent-rounding:
		return Medium
	}
	return Low
}

// compare orders suggestions by impact, difficulty and id.
func (s Suggestion) compare(t Suggestion) int {
	return cmp.Or(cmp.Compare(slices.Index(Impacts, s.Impact), slices.Index(Impacts, t.Impact)),
		cmp.Compare(slices.Index(difficulties, s.Difficulty), slices.Index(difficulties, t.Difficulty)),
		cmp.Compare(s.ID, t.ID))
}

// savesMemory reports whether the suggestion helps a host that is short of memory.
func (s Suggestion) savesMemory() bool {
	return s.Category == MemoryUse || s.Expected.Memory != nil && s.Expected.Memory.Estimate < 0
}

// digest is 8 hex digits that stand for the id and the change.
func (s Suggestion) digest() string {
	h := sha256.New()
	fmt.Fprintln(h, s.ID)
	for _, key := range s.Change.keys() {
		fmt.Fprintf(h, "%s=%s\n", key, s.Change[key])
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}

// keys are the names of the settings in order.
func (s Settings) keys() []string {
	var keys []string
	for key := range s {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// String lists the settings: "layout=t5f threads=4".
func (s Settings) String() string {
	var parts []string
	for _, key := range s.keys() {
		parts = append(parts, key+"="+s[key])
	}
	return strings.Join(parts, " ")
}
