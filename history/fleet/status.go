package fleet

import (
	"context"
	"errors"
)

// Status is what a place where configs are shared looks like from here.
type Status struct {
	Backend        string         `json:"backend"`  // etcd or directory
	Endpoint       string         `json:"endpoint"` // that answered, or the directory
	Version        string         `json:"version,omitempty"`
	Entries        int            `json:"entries"`
	Classes        map[string]int `json:"classes"` // entries of each class
	Claims         []Held         `json:"claims"`
	LatencySeconds float64        `json:"latency_seconds"` // of the request that listed the entries
	Warnings       []string       `json:"warnings"`
}

// Held is a claim that somebody holds.
type Held struct {
	Key
	Holder string `json:"holder"`
}

// Status asks how the fleet is.
func (f *Fleet) Status(ctx context.Context) (Status, error) { return Status{}, errors.ErrUnsupported }
