package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
)

// Entry is a model of a catalog, with what it takes.
type Entry struct {
	Name    string
	Family  string
	Need    Need
	Weights uint64 // ternary weights: of models that fit, the larger one is taken for the more able one
}

// Constraints bound a recommendation.
type Constraints struct {
	Kinds    []Kind // of hardware; nil = any
	MaxBytes uint64 // memory of a model; 0 = what the device has
}

// Recommendation is what can be run for a task.
type Recommendation struct {
	Task     string     `json:"task"`
	Family   string     `json:"family"`
	Models   []Match    `json:"models"`
	Excluded []Excluded `json:"excluded"`
	Notes    []string   `json:"notes"`
}

// Match is a model that fits, on the best device for it.
type Match struct {
	Model        string       `json:"model"`
	Device       string       `json:"device"`
	Level        Level        `json:"level"`
	MemoryBytes  uint64       `json:"memory_bytes"`
	Weights      uint64       `json:"ternary_weights"`
	Layout       string       `json:"layout"`
	TokenSeconds float64      `json:"token_seconds"`
	Basis        device.Basis `json:"basis"`
	Reason       string       `json:"reason"`
}

// Excluded is a model that is not recommended, and why.
type Excluded struct {
	Model  string `json:"model"`
	Reason string `json:"reason"`
}

// tasks are what tasks are called elsewhere, with their family.
var tasks = map[string]string{
	"chat": model.TextGeneration, "summarization": model.TextGeneration, "translation": model.TextGeneration, "text2text-generation": model.TextGeneration,
	"feature-extraction": model.Embedding, "sentence-similarity": model.Embedding, "search": model.Embedding,
	"image-classification": model.Vision, "image-feature-extraction": model.Vision,
	"automatic-speech-recognition": model.Audio, "transcription": model.Audio,
	"image-text-to-text": model.Multimodal, "visual-question-answering": model.Multimodal,
}

// Tasks are the names that FamilyOfTask knows.
func Tasks() []string {
	names := slices.Clone(Families)
	for name := range tasks {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// FamilyOfTask returns the family for a task: a family's own name, with dashes or underscores, or what the task is called
// elsewhere.
func FamilyOfTask(task string) (string, error) {
	name := strings.ToLower(task)
	if family := strings.ReplaceAll(name, "-", "_"); slices.Contains(Families, family) {
		return family, nil
	}
	if family, known := tasks[name]; known {
		return family, nil
	}
	return "", fmt.Errorf("placement: task %q: want one of %s", task, strings.Join(Tasks(), ", "))
}

// Recommend ranks the models of a catalog that serve a task and fit a device: those on better suited hardware first, then
// the larger, then by name. That none does is an empty list with reasons.
func Recommend(task string, catalog []Entry, devices []Device, m *Matrix, by Constraints) (Recommendation, error) {
	family, err := FamilyOfTask(task)
	if err != nil {
		return Recommendation{}, err
	}
	out := Recommendation{Task: task, Family: family, Models: []Match{}, Excluded: []Excluded{}, Notes: []string{}}
	for _, kind := range by.Kinds {
		if !slices.Contains(KindsOf(devices), kind) {
			out.Notes = append(out.Notes, fmt.Sprintf("there is no %s that can be used here", kind))
		} else if m.Level(family, kind) == None {
			out.Notes = append(out.Notes, fmt.Sprintf("the matrix has %s on %s as %s", family, kind, None))
		}
	}
	for _, e := range catalog {
		if e.Family != family {
			continue
		}
		if match, why := m.match(e, usable(devices), by); why != "" {
			out.Excluded = append(out.Excluded, Excluded{Model: e.Name, Reason: why})
		} else {
			out.Models = append(out.Models, match)
		}
	}
	slices.SortStableFunc(out.Models, func(a, b Match) int {
		return cmp.Or(cmp.Compare(a.Level.rank(), b.Level.rank()), cmp.Compare(b.Weights, a.Weights), cmp.Compare(a.Model, b.Model))
	})
	if len(out.Models) == 0 && len(out.Excluded) == 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("the built-in catalog has no model of the family %s", family))
	}
	return out, nil
}

// match is the best device for a model: the best level, then the quickest, then the first; or why there is none.
func (m *Matrix) match(e Entry, devices []Device, by Constraints) (best Match, why string) {
	var against []string
	for _, d := range devices {
		level, bytes := m.Level(e.Family, d.Kind), e.Need.on(d.Kind)
		time := float64(e.Need.time(d, 1)) / 1e12
		switch {
		case len(by.Kinds) > 0 && !slices.Contains(by.Kinds, d.Kind):
			against = append(against, d.ID+" is not among the hardware asked for")
		case level == None:
			against = append(against, fmt.Sprintf("the matrix has %s on %s as %s", e.Family, d.Kind, None))
		case by.MaxBytes > 0 && bytes > by.MaxBytes:
			against = append(against, fmt.Sprintf("%s: %s are needed, at most %s allowed", d.ID, gigabytes(bytes), gigabytes(by.MaxBytes)))
		case bytes > d.RoomBytes:
			against = append(against, fmt.Sprintf("%s: %s are needed, %s are free", d.ID, gigabytes(bytes), gigabytes(d.RoomBytes)))
		case best.Model == "" || level.rank() < best.Level.rank() || level == best.Level && time < best.TokenSeconds:
			best = Match{Model: e.Name, Device: d.ID, Level: level, MemoryBytes: bytes, Weights: e.Weights, Layout: e.Need.Layout, TokenSeconds: time, Basis: device.Estimate,
				Reason: fmt.Sprintf("%s of the %s that are free, level %s", gigabytes(bytes), gigabytes(d.RoomBytes), level)}
		}
	}
	switch {
	case best.Model != "":
		return best, ""
	case len(against) == 0:
		return best, "there is no device that can be used"
	}
	return best, strings.Join(against, "; ")
}
