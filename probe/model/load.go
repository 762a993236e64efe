package model

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// ErrUnknown is wrapped by the error of Load for a name that is neither a preset nor looks like a path.
var ErrUnknown = errors.New("unknown preset or file")

// Load returns the preset called nameOrPath, or else the model of the GGUF file at that path. A file that bears the name
// of a preset is reached as ./name. A file without ternary matmuls loads as well: see Model.Tunable.
func Load(nameOrPath string) (Model, error) {
	if m, ok := Preset(nameOrPath); ok {
		return m, nil
	}
	if _, err := os.Stat(nameOrPath); errors.Is(err, fs.ErrNotExist) && !looksLikePath(nameOrPath) {
		return Model{}, fmt.Errorf("model: %w %q: the nearest presets are %s", ErrUnknown, nameOrPath, strings.Join(nearest(nameOrPath, 3), ", "))
	}
	f, err := Open(nameOrPath)
	if err != nil {
		return Model{}, err
	}
	defer f.Close()
	return f.Model()
}

// looksLikePath reports whether name was meant as a path rather than as a preset.
func looksLikePath(name string) bool {
	return strings.ContainsRune(name, os.PathSeparator) || strings.HasSuffix(strings.ToLower(name), ".gguf")
}

// nearest returns the n presets whose names are nearest to name, the nearest first.
func nearest(name string, n int) []string {
	byDistance := slices.Clone(presets)
	slices.SortStableFunc(byDistance, func(a, b Model) int {
		return cmp.Compare(distance(name, a.Name), distance(name, b.Name))
	})
	names := make([]string, n)
	for i := range names {
		names[i] = byDistance[i].Name
	}
	return names
}

// distance is how far a typed name is from a preset's: 0 if it is a part of it, else the edits between them
// (Levenshtein 1966), where a character left out costs 1 and any other edit 3, because names are abbreviated more often
// than misspelt. Only the first 64 bytes count.
func distance(typed, name string) int {
	typed = strings.ToLower(typed[:min(len(typed), 64)])
	if typed != "" && strings.Contains(name, typed) {
		return 0
	}
	row := make([]int, len(name)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(typed) {
		diagonal := row[0]
		row[0] += 3
		for j := range len(name) {
			substitute := diagonal
			if typed[i] != name[j] {
				substitute += 3
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, row[j]+1, diagonal+3)
		}
	}
	return row[len(name)]
}
