package tuner

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/idle"
)

// turns is how one run of a Background shares the host: without rests where nobody else works, else in bursts that take a
// small share of the time.
type turns struct {
	background *Background
	gate       *idle.Gate
	pace       *idle.Pace // of all runs: the next one pays for the last one's set-up
	resting    atomic.Bool
	stop       context.CancelCauseFunc // ends the run

	began  time.Time     // the burst at hand
	before time.Duration // CPU time of this process by then
	own    time.Duration // that bursts took so far
	looked time.Time
}

func (t *turns) begin() { t.began, t.before = time.Now(), cpuTime() }

// end takes a burst down, and reports whether it has to be paid for with a rest. What the service did during it is in its
// CPU time.
func (t *turns) end() bool {
	t.own += cpuTime() - t.before
	t.look()
	if !t.met() {
		return false
	}
	now := time.Now()
	t.pace.Worked(now, now.Sub(t.began))
	return true
}

// met reports whether somebody would meet a run that does not rest.
func (t *turns) met() bool {
	return t.gate.Light() != "" || t.background.served() < t.background.opt.Rules.Quiet
}

// look sees how busy others are, this process's service among them while the run rests.
func (t *turns) look() {
	if now := time.Now(); now.Sub(t.looked) >= t.background.opt.Look {
		t.looked = now
		t.gate.Look(t.background.opt.Read(), t.own)
	}
}

// ask ends a burst and returns when the next may begin.
func (t *turns) ask(ctx context.Context) (waited bool, err error) {
	t.resting.Store(true)
	defer t.resting.Store(false)
	defer t.begin()
	if !t.end() {
		return false, ctx.Err()
	}
	t.background.change(func(s *BackgroundState) { s.Bursts++ })
	due := t.pace.Next()
	for {
		wait := max(time.Until(t.pace.Next()), min(2*backgroundBurst, t.background.opt.Look))
		if err := pause(ctx, min(wait, t.background.opt.Look)); err != nil {
			return true, err
		}
		t.look()
		if t.gate.Admit(time.Now()) == "" && (!t.met() || t.mayBegin()) {
			return true, nil
		}
		if why := t.unwelcome(ctx, due); why != nil {
			t.stop(why)
			return true, ctx.Err()
		}
	}
}

// unwelcome says why a run should end rather than hold its weights in memory any longer; nil = it may. due is when its next
// burst was to begin.
func (t *turns) unwelcome(ctx context.Context, due time.Time) error {
	b := t.background
	if usage := t.gate.Usage(b.opt.Rules.Quiet); usage.MemStall > b.opt.Rules.MemStall {
		return fmt.Errorf("%w: others wait for memory %.0f %% of the time", errLoad, 100*usage.MemStall)
	}
	if time.Since(due) > b.opt.patience {
		return fmt.Errorf("%w: no burst could begin for %v", errLoad, b.opt.patience)
	}
	if plan, err := b.tuner.Plan(ctx, b.model); err == nil && plan.Source == Pinned {
		return errors.New("an operator has pinned a config")
	}
	return nil
}

// mayBegin reports whether the next burst is due, and nobody is at work at this moment.
func (t *turns) mayBegin() bool {
	return !time.Now().Before(t.pace.Next()) && t.background.served() > 2*backgroundBurst && t.background.opt.watch().Runnable <= 1
}
