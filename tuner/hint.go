package tuner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/history/fleet"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// hint is a config that was proven on another host of this class. It is within this host's bounds, and nothing more is
// believed of it before it was verified and compared here.
type hint struct {
	entry  fleet.Entry
	config Config
	proof  Certificate
}

// hint reads what a fleet sent. The error says why it is of no use here.
func (p Problem) hint(e fleet.Entry) (h hint, err error) {
	if want := p.fleetKey(); e.Class != want.Class || e.Model != want.Model || e.Target != want.Target || e.Signature != want.Signature {
		return h, fmt.Errorf("it is for another host, model or kernel table")
	}
	l, err := e.Learned()
	if err != nil {
		return h, err
	}
	h.entry = e
	if err := json.Unmarshal(l.Config, &h.config); err != nil {
		return h, fmt.Errorf("its config does not parse: %w", err)
	}
	if err := json.Unmarshal(l.Certificate, &h.proof); err != nil {
		return h, fmt.Errorf("its certificate does not parse: %w", err)
	}
	if err := p.validate(h.config); err != nil {
		return h, err
	}
	if err := p.wouldTry(h.config); err != nil {
		return h, err
	}
	h.config = p.rebound(h.config, l)
	return h, nil
}

// wouldTry refuses a config that is possible here, but none that a run on this host would come to: a batch of 65536 tokens
// is correct, and takes all memory to prove it.
func (p Problem) wouldTry(c Config) error {
	p.MaxThreads = 0
	p = p.in(c.Layout)
	for _, r := range Regimes {
		arm := c.Arm(r)
		if arm == p.Default().Arm(r) || arm == p.Heuristic().Arm(r) {
			continue
		}
		space, err := p.Space(r)
		if err != nil {
			return err
		}
		if _, inside := p.pointOf(space, arm); !inside {
			return fmt.Errorf("its %s setting is none that this host would try: %s", r, arm)
		}
	}
	return nil
}

// fleetPatience is how long a run asks the fleet, or gives to it, whatever the fleet's own timeouts are. Tests, whose disks
// are busy, have more.
var fleetPatience = 2 * time.Second

// claimTTL is after how long the class is free again if this host dies.
const claimTTL = 30 * time.Second

// join asks the fleet, before anything is measured, what hosts of this class know, and takes the turn to tune for them.
// Where another host has it, it waits for that one's result for as long as the budget says, which is not counted.
func (r *tune) join(ctx context.Context) {
	r.recall()
	if r.tuner.opt.Fleet == nil || !r.pull(ctx) {
		return
	}
	if r.bounded() { // what it finds holds for less than the class
		return
	}
	r.takeTurn(ctx)
	if r.ahead == "" || len(r.hints) > 0 || r.budget.FleetWait <= 0 {
		return
	}
	r.wait(ctx)
}

// recall takes up what was received earlier, and checked, by the fleet's pull.
func (r *tune) recall() {
	for _, c := range r.problem.learned(r.published()) {
		if c.ok && c.received {
			r.hints = append(r.hints, hint{config: c.plan.Config, proof: c.proof})
		}
	}
}

// pull adds the configs of this class to the hints, those for this run's objective first. It is false where the fleet
// cannot be used.
func (r *tune) pull(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, fleetPatience)
	defer cancel()
	r.tell(Event{Phase: "fleet", Text: "asking what hosts of this class have learned"})
	key := r.problem.fleetKey()
	entries, report, err := r.tuner.opt.Fleet.Pull(ctx, fleet.Query{Class: key.Class, Model: key.Model, Signature: key.Signature})
	if err != nil {
		r.fleetless(ctx, err)
		return false
	}
	if len(report.Refused) > 0 {
		r.heed([]error{fmt.Errorf("fleet: %d entries were left out, the first: %s", len(report.Refused), report.Refused[0])})
	}
	for _, ours := range []bool{true, false} {
		for _, e := range entries {
			if (e.Objective == key.Objective) == ours {
				r.consider(e)
			}
		}
	}
	return true
}

// consider makes an entry a hint if it may be one.
func (r *tune) consider(e fleet.Entry) {
	h, err := r.problem.hint(e)
	if err == nil {
		if regime, bad := h.config.tainted(r.wrong); bad {
			err = fmt.Errorf("its %s setting was found to give wrong results here", regime)
		}
	}
	if err != nil {
		r.heed([]error{fmt.Errorf("fleet: a config was left out: %w", err)})
		return
	}
	r.hints = append(r.hints, h)
}

// fleetless takes down, once, why the run goes on without the fleet.
func (r *tune) fleetless(ctx context.Context, err error) {
	if r.alone {
		return
	}
	r.alone = true
	if ctx.Err() != context.Canceled { // interrupted, which the certificate says
		r.warn("without the fleet: " + err.Error())
	}
}

// takeTurn makes this host the one of its class that tunes, or learns which one does.
func (r *tune) takeTurn(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, fleetPatience)
	defer cancel()
	claim, err := r.tuner.opt.Fleet.Claim(asking, r.problem.fleetKey(), fmt.Sprintf("run-%016x", r.run), claimTTL)
	var other *fleet.ClaimedError
	switch {
	case errors.As(err, &other):
		r.ahead = other.Holder
	case err != nil:
		r.fleetless(ctx, err)
	default:
		r.claim, r.ahead = claim, ""
		if len(r.hints) == 0 { // whoever had the turn may have shared its result since this run asked
			r.pull(ctx)
		}
	}
}

// wait waits for the result of the host that has the turn. If it gives up, this one takes over.
func (r *tune) wait(ctx context.Context) {
	began := r.now()
	waiting, cancel := context.WithTimeout(ctx, r.budget.FleetWait)
	defer cancel()
	r.tell(Event{Phase: "fleet", Text: fmt.Sprintf("%s tunes for this class: waiting for its result for up to %v", r.ahead, r.budget.FleetWait)})
	entry, err := r.tuner.opt.Fleet.Await(waiting, r.problem.fleetKey())
	waited := r.now().Sub(began)
	r.started, r.deadline = r.started.Add(waited), r.deadline.Add(waited)
	switch {
	case err == nil:
		r.consider(entry)
		r.shorten("another host of this class was faster: half the budget is enough to refine and confirm its result")
	case errors.Is(err, fleet.ErrFree):
		r.takeTurn(ctx)
	case ctx.Err() != nil: // interrupted, which the certificate says
	case waiting.Err() != nil:
		r.warn(fmt.Sprintf("fleet: %s, which tunes for this class, had no result within %v", r.ahead, r.budget.FleetWait))
	default:
		r.fleetless(ctx, err)
	}
}

// late asks once more before a duel where another host was tuning when this run began, and had no result yet.
func (r *tune) late(ctx context.Context) {
	if r.ahead != "" && len(r.hints) == 0 && !r.alone && ctx.Err() == nil {
		r.pull(ctx)
	}
}

// leave gives the turn back. Where that fails, it falls with its lease.
func (r *tune) leave() {
	if r.claim == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), fleetPatience)
	defer cancel()
	r.claim.Release(ctx)
}

// give offers the fleet what this run decided.
func (r *tune) give(cert *Certificate, l history.Learned) {
	ctx, cancel := context.WithTimeout(context.Background(), fleetPatience)
	defer cancel()
	var outcome fleet.Outcome
	entry, err := cert.shared(l)
	if err == nil {
		outcome, err = r.tuner.opt.Fleet.Push(ctx, entry)
	}
	if err != nil {
		r.fleetless(ctx, err)
		return
	}
	cert.Fleet = fmt.Sprintf("configs of this class to begin with: %d; the result was %s", len(r.hints), outcome)
}

// hinted are the arms of a regime that the hints name and this run may try.
func (s *search) hinted() []target.Arm {
	var list []target.Arm
	for _, h := range s.hints {
		arm := h.config.Arm(s.regime)
		if _, proven := h.proof.proof(s.regime); !proven || slices.Contains(list, arm) {
			continue
		}
		if _, inside := s.problem.pointOf(s.space, arm); inside {
			list = append(list, arm)
		}
	}
	return list
}
