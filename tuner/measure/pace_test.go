package measure_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
)

// paced is a simulated host on whose clock a pacer lets rest for an hour after each burst, and takes down how long those were.
type paced struct {
	host   *measuretest.Simulator
	pacer  *measure.Pacer
	woken  time.Duration
	bursts []time.Duration
	runs   []time.Duration // when each sample began
}

func newPaced(burst time.Duration) *paced {
	p := &paced{host: measuretest.New(1)}
	begin := time.Unix(1_800_000_000, 0)
	p.pacer = &measure.Pacer{
		Burst: burst, Clock: func() time.Time { return begin.Add(p.host.Now()) },
		Ask: func(ctx context.Context) (bool, error) {
			p.bursts = append(p.bursts, p.host.Now()-p.woken)
			p.host.Sleep(time.Hour)
			p.woken = p.host.Now()
			return true, ctx.Err()
		},
	}
	return p
}

func (p *paced) arm(name string, cost time.Duration) measure.Subject {
	s := p.host.Arm(name, cost)
	run := s.Run
	s.Run = func(ctx context.Context, n int) (time.Duration, error) {
		p.runs = append(p.runs, p.host.Now())
		return run(ctx, n)
	}
	return s
}

// A run rests between blocks, never within one, takes the first sample after a rest for nothing, and its clock stands still
// meanwhile.
func TestPacedComparisonRestsBetweenBlocks(t *testing.T) {
	const burst, sample = 25 * time.Millisecond, 10 * time.Millisecond
	p := newPaced(burst)
	started := p.pacer.Now()
	timer := p.host.Timer(1)
	c, err := timer.Compare(measure.WithPacer(ctx, p.pacer), p.arm("base", sample), p.arm("cand", sample*100/105), measure.CompareOptions{Blocks: 20, Looks: 1})
	if err != nil || c.Blocks != 20 || c.Ratio < 1.04 || c.Ratio > 1.06 {
		t.Fatalf("compared %d blocks, ratio %v, %v", c.Blocks, c.Ratio, err)
	}
	if len(p.bursts) < 20 {
		t.Errorf("%d bursts of 20 blocks that each last longer than one", len(p.bursts))
	}
	for _, took := range p.bursts {
		if took < burst || took > burst+5*sample {
			t.Errorf("a burst of %v, want from %v to a block and a sample more", took, burst)
		}
	}
	runs := 0 // since a rest
	for i, at := range p.runs {
		if i > 0 && at-p.runs[i-1] > time.Minute {
			if runs = 0; i > len(p.runs)-5 {
				t.Errorf("sample %d of %d comes after a rest, so that the last block spans one", i, len(p.runs))
			}
		}
		runs++
	}
	if worked := p.pacer.Now().Sub(started); worked > time.Minute {
		t.Errorf("the run's clock went on by %v, though it worked for some hundred samples of %v", worked, sample)
	}
}

func TestInterruptedBlockBeginsAnew(t *testing.T) {
	p := newPaced(time.Minute)
	s := p.arm("base", 10*time.Millisecond)
	run := s.Run
	s.Run = func(ctx context.Context, n int) (time.Duration, error) {
		if len(p.runs) == 40 {
			p.pacer.Interrupt()
		}
		return run(ctx, n)
	}
	timer := p.host.Timer(1)
	pair := timer.Pair(s, s)
	paced := measure.WithPacer(ctx, p.pacer)
	for range 20 {
		if err := pair.Block(paced); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.bursts) != 1 {
		t.Fatalf("%d rests, want the one for which it was interrupted", len(p.bursts))
	}
	before, after := 0, 0
	for _, at := range p.runs {
		if at < p.woken {
			before++
		} else {
			after++
		}
	}
	result := pair.Result()
	if result.Blocks != 20 || before != 41 || (after-1)%4 != 0 {
		t.Errorf("%d blocks; %d samples before the rest and %d after: want 41, and whole blocks after one for nothing", result.Blocks, before, after)
	}
}

func TestPacedRunEndsOnItsOwnClock(t *testing.T) {
	p := newPaced(0)
	paced := measure.WithPacer(ctx, p.pacer)
	outer, cancel := p.pacer.Until(paced, p.pacer.Now().Add(time.Second))
	defer cancel()
	inner, cancelInner := p.pacer.Until(outer, p.pacer.Now().Add(100*time.Millisecond))
	defer cancelInner()
	for range 3 { // hours of rest
		if _, err := measure.Rest(inner); err != nil {
			t.Fatalf("after %v of work: %v", p.pacer.Now(), err)
		}
	}
	p.host.Sleep(200 * time.Millisecond)
	if _, err := measure.Rest(inner); !errors.Is(err, context.Canceled) {
		t.Errorf("after its time: %v, want that it ended", err)
	}
	if outer.Err() != nil {
		t.Error("the longer time ended with the shorter one")
	}
}

func TestRestWithoutAPacer(t *testing.T) {
	if rested, err := measure.Rest(ctx); rested || err != nil {
		t.Errorf("rested %t, %v", rested, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := measure.Rest(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("in a context that has ended: %v", err)
	}
}

func TestPacedRunFailsWhereNobodyAnswers(t *testing.T) {
	gone := errors.New("nobody there")
	p := &measure.Pacer{Ask: func(context.Context) (bool, error) { return false, gone }}
	s := measure.Subject{Name: "base", Run: func(context.Context, int) (time.Duration, error) { return time.Second, nil }}
	var timer measure.Timer
	if _, err := timer.Measure(measure.WithPacer(ctx, p), s, 1); !errors.Is(err, gone) {
		t.Errorf("error %v, want that of the pacer", err)
	}
}
