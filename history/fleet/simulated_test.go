package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// tenure is a time in which somebody believed to hold the claim of a class.
type tenure struct {
	client      int
	from, until time.Time
}

// grants is the log of who held what.
type grants struct {
	mu    sync.Mutex
	class map[int][]tenure
}

func (g *grants) add(class int, t tenure) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.class[class] = append(g.class[class], t)
}

// 200 hosts of 5 hardware classes start at the same time, each wanting a config for its class. In each class the first
// that tunes dies over it. They come to one config for each class, with one tuner at a time.
func TestSimulatedFleet(t *testing.T) {
	for name, place := range map[string]func(t *testing.T) string{
		"directory": func(t *testing.T) string { return "dir://" + t.TempDir() },
		"etcd":      func(t *testing.T) string { return startEtcd(t).url() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			simulate(t, place(t))
		})
	}
}

func simulate(t *testing.T, url string) {
	const classes, deaths = 5, 1
	clients := 200
	if testing.Short() {
		clients = 50 // of which each takes its time under the race detector
	}
	log := grants{class: map[int][]tenure{}}
	var tuned, waited, died [classes]atomic.Int64
	got := make([]Entry, clients)
	began := time.Now()
	var wg sync.WaitGroup
	for n := range clients {
		f := open(t, Options{URL: url, Contributor: fmt.Sprint("machine ", n), Poll: 400 * time.Millisecond})
		class := n % classes
		wg.Go(func() {
			e, c, err := obtain(t.Context(), f, class, n, func() bool { return died[class].Load() < deaths })
			from := time.Now()
			switch {
			case err != nil:
				t.Errorf("client %d: %v", n, err)
			case c == nil:
				got[n] = e
				waited[class].Add(1)
			case c.ttl == minTTL: // it is never heard of again
				log.add(class, tenure{n, from, from})
				c.stop()
				died[class].Add(1)
			default:
				time.Sleep(20 * time.Millisecond) // it tunes
				got[n] = entryOf(class, 1+n, 20)
				_, err := f.Push(t.Context(), got[n])
				log.add(class, tenure{n, from, time.Now()})
				if err = errors.Join(err, c.Release(t.Context())); err != nil {
					t.Errorf("client %d: %v", n, err)
				}
				tuned[class].Add(1)
			}
		})
	}
	wg.Wait()
	f := open(t, Options{URL: url})
	granted, lost := 0, int64(0)
	for class := range classes {
		overlapping(t, class, log.class[class])
		entries := pull(t, f, class)
		if len(entries) != 1 {
			t.Fatalf("class %d has %d entries", class, len(entries))
		}
		for n := class; n < clients; n += classes {
			if got[n].Config != nil && string(got[n].Config) != string(entries[0].Config) {
				t.Errorf("client %d has %s, the fleet %s", n, got[n].Config, entries[0].Config)
			}
		}
		one, others, dead := tuned[class].Load(), waited[class].Load(), died[class].Load()
		if one != 1 || dead < deaths || one+others+dead != int64(clients/classes) {
			t.Errorf("class %d: %d tuned, %d waited, %d died", class, one, others, dead)
		}
		granted, lost = granted+len(log.class[class]), lost+dead
	}
	s, err := f.Status(t.Context())
	must(t, err)
	if s.Entries != classes || len(s.Classes) != classes || len(s.Claims) != 0 {
		t.Errorf("status %+v", s)
	}
	t.Logf("%d clients, %d classes: %d configs, %d grants (%d of them to hosts that died), 0 overlapping, in %v",
		clients, classes, s.Entries, granted, lost, time.Since(began).Round(time.Millisecond))
}

// obtain returns the entry of a class, or the claim to tune for it: a short one, if the client is mortal.
func obtain(ctx context.Context, f *Fleet, class, client int, mortal func() bool) (Entry, *Claim, error) {
	for {
		ttl := 10 * time.Minute // no pause of a busy machine is as long
		if mortal() {
			ttl = minTTL
		}
		if e, ok, err := there(ctx, f, class); ok || err != nil {
			return e, nil, err
		}
		c, err := f.Claim(ctx, keyOf(class), fmt.Sprint("client", client), ttl)
		if err == nil {
			// Somebody may have pushed and released between the look and the claim.
			e, ok, err := there(ctx, f, class)
			if !ok || err != nil {
				return Entry{}, c, err
			}
			return e, nil, c.Release(ctx)
		}
		if !errors.Is(err, ErrClaimed) {
			return Entry{}, nil, err
		}
		e, err := f.Await(ctx, keyOf(class))
		if err == nil || !errors.Is(err, ErrFree) {
			return e, nil, err
		}
	}
}

// there is the entry of a class, if there is one.
func there(ctx context.Context, f *Fleet, class int) (e Entry, ok bool, err error) {
	entries, _, err := f.Pull(ctx, Query{Class: keyOf(class).Class, Model: modelA, Signature: table})
	if len(entries) > 0 {
		e, ok = entries[0], true
	}
	return e, ok, err
}

// overlapping fails if two held a claim at the same time.
func overlapping(t *testing.T, class int, log []tenure) {
	t.Helper()
	slices.SortFunc(log, func(a, b tenure) int { return a.from.Compare(b.from) })
	for i := 1; i < len(log); i++ {
		if log[i].from.Before(log[i-1].until) {
			t.Errorf("class %d: client %d got the claim %v before client %d gave it up", class, log[i].client, log[i-1].until.Sub(log[i].from), log[i-1].client)
		}
	}
}
