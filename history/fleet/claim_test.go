package fleet

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// moody is a lease that is renewed as long as it pleases.
type moody struct {
	backend
	mu              sync.Mutex
	renewals, drops int
	err             error
	hangs           bool
}

// feel changes how it answers from now on.
func (m *moody) feel(err error, hangs bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err, m.hangs = err, hangs
}

func (m *moody) renewed() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.renewals
}

func (m *moody) take(context.Context, string, string, time.Duration) (lease, error) { return m, nil }

func (m *moody) renew(ctx context.Context) error {
	m.mu.Lock()
	m.renewals++
	err, hangs := m.err, m.hangs
	m.mu.Unlock()
	if hangs {
		<-ctx.Done()
	}
	return cmp.Or(ctx.Err(), err)
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
		err    error
		hangs  bool
		sooner bool // it is known to be lost before its time is over
	}{
		"no answer":   {err: ErrUnavailable},
		"it hangs":    {hangs: true},
		"it is lost":  {err: errLost, sooner: true},
		"it is taken": {err: &failure{[]error{errLost}, "taken"}, sooner: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &moody{}
				f := &Fleet{backend: m}
				claim, err := f.Claim(t.Context(), keyOf(1), "tuner", ttl)
				must(t, err)
				time.Sleep(10*ttl + time.Second)
				if m.renewed() != 40 || !held(claim) {
					t.Fatalf("after ten lives: %d renewals, held %v", m.renewed(), held(claim))
				}
				m.feel(errors.New("for a while"), false)
				time.Sleep(ttl / 2)
				m.feel(nil, false)
				time.Sleep(ttl)
				if !held(claim) {
					t.Fatal("half a life without an answer has lost it")
				}
				last := time.Now()
				m.feel(c.err, c.hangs)
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
