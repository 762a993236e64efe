package fleet

import (
	"context"
	"errors"
	"time"
)

// What can be wrong with the place where configs are shared. A caller carries on without it.
var (
	ErrUnavailable = errors.New("unavailable") // it is down, slow or out of reach
	ErrFull        = errors.New("full")        // it takes no more: a quota, a disk, a limit on the size of a request
	ErrDenied      = errors.New("denied")      // it wants other credentials
	ErrNonsense    = errors.New("nonsense")    // its answer is not one
)

// Options say where and how configs are shared.
type Options struct {
	// URL is etcd://HOST:PORT[,HOST:PORT…][/PREFIX], etcds://… for TLS, or dir:///PATH (also file:///PATH). The port is
	// 2379 by default and the prefix bitnet-autotune.
	URL            string
	CA, Cert, Key  string // PEM files: who is trusted instead of the system's roots; this client's certificate and its key
	User, Password string // of etcd's authentication; neither appears in an error
	// Timeout bounds each request to each endpoint. If 0, 500 ms.
	Timeout time.Duration
	// Poll is how often Await looks. If 0, 1 s.
	Poll time.Duration
}

// Fleet is a place where configs are shared. Its methods may be called concurrently.
type Fleet struct{}

// Open reads the options. It touches no network and no shared directory, so it does not fail because they are away.
func Open(ctx context.Context, opt Options) (*Fleet, error) { return nil, errors.ErrUnsupported }

// Close closes idle connections. Claims that are held stay held until they are released or expire.
func (f *Fleet) Close() error { return nil }

// Outcome is what became of a push.
type Outcome string

// The outcomes.
const (
	Stored Outcome = "stored" // there was nothing
	Merged Outcome = "merged" // there was something, and it has changed
	Kept   Outcome = "kept"   // what is there has more evidence, or says all of it already
)

// Push offers an entry. What is there is merged with it.
func (f *Fleet) Push(ctx context.Context, e Entry) (Outcome, error) { return "", errors.ErrUnsupported }

// Report says what Pull left out.
type Report struct {
	Read    int      `json:"read"`    // entries that were looked at
	Refused []string `json:"refused"` // one line for each that was not fit to be returned
}

// Pull returns the sound entries that q means, in the order of their keys, and a report of the others.
func (f *Fleet) Pull(ctx context.Context, q Query) ([]Entry, Report, error) {
	return nil, Report{}, errors.ErrUnsupported
}
