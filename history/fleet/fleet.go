package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Options say where and how configs are shared.
type Options struct {
	// URL is etcd://HOST:PORT[,HOST:PORT…][/PREFIX], etcds://… for TLS, or dir:///PATH (also file:///PATH). The port is
	// 2379 by default and the prefix bitnet-autotune.
	URL            string
	CA, Cert, Key  string // PEM files: who is trusted instead of the system's roots; this client's certificate and its key
	User, Password string // of etcd's authentication; the password appears in no error
	// Contributor is what tells this machine from others of the same fingerprint, such as its machine id. Only a keyed
	// hash of it leaves the host. If "", machines of one fingerprint count as one.
	Contributor string
	// Timeout bounds each request to each endpoint. If 0, 500 ms; of a directory 5 s, since a push syncs several files, and
	// one that was cut short may have been done all the same.
	Timeout time.Duration
	// Poll is how often Await looks. If 0, 1 s.
	Poll time.Duration
}

// Fleet is a place where configs are shared. Its methods may be called concurrently.
type Fleet struct {
	backend     backend
	contributor string
	poll        time.Duration
}

// store holds values under paths, each with a revision by which it can be replaced only if nobody else did.
type store interface {
	list(ctx context.Context, prefix string) ([]string, error)                         // paths, in order, at most maxListed
	read(ctx context.Context, path string) (item, error)                               // revision 0: there is nothing
	swap(ctx context.Context, path string, revision int64, value []byte) (bool, error) // false: somebody was there first
}

// claims are names under paths that fall when they are not renewed.
type claims interface {
	take(ctx context.Context, path, holder string, ttl time.Duration) (lease, error) // *ClaimedError: another has it
	holder(ctx context.Context, path string) (string, error)                         // "": nobody
}

// lease is a claim that is held.
type lease interface {
	renew(ctx context.Context) error // errLost: it has fallen
	drop(ctx context.Context) error
}

type backend interface {
	store
	claims
	describe(ctx context.Context, s *Status)
	close()
}

type item struct {
	revision int64
	value    []byte
	at       time.Time // by the clock of the store; zero where it has none to show
}

// maxListed bounds how many keys are looked at.
const maxListed = 10_000

// Open reads the options. It touches no network and no shared directory, so it does not fail because they are away.
func Open(_ context.Context, opt Options) (*Fleet, error) {
	f := &Fleet{contributor: opt.Contributor, poll: cmp.Or(opt.Poll, time.Second)}
	if opt.Timeout < 0 || f.poll < 0 {
		return nil, fmt.Errorf("fleet: open: timeout %v, poll %v: want more than 0", opt.Timeout, f.poll)
	}
	scheme, rest, _ := strings.Cut(opt.URL, "://")
	var err error
	switch scheme {
	case "etcd", "etcds":
		opt.Timeout = cmp.Or(opt.Timeout, 500*time.Millisecond)
		f.backend, err = newEtcd(scheme == "etcds", rest, opt)
	case "dir", "file":
		opt.Timeout = cmp.Or(opt.Timeout, 5*time.Second)
		f.backend, err = newDirectory(rest, opt)
	default:
		err = errors.New("want etcd://HOST:PORT[,HOST:PORT…][/PREFIX], etcds://… for TLS, or dir:///PATH")
	}
	if err != nil {
		return nil, fmt.Errorf("fleet: open %s: %w", withoutPassword(opt.URL), err)
	}
	return f, nil
}

// withoutPassword hides what stands before an @.
func withoutPassword(url string) string {
	if scheme, rest, ok := strings.Cut(url, "://"); ok {
		if i := strings.LastIndexByte(rest, '@'); i >= 0 {
			return scheme + "://…" + rest[i:]
		}
	}
	return url
}

// Close closes idle connections. Claims that are held stay held until they are released or expire.
func (f *Fleet) Close() error {
	f.backend.close()
	return nil
}

func entryPath(k Key) string { return "entry/" + k.path() }
func claimPath(k Key) string { return "claim/" + k.path() }

// Outcome is what became of a push.
type Outcome string

// The outcomes.
const (
	Stored Outcome = "stored" // there was nothing, or nothing sound
	Merged Outcome = "merged" // there was something, and it has changed
	Kept   Outcome = "kept"   // what is there has more evidence, or says all of it already
)

// maxAttempts bounds a push. Each one that fails means that another host's went through.
const maxAttempts = 200

// Push offers an entry. What is there is merged with it.
func (f *Fleet) Push(ctx context.Context, e Entry) (Outcome, error) {
	if e.Contributors == nil {
		e.Contributors = []string{}
	}
	e.Contributors = union(e.Contributors, []string{mark(cmp.Or(f.contributor, e.Host))})
	if _, err := e.encode(); err != nil {
		return "", fmt.Errorf("fleet: push: %w", err)
	}
	for attempt := range maxAttempts {
		outcome, err := f.offer(ctx, e)
		if err != nil {
			return "", fmt.Errorf("fleet: push: %w", err)
		}
		if outcome != "" {
			return outcome, nil
		}
		if err := sleep(ctx, rand.N(time.Millisecond<<min(attempt, 6))); err != nil {
			return "", fmt.Errorf("fleet: push: %w", err)
		}
	}
	return "", fmt.Errorf("fleet: push: %w", fail(ErrUnavailable, "%s changed under %d attempts", e.path(), maxAttempts))
}

// offer is one attempt of a push; "" means that somebody was faster.
func (f *Fleet) offer(ctx context.Context, e Entry) (Outcome, error) {
	there, err := f.backend.read(ctx, entryPath(e.Key))
	if err != nil {
		return "", err
	}
	outcome, merged := Stored, e
	merged.Generation = 0
	if there.revision > 0 {
		theirs, err := decode(e.path(), there.value)
		var newer newerError
		switch {
		case errors.As(err, &newer):
			return "", fail(ErrNonsense, "entry %s: %v", e.path(), err)
		case err == nil:
			outcome, merged = Merged, merge(theirs, merged)
			if same(merged, theirs) {
				return Kept, nil
			}
		}
	}
	merged.Generation++
	doc, err := merged.encode()
	if err != nil {
		return "", err
	}
	if ok, err := f.backend.swap(ctx, entryPath(e.Key), there.revision, doc); err != nil || !ok {
		return "", err
	}
	return outcome, nil
}

// Report says what Pull looked at and what it left out.
type Report struct {
	Read    int      `json:"read"`
	Refused []string `json:"refused"` // one line for each that was not fit to be returned
}

// maxPulled bounds how many entries are read: a model has one for each target and objective.
const maxPulled = 256

// Pull returns the sound entries that q means, in the order of their keys, and a report of the others. With an error
// come those that were read before it.
func (f *Fleet) Pull(ctx context.Context, q Query) ([]Entry, Report, error) {
	report := Report{Refused: []string{}}
	prefix, err := q.prefix()
	if err != nil {
		return nil, report, fmt.Errorf("fleet: pull: %w", err)
	}
	paths, err := f.backend.list(ctx, "entry/"+prefix)
	if err != nil {
		return nil, report, fmt.Errorf("fleet: pull: %w", err)
	}
	var entries []Entry
	for _, path := range paths {
		path = strings.TrimPrefix(path, "entry/")
		k, err := parsePath(path)
		if err != nil {
			report.refuse(path, err)
			continue
		}
		if !q.matches(k) {
			continue
		}
		if report.Read == maxPulled {
			report.refuse(path, fmt.Errorf("and all after it: only %d are read", maxPulled))
			break
		}
		report.Read++
		e, found, err := f.get(ctx, k)
		switch {
		case errors.Is(err, errUnsound):
			report.refuse(path, err)
		case err != nil:
			return entries, report, fmt.Errorf("fleet: pull: %w", err)
		case found:
			entries = append(entries, e)
		}
	}
	return entries, report, nil
}

// maxLines bounds what is said of others' doings.
const maxLines = 32

func (r *Report) refuse(path string, err error) {
	r.Refused = addLine(r.Refused, fmt.Sprintf("fleet: entry %s: %v", oneLine(path), err))
}

// addLine adds a line to a list, unless that is long enough.
func addLine(list []string, line string) []string {
	switch {
	case len(list) < maxLines:
		return append(list, line)
	case len(list) == maxLines:
		return append(list, "fleet: and more")
	}
	return list
}

// errUnsound is an entry that is not fit to be returned.
var errUnsound = errors.New("unsound")

// get reads one entry.
func (f *Fleet) get(ctx context.Context, k Key) (e Entry, found bool, err error) {
	there, err := f.backend.read(ctx, entryPath(k))
	if errors.Is(err, ErrNonsense) {
		return e, false, &failure{[]error{errUnsound}, err.Error()}
	}
	if err != nil || there.revision == 0 {
		return e, false, err
	}
	if e, err = decode(k.path(), there.value); err != nil {
		return e, false, &failure{[]error{errUnsound}, err.Error()}
	}
	return e, true, nil
}

// sleep waits, or returns why it did not.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
