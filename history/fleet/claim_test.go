package fleet

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// moody is a lease that is renewed as long as it pleases.
type moody struct {
	backend
	renewals, drops int
	err             error
	hangs           bool
}

func (m *moody) take(context.Context, string, string, time.Duration) (lease, error) { return m, nil }

func (m *moody) renew(ctx context.Context) error {
	m.renewals++
	if m.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return cmp.Or(ctx.Err(), m.err)
}

func (m *moody) drop(context.Context) error {
	m.drops++
	return nil
}

func held(c *Claim) bool {
	select {
	case <-c.Done():
		return false
	default:
		return true
	}
}

// A claim is kept for as long as it can be renewed, and given up no later than it falls.
func TestClaimIsKeptAlive(t *testing.T) {
	const ttl = time.Minute
	for name, c := range map[string]struct {
		trouble func(m *moody)
		sooner  bool // it is known to be lost before its time is over
	}{
		"no answer":   {func(m *moody) { m.err = ErrUnavailable }, false},
		"it hangs":    {func(m *moody) { m.hangs = true }, false},
		"it is lost":  {func(m *moody) { m.err = errLost }, true},
		"it is taken": {func(m *moody) { m.err = &failure{[]error{errLost}, "taken"} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &moody{}
				f := &Fleet{backend: m}
				claim, err := f.Claim(t.Context(), keyOf(1), "tuner", ttl)
				must(t, err)
				time.Sleep(10*ttl + time.Second)
				if m.renewals != 40 || !held(claim) {
					t.Fatalf("after ten lives: %d renewals, held %v", m.renewals, held(claim))
				}
				m.err = errors.New("for a while")
				time.Sleep(ttl / 2)
				m.err = nil
				time.Sleep(ttl)
				if !held(claim) {
					t.Fatal("half a life without an answer has lost it")
				}
				last := time.Now()
				c.trouble(m)
				<-claim.Done()
				if life := time.Since(last); life > ttl || c.sooner != (life <= ttl/4) {
					t.Errorf("given up after %v", life)
				}
				must(t, claim.Release(t.Context()))
				must(t, claim.Release(t.Context()))
				if m.drops != 1 {
					t.Errorf("dropped %d times", m.drops)
				}
			})
		})
	}
}
