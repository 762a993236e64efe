package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Status is what a place where configs are shared looks like from here.
type Status struct {
	Backend        string         `json:"backend"`  // etcd or directory
	Endpoint       string         `json:"endpoint"` // that answered, or the directory
	Version        string         `json:"version,omitempty"`
	Entries        int            `json:"entries"`
	Classes        map[string]int `json:"classes"` // entries of each class
	Targets        map[string]int `json:"targets"` // entries of each target, engines among them
	Claims         []Held         `json:"claims"`
	LatencySeconds float64        `json:"latency_seconds"` // of the request that listed the entries
	Warnings       []string       `json:"warnings"`
}

// Held is a claim that somebody holds.
type Held struct {
	Key
	Holder string `json:"holder"`
}

// maxClaims bounds how many claims are named.
const maxClaims = 100

// Status asks how the fleet is. With an error comes what is known without an answer.
func (f *Fleet) Status(ctx context.Context) (Status, error) {
	s := Status{Classes: map[string]int{}, Targets: map[string]int{}, Claims: []Held{}, Warnings: []string{}}
	err := f.status(ctx, &s)
	if err != nil {
		err = fmt.Errorf("fleet: status: %w", err)
	}
	return s, err
}

func (f *Fleet) status(ctx context.Context, s *Status) error {
	f.backend.describe(ctx, s)
	began := time.Now()
	paths, err := f.backend.list(ctx, "entry/")
	if err != nil {
		return err
	}
	s.LatencySeconds = time.Since(began).Seconds()
	for _, path := range paths {
		k, err := parsePath(strings.TrimPrefix(path, "entry/"))
		if err != nil {
			s.warn("%v", err)
			continue
		}
		s.Entries++
		s.Classes[k.Class]++
		s.Targets[k.Target]++
	}
	if len(paths) == maxListed {
		s.warn("only the first %d entries were counted", maxListed)
	}
	return f.claims(ctx, s)
}

func (f *Fleet) claims(ctx context.Context, s *Status) error {
	paths, err := f.backend.list(ctx, "claim/")
	if err != nil {
		return err
	}
	for _, path := range paths {
		if len(s.Claims) == maxClaims {
			s.warn("only the first %d claims are named", maxClaims)
			break
		}
		k, err := parsePath(strings.TrimPrefix(path, "claim/"))
		if err != nil {
			s.warn("%v", err)
			continue
		}
		holder, err := f.backend.holder(ctx, path)
		if err != nil {
			return err
		}
		if holder != "" {
			s.Claims = append(s.Claims, Held{k, holder})
		}
	}
	return nil
}

func (s *Status) warn(format string, args ...any) {
	s.Warnings = addLine(s.Warnings, "fleet: "+fmt.Sprintf(format, args...))
}
