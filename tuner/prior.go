package tuner

import (
	"errors"
	"io/fs"

	"github.com/bitnet-autotune/bitnet-autotune/history"
)

// prior is what an image or a site ships: learned elsewhere, below everything that is known here.
type prior struct {
	path    string
	learned []history.Learned
	err     error // why it could not be read
}

// readPrior reads a prior; none where there is no file.
func readPrior(path string) prior {
	if path == "" {
		return prior{}
	}
	learned, err := history.ReadPrior(path)
	if errors.Is(err, fs.ErrNotExist) {
		return prior{}
	}
	return prior{path, learned, err}
}

// shipped turns the prior's configs for this model and target into candidates, of the nearest host first. Even one of
// an identical host was proven on another machine.
func (p Problem) shipped() []candidate {
	var list []candidate
	for _, l := range p.entries(&history.Snapshot{Learned: p.prior.learned}) {
		list = append(list, p.candidate(l, p.prior.path))
	}
	return list
}
