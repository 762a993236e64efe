package dashboard

import (
	"context"
	"errors"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
)

// kept is a value that one caller at a time makes anew, and not too often: however many ask, making it takes at most a
// twentieth of the time.
type kept[T any] struct {
	life  context.Context // of who keeps it
	turn  chan struct{}   // held by who makes it or takes it
	value T
	err   error
	until time.Time
	made  time.Time
}

// idleShare is how many times as long as it took to make a value it is not made again.
const idleShare = 20

// makeTime bounds the making of a value.
const makeTime = 20 * time.Second

func newKept[T any](life context.Context) *kept[T] {
	return &kept[T]{life: life, turn: make(chan struct{}, 1)}
}

// get returns the value, which is made anew if it is older than fresh; remake gets the one before. An error is kept in its
// place for as long. What was begun is made to the end, also when the caller has gone: a page that is loaded again in a loop
// would have it begun each time.
func (k *kept[T]) get(ctx context.Context, now func() time.Time, fresh time.Duration, remake func(ctx context.Context, last T) (T, error)) (T, error) {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
	began := now()
	if !k.made.IsZero() && began.Before(k.until) && !began.Before(k.made) { // else the clock was set back
		return k.value, k.err
	}
	making, cancel := context.WithTimeout(k.life, makeTime)
	defer cancel()
	value, err := remake(making, k.value)
	if k.life.Err() != nil {
		return value, k.life.Err()
	}
	if k.err = err; err == nil {
		k.value = value
	}
	k.made = now()
	took := k.made.Sub(began)
	if errors.Is(err, history.ErrBusy) {
		took = 0 // to wait costs nothing
	}
	k.until = k.made.Add(max(fresh, idleShare*took))
	return k.value, err
}
