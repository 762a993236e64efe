package tuner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/history/fleet"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// Received is what became of a config that another host of this class proved: it was checked here, bit for bit and then
// in pairs with the default.
type Received struct {
	Objective   Objective     `json:"objective"`
	Hosts       int           `json:"hosts"` // that contributed to it; 0 = only this one, which took it back
	MeasuredAt  time.Time     `json:"measured_at"`
	Evaluations int           `json:"evaluations"`
	Verdict     Outcome       `json:"verdict"` // CONFIRMED; INCONCLUSIVE: right, and not proven slower; FAILED: not to be used; PROPOSED
	Reason      string        `json:"reason,omitempty"`
	CheckedAt   time.Time     `json:"checked_at,omitzero"` // on this host; zero if it was not measured
	Regimes     []RegimeCheck `json:"regimes,omitempty"`
	Config      string        `json:"config"` // stands for what was checked, so that it is checked once
}

// Reception is what a pull brought.
type Reception struct {
	Model    string     `json:"model"`
	Class    string     `json:"class"`
	Received []Received `json:"received"`
	Warnings []string   `json:"warnings"`
	Plan     Plan       `json:"plan"` // the answer from now on
}

// ErrNothingShared means that the fleet has no config for a host of this class.
var ErrNothingShared = errors.New("the fleet has nothing for this class of hosts, model and build")

// originField is in the envelope of what was received, so that it never takes the place of what was measured here, and a
// config that was refused not that of one that is in use.
const originField = "origin"

// Receive asks the fleet for what other hosts of this class learned about a model, and checks it on this one within
// budget: whether it is possible here, right bit for bit, and not slower than the default. What passes is kept, and Plan
// answers with it where this host measured nothing itself. What does not is kept too, as refused, and is not checked again
// under the same conditions.
func (t *Tuner) Receive(ctx context.Context, name string, budget time.Duration) (*Reception, error) {
	if err := t.may("pull", ModeTune); err != nil {
		return nil, err
	}
	if t.opt.Fleet == nil {
		return nil, fmt.Errorf("pull: %w", errNoFleet)
	}
	if t.opt.Store == "" {
		return nil, errors.New("pull: no store to keep it in: name a directory")
	}
	r, err := t.newTune(ctx, name, Budget{Time: budget})
	if err != nil {
		return nil, err
	}
	key := r.problem.fleetKey()
	entries, report, err := t.opt.Fleet.Pull(ctx, fleet.Query{Class: key.Class, Model: key.Model, Signature: key.Signature})
	if err != nil {
		return nil, err
	}
	got := &Reception{Model: r.problem.Model.Name, Class: key.Class, Received: []Received{}, Warnings: append([]string{}, report.Refused...)}
	err = r.receive(ctx, entries, got)
	got.Warnings = append(got.Warnings, r.warnings...)
	if err == nil && len(entries) == 0 {
		err = fmt.Errorf("pull: %s: %w", got.Model, ErrNothingShared)
	}
	if err != nil {
		return got, err
	}
	t.forget()
	got.Plan, err = t.Plan(ctx, name)
	return got, err
}

// hintBlocks are the most that the check of a hint takes: a third of a duel, since no gain has to be proven, only a loss
// not to be missed.
const hintBlocks = duelBlocks / 3

// receive checks what is possible here and was not checked before.
func (r *tune) receive(ctx context.Context, entries []fleet.Entry, got *Reception) error {
	snapshot := r.published()
	r.wrong = r.problem.wrong(snapshot)
	var hints []hint
	for _, e := range entries {
		h, done := r.admit(e, snapshot)
		if done != nil {
			got.Received = append(got.Received, *done)
			continue
		}
		hints = append(hints, h)
	}
	if len(hints) == 0 {
		return nil
	}
	if err := r.openStore(ctx); err != nil {
		return err
	}
	unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	for i, h := range hints {
		end := r.now().Add(r.deadline.Sub(r.now()) / time.Duration(len(hints)-i))
		done, err := r.examine(ctx, h, end)
		if err != nil {
			return err
		}
		got.Received = append(got.Received, done)
	}
	return nil
}

// receivedAs is what an entry is called in reports.
func receivedAs(e fleet.Entry) Received {
	return Received{
		Objective: Objective(e.Objective), Hosts: e.Hosts(), MeasuredAt: e.MeasuredAt, Evaluations: e.Evaluations,
		Config: shortHash(append([]byte(e.Objective+" "), e.Config...)),
	}
}

// refuse is for what cannot be used. What is said of it may be in the words of whoever wrote to the fleet, and is cut short.
func (r *Received) refuse(err error) { r.Verdict, r.Reason = Failed, fmt.Sprintf("%.300s", err) }

// accepted reports whether it may be used.
func (r Received) accepted() bool { return r.Verdict != Failed && r.Verdict != Proposed }

// admit decides what needs no measuring: a config that is impossible here, and one that was checked before.
func (r *tune) admit(e fleet.Entry, snapshot *history.Snapshot) (hint, *Received) {
	done := receivedAs(e)
	if earlier, ok := r.problem.checked(done.Config, snapshot); ok {
		return hint{}, &earlier
	}
	h, err := r.problem.hint(e)
	if err == nil {
		if regime, bad := h.config.tainted(r.wrong); bad {
			err = fmt.Errorf("its %s setting was found to give wrong results here", regime)
		} else if back, ok := r.problem.takenBack(h.config, snapshot); ok {
			err = fmt.Errorf("it was taken back here on %s and can only return by a tune: %s", back.CheckedAt.Local().Format(time.DateOnly), back.Reason)
		}
	}
	if err != nil {
		done.refuse(err)
		return h, &done
	}
	return h, nil
}

// checked returns how a config was checked before, on this host as it is now.
func (p Problem) checked(config string, snapshot *history.Snapshot) (Received, bool) {
	for _, c := range p.learned(snapshot) {
		if !c.received || c.proof.Received.Config != config || len(differing(fields(p.Host.Envelope()), c.entry.Envelope)) > 0 ||
			len(differing(fields(p.Host.Condition()), c.entry.Condition)) > 0 {
			continue
		}
		return *c.proof.Received, true
	}
	return Received{}, false
}

// refusedSince returns the check that refused a received config after it was accepted, which conditions may have changed
// for: the last check counts.
func (c candidate) refusedSince(list []candidate) (Received, bool) {
	if !c.received {
		return Received{}, false
	}
	for _, other := range list {
		if !other.received {
			continue
		}
		if r := *other.proof.Received; r.Verdict == Failed && r.Config == c.proof.Received.Config && r.CheckedAt.After(c.proof.Received.CheckedAt) {
			return r, true
		}
	}
	return Received{}, false
}

// examine measures a hint beside the default until end, and keeps the outcome. One that could not be verified in that time
// is neither accepted nor refused.
func (r *tune) examine(ctx context.Context, h hint, end time.Time) (Received, error) {
	measuring, cancel := r.until(ctx, end)
	defer cancel()
	r.problem.Layout = h.config.Layout // it may be one that no run would try of its own accord
	if err := r.open(measuring); err != nil {
		if ctx.Err() != nil {
			return Received{}, ctx.Err()
		}
		_, late := r.outOfTime(ctx, measuring, err)
		return Received{}, late
	}
	defer r.target.Close()
	done := receivedAs(h.entry)
	done.Verdict, done.CheckedAt = Confirmed, r.tuner.opt.Now().UTC()
	for i, regime := range Regimes {
		until := r.now().Add(end.Sub(r.now()) / time.Duration(len(Regimes)-i))
		check := r.check(measuring, regime, h.config.Arm(regime), hintBlocks, until)
		done.Regimes = append(done.Regimes, check)
		done.Verdict = worse(done.Verdict, check.Verdict)
		if ctx.Err() != nil {
			return done, ctx.Err()
		}
		if !check.verified && check.Verdict != Failed {
			return done, fmt.Errorf("pull: %w: %s could not be verified: allow more than %v", ErrNoBudget, regime, r.budget.Time)
		}
		if check.Verdict == Failed {
			done.Reason = string(regime) + ": " + check.failure()
			break
		}
	}
	return done, r.keepReceived(ctx, h, done)
}

// failure is why a check failed.
func (c RegimeCheck) failure() string {
	if c.Reason != "" {
		return c.Reason
	}
	return fmt.Sprintf("%.3f times as fast as the default", c.Ratio.Estimate)
}

// keepReceived stores how a hint was checked, in the place of an earlier one with the same outcome.
func (r *tune) keepReceived(ctx context.Context, h hint, done Received) error {
	proof := h.proof
	proof.Wrong, proof.Received = r.wrong, &done // what another host found wrong is no finding of this one
	document, err := json.Marshal(proof)
	if err != nil {
		panic("tuner: a certificate always marshals")
	}
	config, err := json.Marshal(h.config)
	if err != nil {
		panic("tuner: a config always marshals")
	}
	host := r.problem.Host
	return r.store.Publish(ctx, history.Learned{
		Host: r.problem.fingerprint(), Model: r.problem.Model.Fingerprint(), ModelName: r.problem.Model.Name,
		Target: h.entry.Target, Objective: h.entry.Objective, Signature: r.problem.domain().signature(),
		Identity: fields(r.problem.identity()), Envelope: originated(host, done), Condition: fields(host.Condition()),
		Config: config, Certificate: document, MeasuredAt: h.entry.MeasuredAt, Evaluations: h.entry.Evaluations,
	})
}

// originated is the envelope under which a received config is kept: what was refused, or only proposed, lies beside what is in use.
func originated(host probe.Host, done Received) map[string]string {
	envelope := fields(host.Envelope())
	switch done.Verdict {
	case Failed:
		envelope[originField] = "fleet, refused"
	case Proposed:
		envelope[originField] = "fleet, proposed"
	default:
		envelope[originField] = "fleet"
	}
	return envelope
}

// sentence says where a received config comes from and how it was checked here. measured is what is known of its run.
func (r Received) sentence(measured string) string {
	hosts := "1 host"
	if r.Hosts > 1 {
		hosts = fmt.Sprintf("%d hosts", r.Hosts)
	}
	text := fmt.Sprintf("from the fleet: %s by %s of this class", measured, hosts)
	if r.Hosts == 0 {
		text = measured + " on this host"
	}
	if r.Verdict == Proposed {
		return text + "; not checked here, and a proposal only: " + r.Reason
	}
	day := r.CheckedAt.Local().Format(time.DateOnly)
	if r.Verdict == Failed {
		return text + "; refused here on " + day + ": " + r.Reason
	}
	var found []string
	for _, c := range r.Regimes {
		if c.Ratio.High > 0 {
			found = append(found, fmt.Sprintf("%s %.2fx", c.Regime, c.Ratio.Estimate))
		}
	}
	text += "; checked here on " + day
	if len(found) > 0 {
		text += ": " + strings.Join(found, ", ") + " the default"
	}
	return text
}
