package fleet

import (
	"context"
	"errors"
	"time"
)

var (
	ErrClaimed = errors.New("claimed") // another holder has it
	ErrFree    = errors.New("free")    // nobody holds it, and there is no entry
)

// ClaimedError is an ErrClaimed that says who.
type ClaimedError struct{ Holder string }

func (e *ClaimedError) Error() string        { return "claimed by " + e.Holder }
func (e *ClaimedError) Is(target error) bool { return target == ErrClaimed }

// Claim is the right to tune for a key, while others wait.
type Claim struct{}

// Claim takes the claim of a key for holder, a name of 1 to 64 printable characters that others see. It is kept alive in
// the background until it is released; when its holder dies it falls after ttl. The error is a *ClaimedError,
// errors.Is(err, ErrClaimed), where another holds it.
func (f *Fleet) Claim(ctx context.Context, k Key, holder string, ttl time.Duration) (*Claim, error) {
	return nil, errors.ErrUnsupported
}

// Done is closed when the claim is no longer held: released, or lost because it could not be kept alive.
func (c *Claim) Done() <-chan struct{} { return nil }

// Release gives the claim back.
func (c *Claim) Release(ctx context.Context) error { return errors.ErrUnsupported }

// Await waits until there is an entry at k, and returns it, or until nobody holds the claim of k; then the error is
// ErrFree. An entry that is there already is returned at once.
func (f *Fleet) Await(ctx context.Context, k Key) (Entry, error) {
	return Entry{}, errors.ErrUnsupported
}
