package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// A prior is a document of learned configs that ships with an image or lies on a site's disks: read by everybody,
// written by nobody who tunes. It is JSON: {"prior":1,"learned":[Learned…]}.
type prior struct {
	Version int       `json:"prior"`
	Learned []Learned `json:"learned"`
}

// priorVersion is the version of the document. Fields may be added without a new one.
const priorVersion = 1

// maxPriorBytes bounds what is read.
const maxPriorBytes = 64 << 20

// WritePrior writes learned configs as a prior.
func WritePrior(w io.Writer, learned []Learned) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(prior{priorVersion, learned}); err != nil {
		return fmt.Errorf("history: write prior: %w", err)
	}
	if _, err := w.Write(buf.Bytes()); err != nil {
		return fmt.Errorf("history: write prior: %w", err)
	}
	return nil
}

// ReadPrior reads a prior. One whose entries could not be kept in a store is refused whole.
func ReadPrior(path string) ([]Learned, error) {
	learned, err := readPrior(path)
	if err != nil {
		return nil, fmt.Errorf("history: read prior %s: %w", path, reason(err))
	}
	return learned, nil
}

func readPrior(path string) ([]Learned, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxPriorBytes+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxPriorBytes {
		return nil, fmt.Errorf("more than %d bytes", maxPriorBytes)
	}
	var p prior
	if err := json.Unmarshal(content, &p); err != nil {
		return nil, fmt.Errorf("%w: want what history export --learned writes", err)
	}
	if p.Version != priorVersion {
		return nil, fmt.Errorf("prior %d: want %d, as history export --learned writes", p.Version, priorVersion)
	}
	for i, l := range p.Learned {
		if _, err := l.key(); err != nil {
			return nil, fmt.Errorf("learned %d: %w", i, err)
		}
	}
	return p.Learned, nil
}
