package tuner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// RolledBack says why an earlier config answers again.
type RolledBack struct {
	Run string    `json:"run"` // whose config was taken back
	By  string    `json:"by"`
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}

// Rollback takes back what was learned for a model on this host: the config that was certified before it answers again, or
// the default where there is none. The config that was taken back can only return by being certified anew, on fresh samples.
// An operator's pin stays: nothing is taken back under it. wrong are the regimes whose setting gave wrong results: no config
// with one of these is the answer any more.
func (t *Tuner) Rollback(ctx context.Context, model, by, why string, wrong ...target.Regime) (Plan, error) {
	if t.opt.Store == "" {
		return Plan{}, errors.New("rollback: no store that holds what was learned: name a directory")
	}
	p, err := t.problem(ctx, model)
	if err != nil {
		return Plan{}, err
	}
	snapshot, err := t.snapshot()
	if err != nil {
		return Plan{}, fmt.Errorf("rollback %s: %w", p.Model.Name, err)
	}
	if p, err = t.answeringForSure(ctx, p, snapshot); err != nil {
		return Plan{}, fmt.Errorf("rollback %s: %w", p.Model.Name, err)
	}
	bad, err := p.answer(snapshot)
	if err != nil {
		return Plan{}, fmt.Errorf("rollback %s: %w", p.Model.Name, err)
	}
	store, _, err := t.openStore(ctx)
	if err != nil {
		return Plan{}, err
	}
	arms := p.wrong(snapshot)
	for _, r := range wrong {
		arms = append(arms, bad.plan.Config.Arm(r))
	}
	good, err := p.before(ctx, store, snapshot, bad, arms)
	if err != nil {
		return Plan{}, fmt.Errorf("rollback %s: %w", p.Model.Name, err)
	}
	back := RolledBack{Run: fmt.Sprintf("%016x", bad.entry.Run), By: by, Why: why, At: t.opt.Now().UTC()}
	good.proof.RolledBack = &back
	defer t.forget()
	if err := store.Publish(ctx, back.refuse(bad, arms)); err != nil { // first: who is killed in between has refused too much
		return Plan{}, err
	}
	for _, l := range p.entries(snapshot) { // the same config may have been learned for several objectives
		if l.Host == p.fingerprint() && bytes.Equal(l.Config, bad.entry.Config) && !strings.HasPrefix(l.Envelope[originField], backOrigin) {
			if err := store.Publish(ctx, good.instead(l)); err != nil {
				return Plan{}, err
			}
		}
	}
	t.forget()
	return t.Plan(ctx, model)
}

// answer is the learned config that answers now. Where something else does, the error says what.
func (p Problem) answer(snapshot *history.Snapshot) (candidate, error) {
	for _, c := range p.candidates(snapshot) {
		switch {
		case !c.ok:
			continue
		case c.source == Pinned:
			return c, fmt.Errorf("it is %s; unpin it first", c.reason)
		case c.entry == nil || c.entry.Host != p.fingerprint():
			return c, ErrNothingLearned
		}
		return c, nil
	}
	return candidate{}, ErrNothingLearned
}

// certified is a config with its proof.
type certified struct {
	config Config
	proof  Certificate
	run    uint64
	at     time.Time
}

// backOrigin marks, in an envelope, what was taken back, followed by the hash of its config.
const backOrigin = "rolled back "

// refuse is bad as one that is never the answer: it tells a pull of the fleet not to bring the config again, and everybody
// which arms are wrong. It lies beside what answers.
func (b RolledBack) refuse(bad candidate, wrong []target.Arm) history.Learned {
	l, proof := *bad.entry, bad.proof
	var config Config // as it was learned, without what is pinned now
	if err := json.Unmarshal(l.Config, &config); err != nil {
		panic("tuner: a candidate's config parses")
	}
	received := Received{
		Objective: Objective(l.Objective), MeasuredAt: l.MeasuredAt, Evaluations: l.Evaluations,
		Verdict: Failed, Reason: fmt.Sprintf("rolled back by %s: %s", b.By, b.Why), CheckedAt: b.At,
	}
	if bad.received {
		received.Hosts, received.Config = proof.Received.Hosts, proof.Received.Config
	}
	proof.Received, proof.Wrong = &received, wrong
	l.Envelope = maps.Clone(l.Envelope)
	if l.Envelope == nil {
		l.Envelope = map[string]string{}
	}
	l.Envelope[originField] = backOrigin + config.Hash()
	document, err := json.Marshal(proof)
	if err != nil {
		panic("tuner: a certificate always marshals")
	}
	l.Certificate = document
	return l
}

// takenBack is why a config was rolled back on this host, if it was and no run has certified it since.
func (p Problem) takenBack(c Config, snapshot *history.Snapshot) (why Received, ok bool) {
	list := p.learned(snapshot)
	for _, back := range list {
		if back.received && back.entry.Envelope[originField] == backOrigin+c.Hash() {
			why, ok = *back.proof.Received, true
		}
	}
	for _, again := range list {
		if ok && again.ok && again.source == Measured && again.plan.Config.equal(c) && again.entry.MeasuredAt.After(why.CheckedAt) {
			return Received{}, false
		}
	}
	return why, ok
}

// before is what was certified last before bad, the default where nothing else was.
func (p Problem) before(ctx context.Context, store *history.Store, snapshot *history.Snapshot, bad candidate, wrong []target.Arm) (certified, error) {
	runs, err := store.Runs(ctx)
	if err != nil && !errors.Is(err, history.ErrCorrupt) { // the others come along with the damaged ones
		return certified{}, err
	}
	was := bad.proof.Best.Config
	for i := len(runs) - 1; i >= 0; i-- {
		run := runs[i]
		if run.ID >= bad.entry.Run || run.Host != p.fingerprint() || run.Model != p.Model.Fingerprint() || run.Target != p.Target {
			continue
		}
		c := certified{run: run.ID, at: run.Finished}
		if json.Unmarshal(run.Certificate, &c.proof) != nil || c.proof.Verdict == measure.Inconclusive {
			continue
		}
		if c.config = c.proof.Best.Config; c.config.equal(was) || p.validate(c.config) != nil {
			continue
		}
		if _, tainted := c.config.tainted(wrong); tainted {
			continue
		}
		if _, back := p.takenBack(c.config, snapshot); back {
			continue
		}
		return c, nil
	}
	return p.byDefault(bad, was)
}

// byDefault is the default, against which every other config was proven, in the place of bad.
func (p Problem) byDefault(bad candidate, was Config) (certified, error) {
	c := certified{config: p.completed(p.Default()), proof: bad.proof, run: bad.entry.Run, at: bad.entry.MeasuredAt}
	if c.config.equal(was) {
		return c, errors.New("the default answers already: there is nothing before it")
	}
	c.proof.Verdict, c.proof.Best = measure.Keep, Rated{Config: c.config}
	c.proof.Ratio = Ratio{Estimate: 1, Low: 1, High: 1, Confidence: bad.proof.Ratio.Confidence}
	c.proof.Layouts = nil
	c.proof.Regimes = nil
	c.proof.Inherited, c.proof.Received = nil, nil
	for _, r := range Regimes {
		if v, ok := bad.proof.proof(r); ok {
			v.Verdict, v.Default = measure.Keep, c.config.Arm(r)
			c.proof.Inherited = append(c.proof.Inherited, v)
		}
	}
	return c, nil
}

// instead is l with this config, under l's key.
func (c certified) instead(l history.Learned) history.Learned {
	config, err := json.Marshal(c.config)
	if err != nil {
		panic("tuner: a config always marshals")
	}
	proof, err := json.Marshal(c.proof)
	if err != nil {
		panic("tuner: a certificate always marshals")
	}
	l.Config, l.Certificate, l.Run, l.MeasuredAt, l.Evaluations = config, proof, c.run, c.at, c.proof.Evaluations+c.proof.Known
	return l
}

// equal reports whether two configs say the same.
func (c Config) equal(other Config) bool { return c.Hash() == other.Hash() }

// Hash is 16 hex digits that stand for everything a config says.
func (c Config) Hash() string {
	data, err := json.Marshal(c)
	if err != nil {
		panic("tuner: a config always marshals")
	}
	return shortHash(data)
}

// Reprobe makes the next answer look at the host again. What was answered stays valid.
func (t *Tuner) Reprobe() {
	t.mu.Lock()
	t.host = t.opt.Host
	clear(t.plans)
	t.mu.Unlock()
}
