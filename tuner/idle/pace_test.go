package idle

import (
	"math/rand/v2"
	"testing"
	"time"
)

// In no span of time does work take more than its share and one burst, however long bursts, delays and what is worked besides
// are; and where nothing delays it, it gets nearly all of its share.
func TestPaceBoundsTheShareOfAnySpan(t *testing.T) {
	for _, share := range []float64{0.001, 0.05, 0.5, 1} {
		for _, delayed := range []bool{false, true} {
			random := rand.New(rand.NewPCG(1, uint64(1000*share)))
			p := Pace{Share: share}
			now, longest := noon, time.Duration(0)
			type span struct {
				from time.Time
				work time.Duration
			}
			var bursts []span
			for range 300 {
				if next := p.Next(); next.After(now) {
					now = next
				}
				if delayed {
					now = now.Add(time.Duration(random.Int64N(int64(time.Minute))))
				}
				work := time.Duration(1 + random.Int64N(int64(100*time.Millisecond)))
				bursts = append(bursts, span{now, work})
				now, longest = now.Add(work), max(longest, work)
				p.Worked(now, work)
			}
			for i := range bursts {
				work := time.Duration(0)
				for _, b := range bursts[i:] {
					work += b.work
					over := b.from.Add(b.work).Sub(bursts[i].from)
					if most := time.Duration(share*float64(over)) + longest + time.Microsecond; work > most {
						t.Fatalf("share %v: %v of work in %v, want at most %v", share, work, over, most)
					}
				}
			}
			total := time.Duration(0)
			for _, b := range bursts {
				total += b.work
			}
			if got := float64(total) / float64(now.Sub(noon)); !delayed && got < 0.98*share {
				t.Errorf("share %v: got %v of the time", share, got)
			}
		}
	}
}

func TestPaceChargesWorkDoneAtRest(t *testing.T) {
	p := Pace{Share: 0.01}
	p.Worked(noon, 10*time.Millisecond)
	if got := p.Next().Sub(noon); got != 990*time.Millisecond {
		t.Errorf("after 10 ms of work: a rest of %v, want 990ms", got)
	}
	p.Besides(5 * time.Millisecond)
	if got := p.Next().Sub(noon); got != 1490*time.Millisecond {
		t.Errorf("after 5 ms more: the next burst in %v, want in 1.49s", got)
	}
}

// A host on which nobody works is told from one with a service of a few requests a second, through counters that know ticks
// only.
func TestLightUseIsNoticed(t *testing.T) {
	const cpus = 2
	for _, c := range []struct {
		name    string
		use     float64 // CPUs
		within  time.Duration
		noticed bool
	}{
		{"housekeeping", 0.006, time.Minute, false},
		{"five requests of 2.4 ms a second, on both CPUs", 0.024, 6 * time.Second, true},
		{"twenty a second", 0.096, 2 * time.Second, true},
	} {
		m := machine{cpus: cpus}
		g := Gate{Rules: DefaultRules}
		own := time.Duration(0)
		look := func(use float64) { // once a second, while the asker itself uses the rest
			own += time.Duration((cpus - use) * float64(time.Second))
			g.Look(m.run(time.Second, cpus), own)
		}
		for range 15 {
			look(0.002)
		}
		if why := g.Light(); why != "" {
			t.Fatalf("before it comes: %s", why)
		}
		at := time.Duration(0)
		for at < c.within && g.Light() == "" {
			look(c.use)
			at += time.Second
		}
		if why := g.Light(); (why != "") != c.noticed {
			t.Errorf("%s: after %v %q", c.name, at, why)
		}
	}
}
