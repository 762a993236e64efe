package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"time"
)

var (
	ErrClaimed = errors.New("claimed") // another holder has it
	ErrFree    = errors.New("free")    // nobody holds it, and there is no entry
)

// errLost is a claim that has fallen.
var errLost = errors.New("lost")

// ClaimedError is an ErrClaimed that says who.
type ClaimedError struct{ Holder string }

func (e *ClaimedError) Error() string        { return "claimed by " + e.Holder }
func (e *ClaimedError) Is(target error) bool { return target == ErrClaimed }

// holderName is what a holder may call itself.
var holderName = regexp.MustCompile(`^[\x21-\x7e]{1,64}$`)

// shown is the name of a holder as it may be printed.
func shown(holder string) string {
	if holder == "" || holderName.MatchString(holder) {
		return holder
	}
	return "somebody whose name cannot be printed"
}

// Bounds of a claim's life. A dead holder keeps the others waiting for as long; below a second etcd does not go.
const (
	minTTL = time.Second
	maxTTL = time.Hour
)

// Claim is the right to tune for a key, while others wait.
type Claim struct {
	lease lease
	ttl   time.Duration
	stop  context.CancelFunc
	done  chan struct{} // closed when it is no longer held
	ended chan struct{} // closed when nothing runs in the background any more
	once  sync.Once
	err   error // of the release
}

// Claim takes the claim of a key for holder, a name of 1 to 64 characters without space that others see. It is kept alive in
// the background until it is released; when its holder dies it falls after ttl. The error is a *ClaimedError,
// errors.Is(err, ErrClaimed), where another holds it.
func (f *Fleet) Claim(ctx context.Context, k Key, holder string, ttl time.Duration) (*Claim, error) {
	l, began, err := f.take(ctx, k, holder, ttl)
	if err != nil {
		return nil, fmt.Errorf("fleet: claim: %w", err)
	}
	alive, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &Claim{lease: l, ttl: ttl, stop: stop, done: make(chan struct{}), ended: make(chan struct{})}
	go c.keep(alive, began)
	return c, nil
}

func (f *Fleet) take(ctx context.Context, k Key, holder string, ttl time.Duration) (lease, time.Time, error) {
	if err := k.validate(); err != nil {
		return nil, time.Time{}, err
	}
	if !holderName.MatchString(holder) {
		return nil, time.Time{}, fmt.Errorf("holder %.80q: want 1 to 64 printable characters of ASCII without space", holder)
	}
	if ttl < minTTL || ttl > maxTTL {
		return nil, time.Time{}, fmt.Errorf("ttl %v: want %v to %v", ttl, minTTL, maxTTL)
	}
	began := time.Now()
	l, err := f.backend.take(ctx, claimPath(k), holder, ttl)
	return l, began, err
}

// keep renews the claim four times in its life until it is stopped or lost. A claim counts from before it was asked for,
// so that its holder gives it up no later than others may take it, whatever their clocks say.
func (c *Claim) keep(ctx context.Context, renewed time.Time) {
	defer close(c.ended)
	defer close(c.done)
	for sleep(ctx, c.ttl/4) == nil {
		began := time.Now()
		expires := renewed.Add(c.ttl)
		try, cancel := context.WithDeadline(ctx, expires)
		err := c.lease.renew(try)
		cancel()
		switch {
		case err == nil:
			renewed = began
		case errors.Is(err, errLost) || !time.Now().Before(expires):
			return
		}
	}
}

// Done is closed when the claim is no longer held: released, or lost because it could not be kept alive.
func (c *Claim) Done() <-chan struct{} { return c.done }

// Release gives the claim back. One that is lost already is not an error.
func (c *Claim) Release(ctx context.Context) error {
	c.once.Do(func() {
		c.stop()
		<-c.ended
		if err := c.lease.drop(ctx); err != nil && !errors.Is(err, errLost) {
			c.err = fmt.Errorf("fleet: release: %w", err)
		}
	})
	return c.err
}

// maxFailedLooks is after how many failures in a row Await gives up: enough for an etcd that is started again.
const maxFailedLooks = 3

// Await waits until there is an entry at k, and returns it, or until nobody holds the claim of k; then the error is
// ErrFree. An entry that is there already is returned at once.
func (f *Fleet) Await(ctx context.Context, k Key) (Entry, error) {
	if err := k.validate(); err != nil {
		return Entry{}, fmt.Errorf("fleet: await: %w", err)
	}
	failed, last := 0, "nobody known"
	for {
		e, holder, err := f.look(ctx, k)
		switch {
		case err == nil && e != nil:
			return *e, nil
		case err == nil && holder == "":
			return Entry{}, fmt.Errorf("fleet: await %s: %w", k.path(), ErrFree)
		case err == nil:
			failed, last = 0, holder
		default:
			if failed++; failed == maxFailedLooks || ctx.Err() != nil {
				return Entry{}, fmt.Errorf("fleet: await: %w", err)
			}
		}
		if err := sleep(ctx, f.poll/2+rand.N(f.poll)); err != nil {
			return Entry{}, fmt.Errorf("fleet: await: claimed by %s: %w", last, err)
		}
	}
}

// look asks for the holder before the entry: whoever pushes and then releases is seen to have done both, or neither.
func (f *Fleet) look(ctx context.Context, k Key) (*Entry, string, error) {
	holder, err := f.backend.holder(ctx, claimPath(k))
	if err != nil {
		return nil, "", err
	}
	e, found, err := f.get(ctx, k)
	if errors.Is(err, errUnsound) {
		return nil, holder, nil
	}
	if err != nil || !found {
		return nil, holder, err
	}
	return &e, holder, nil
}
