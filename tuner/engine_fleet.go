package tuner

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/history/fleet"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// sharedPlan is what other hosts are told of how an engine runs best: settings of knobs by name. There is no field for a
// command, a path or a variable, and a document that has one is refused: what runs is only ever what the receiving host knows.
type sharedPlan struct {
	Engine string      `json:"engine"`
	Build  string      `json:"build"` // as the engine says it, for people
	Plan   engine.Plan `json:"plan"`
}

// sharedProof is the certificate of an engine's run as a fleet takes it: the verdict and what stands behind it.
type sharedProof struct {
	Verdict     measure.Verdict `json:"verdict"`
	Objective   string          `json:"objective"`
	Target      string          `json:"target"`
	Ratio       engine.Ratio    `json:"ratio"`
	NoiseFloor  float64         `json:"noise_floor"`
	Evaluations int             `json:"evaluations"`
	Regimes     []sharedRegime  `json:"regimes"`
}

type sharedRegime struct {
	Regime  string          `json:"regime"`
	Verdict measure.Verdict `json:"verdict"`
	Ratio   engine.Ratio    `json:"ratio"`
	Pairs   int             `json:"duel_blocks"`
}

// sharedOfEngine is what other hosts are told of what was learned of an engine: under the program that was measured, not under
// the version that it says it has, which two builds with different flags have in common.
func sharedOfEngine(l history.Learned) (e fleet.Entry, err error) {
	var config engine.Learned
	var cert EngineCertificate
	if err := errors.Join(json.Unmarshal(l.Config, &config), json.Unmarshal(l.Certificate, &cert)); err != nil {
		return e, fmt.Errorf("a learned config does not parse: %w", err)
	}
	if config.Program == "" {
		return e, errors.New("the program that was measured is not known: tune again")
	}
	if err := tellable(config); err != nil {
		return e, err
	}
	proof := sharedProof{
		Verdict: cert.Verdict, Objective: cert.Objective, Target: cert.Target, Ratio: cert.Ratio, NoiseFloor: cert.NoiseFloor, Evaluations: cert.Evaluations,
	}
	for _, regime := range slices.Sorted(maps.Keys(config.Plan)) {
		r := sharedRegime{Regime: regime, Verdict: cert.Verdict}
		if cert.Search != nil {
			r.Ratio, r.Pairs = cert.Search.Regimes[regime], cert.Search.Pairs
		}
		proof.Regimes = append(proof.Regimes, r)
	}
	l.Signature, l.Identity, l.Envelope, l.ModelName = config.Program, classFields(l.Identity, l.Envelope), nil, ""
	if l.Config, err = json.Marshal(sharedPlan{config.Engine, config.Build, config.Plan}); err == nil {
		l.Certificate, err = json.Marshal(proof)
	}
	if err != nil {
		return e, err
	}
	return fleet.FromLearned(l)
}

// tellable reports what in a config is not for other hosts.
func tellable(config engine.Learned) error {
	if config.Engine != Exec {
		return config.Plan.Foreign()
	}
	for _, name := range slices.Sorted(maps.Keys(config.Plan[engine.FigureRegime])) { // a spec's knobs and values are anything
		if strings.ContainsAny(config.Plan[engine.FigureRegime][name], `/\`) {
			return fmt.Errorf("%s: its value may be the name of a file, and such are not told", name)
		}
	}
	return nil
}

// giveEngine offers the fleet what a run decided.
func (r *engineRun) giveEngine(cert *EngineCertificate, l history.Learned) {
	ctx, cancel := context.WithTimeout(context.Background(), fleetPatience)
	defer cancel()
	proof, err := json.Marshal(cert)
	if err != nil {
		r.warn("not shared: " + err.Error())
		return
	}
	l.Certificate = proof
	entry, err := sharedOfEngine(l)
	if err != nil {
		r.warn("not shared: " + err.Error())
		return
	}
	outcome, err := r.tuner.opt.Fleet.Push(ctx, entry)
	if err != nil {
		r.fleetless(ctx, err)
		return
	}
	cert.Fleet = "the result was " + string(outcome)
}

// EngineReception is what a pull for an engine brought.
type EngineReception struct {
	Model    string     `json:"model"`
	Class    string     `json:"class"`
	Received []Received `json:"received"`
	Warnings []string   `json:"warnings"`
	Plan     EnginePlan `json:"plan"` // the answer from now on
}

// ReceiveEngine asks the fleet what other hosts of this class learned of an engine with a model file, and checks it on this one
// within b.Time: that each of its settings is one that this host's engine has and a search here would try, and in pairs that it is
// no slower than the engine's own. Which program runs is said by b, else by what was tuned here before, never by the fleet; for
// engine exec it is the spec that model names, and only what was learned with this very spec is asked for. Where there is no
// program, or none whose build can be told, what is there is kept as a proposal and answers nothing.
func (t *Tuner) ReceiveEngine(ctx context.Context, model string, b EngineBudget) (*EngineReception, error) {
	if err := t.may("pull", ModeTune); err != nil {
		return nil, err
	}
	if t.opt.Fleet == nil {
		return nil, fmt.Errorf("pull: %w", errNoFleet)
	}
	if t.opt.Store == "" {
		return nil, errors.New("pull: no store to keep it in: name a directory")
	}
	snapshot, err := t.snapshot()
	if err != nil {
		return nil, err
	}
	r, err := t.newEngineRun(ctx, model, b)
	if err != nil {
		return nil, err
	}
	unknown := r.findProgram(ctx, snapshot)
	class := fleet.Class(classFields(r.identity, fields(r.host.Envelope())))
	entries, report, err := t.opt.Fleet.Pull(ctx, fleet.Query{Class: class, Model: r.model.fingerprint})
	if err != nil {
		return nil, err
	}
	got := &EngineReception{Model: r.model.name, Class: class, Received: []Received{}, Warnings: append([]string{}, report.Refused...)}
	entries, others := r.ofProgram(entries)
	if others > 0 {
		got.Warnings = append(got.Warnings, fmt.Sprintf("fleet: %d configs are of other builds than %s and were left out", others, r.asked.Command))
	}
	if len(entries) == 0 {
		return got, fmt.Errorf("pull: %s: %w", got.Model, ErrNothingShared)
	}
	err = r.receiveEngine(ctx, entries, snapshot, unknown, got)
	got.Warnings = append(got.Warnings, r.warnings...)
	if err != nil {
		return got, err
	}
	got.Plan, err = t.PlanEngine(ctx, model, b.Engine)
	return got, err
}

// findProgram looks for the program that is to be measured: the one that was asked for, else one that was tuned here with this
// engine. It returns why there is none.
func (r *engineRun) findProgram(ctx context.Context, snapshot *history.Snapshot) (unknown error) {
	if r.program, unknown = engine.Program(ctx, r.command()); unknown == nil || r.asked.Engine == Exec || snapshot == nil || !errors.Is(unknown, exec.ErrNotFound) {
		return unknown
	}
	for _, l := range snapshot.Learned {
		var config engine.Learned
		if l.Host != r.host.Fingerprint() || l.Target != r.target() || json.Unmarshal(l.Config, &config) != nil || !filepath.IsAbs(config.Command) {
			continue // a relative path names another program wherever this one runs
		}
		if program, err := engine.Program(ctx, config.Command); err == nil {
			r.program, r.asked.Command = program, config.Command
			return nil
		}
	}
	return unknown
}

// ofProgram are the entries that may be checked with the program, or all of the engine where there is none, and how many are
// of other builds.
func (r *engineRun) ofProgram(entries []fleet.Entry) (list []fleet.Entry, others int) {
	for _, e := range entries {
		switch {
		case e.Target != r.target():
		case r.program != "" && e.Signature != r.program:
			others++
		default:
			list = append(list, e)
		}
	}
	return list, others
}

// arrival is a config of an engine that is to be checked here.
type arrival struct {
	entry   fleet.Entry
	learned engine.Learned
	done    Received
}

// receiveEngine checks what was not checked before, and keeps how that came out.
func (r *engineRun) receiveEngine(ctx context.Context, entries []fleet.Entry, snapshot *history.Snapshot, unknown error, got *EngineReception) error {
	open := r.toCheck(entries, snapshot, got)
	if len(open) == 0 {
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
	var undecided error
	for i, a := range open {
		err := r.decide(ctx, &a, unknown, r.deadline.Sub(r.now())/time.Duration(len(open)-i))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil: // which says nothing of the others
			undecided = cmp.Or(undecided, fmt.Errorf("pull: %s: %w", a.entry.Objective, err))
		default:
			got.Received = append(got.Received, a.done)
		}
	}
	if undecided != nil && slices.ContainsFunc(got.Received, Received.accepted) {
		r.warn(undecided.Error())
		return nil
	}
	return undecided
}

// decide checks a config within a budget, and keeps how that came out.
func (r *engineRun) decide(ctx context.Context, a *arrival, unknown error, budget time.Duration) error {
	if unknown != nil {
		a.done.Verdict, a.done.Reason = Proposed, unknown.Error()
	} else if err := r.examineEngine(ctx, a, budget); err != nil {
		return err
	}
	if a.done.Verdict == Failed && a.done.CheckedAt.IsZero() {
		return nil // nothing was measured: it costs nothing to look again
	}
	return r.keepReceivedEngine(ctx, *a)
}

// toCheck are the entries that need more than a look: what was checked before, and what is of no use here, takes no share of the time.
func (r *engineRun) toCheck(entries []fleet.Entry, snapshot *history.Snapshot, got *EngineReception) (open []arrival) {
	for _, e := range entries {
		a := arrival{entry: e, done: receivedAs(e)}
		if earlier, ok := r.checkedBefore(a.done.Config, e.Signature, snapshot); ok {
			got.Received = append(got.Received, earlier)
			continue
		}
		var err error
		if a.learned, err = r.admitted(e); err != nil {
			a.done.refuse(err)
			got.Received = append(got.Received, a.done)
			continue
		}
		open = append(open, a)
	}
	return open
}

// checkedBefore returns how a config was checked before with a program, under these limits and conditions.
func (r *engineRun) checkedBefore(config, program string, snapshot *history.Snapshot) (Received, bool) {
	if snapshot == nil {
		return Received{}, false
	}
	for _, l := range learnedOfEngine(snapshot, r.host, r.model, r.target()) {
		done := l.cert.Received
		if done == nil || done.Config != config || done.Verdict == Proposed || l.entry.Signature != program {
			continue
		}
		if len(differing(fields(r.host.Envelope()), l.entry.Envelope)) == 0 && len(differing(fields(r.host.Condition()), l.entry.Condition)) == 0 {
			return *done, true
		}
	}
	return Received{}, false
}

// admitted reads what a fleet sent. The error says why it is of no use here.
func (r *engineRun) admitted(e fleet.Entry) (l engine.Learned, err error) {
	var shared sharedPlan
	dec := json.NewDecoder(bytes.NewReader(e.Config))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&shared); err != nil {
		return l, fmt.Errorf("its config does not parse: %w", err)
	}
	if shared.Engine != r.asked.Engine || len(shared.Build) > maxBuild || len(shared.Plan) == 0 {
		return l, fmt.Errorf("its config is of engine %.40q, build %.40q, with %d settings: want engine %s, a build of at most %d bytes, and a setting for each regime",
			shared.Engine, shared.Build, len(shared.Plan), r.asked.Engine, maxBuild)
	}
	if _, ours := shared.Plan[engine.FigureRegime]; r.asked.Engine == Exec && !(ours && len(shared.Plan) == 1) {
		return l, fmt.Errorf("its config has %d settings: want one, of %s", len(shared.Plan), engine.FigureRegime)
	}
	if r.asked.Engine != Exec {
		if err := shared.Plan.Foreign(); err != nil {
			return l, err
		}
	}
	if _, err := r.asked.of(e.Objective); err != nil {
		return l, err
	}
	return engine.Learned{Engine: shared.Engine, Build: shared.Build, Program: e.Signature, Model: r.model.path, Plan: shared.Plan}, nil
}

// maxBuild is more than any program calls its build.
const maxBuild = 120

// maxRequest is more tokens than a check is worth.
const maxRequest = 1 << 16

// of is the budget for the request of an objective, "p512+n128".
func (b EngineBudget) of(objective string) (EngineBudget, error) {
	b.Objective = ObjectiveMixed
	if b.Engine != Exec {
		_, err := fmt.Sscanf(objective, "p%d+n%d", &b.Prompt, &b.Generate)
		if err != nil || b.Prompt < 0 || b.Generate < 0 || b.Prompt+b.Generate == 0 || b.Prompt > maxRequest || b.Generate > maxRequest {
			return b, fmt.Errorf("its objective is %.40q: want a request such as p512+n128, of at most %d tokens each", objective, maxRequest)
		}
	}
	if b.request() != objective {
		return b, fmt.Errorf("its objective is %.40q: want %s", objective, b.request())
	}
	return b, nil
}

// examineEngine measures what was received beside the engine's own settings.
func (r *engineRun) examineEngine(ctx context.Context, a *arrival, budget time.Duration) error {
	if isOwn(a.learned.Plan) {
		build := a.learned.Build
		a.learned = r.learnedPlan(&engine.Certificate{}, a.learned.Plan)
		a.learned.Build = build
		a.done.Verdict, a.done.CheckedAt, a.done.Reason = Confirmed, r.now().UTC(), "the engine's own settings, with which nothing changes"
		return nil
	}
	asked, err := r.asked.of(a.entry.Objective)
	if err != nil {
		return err
	}
	if r.bench, err = r.engine(asked); err != nil {
		return err
	}
	cert, err := engine.Check(ctx, r.bench, a.learned.Plan, r.options(budget))
	if errors.Is(err, engine.ErrUnfit) {
		a.done.refuse(err)
		return nil
	}
	if err != nil {
		return err
	}
	a.learned = r.learnedPlan(cert, cert.Closest)
	return r.judge(cert, &a.done, budget)
}

// isOwn reports whether a plan sets nothing.
func isOwn(p engine.Plan) bool {
	for _, s := range p {
		if len(s) > 0 {
			return false
		}
	}
	return true
}

// judge says what a check showed. One that ended early, for want of time, showed nothing.
func (r *engineRun) judge(cert *engine.Certificate, done *Received, budget time.Duration) error {
	done.CheckedAt = r.now().UTC()
	last := cert.Runs[len(cert.Runs)-1]
	ratio := Ratio(cert.Ratio)
	switch {
	case isOwn(cert.Closest):
		done.Verdict, done.Reason = Confirmed, "here these are the engine's own settings"
		return nil
	case last.Status != engine.OK && last.Status != engine.Censored && last.Status != engine.Stopped && len(last.Setting) > 0:
		note, _, _ := strings.Cut(last.Note, "\n")
		done.Verdict, done.Reason = Failed, fmt.Sprintf("%s: %s: %s", last.Setting, last.Status, note)
		return nil
	case ratio.High == 0: // too few pairs, or the engine's own settings failed
		return fmt.Errorf("%w: %d pairs within %v: allow more", ErrNoBudget, cert.Pairs, budget.Round(time.Second))
	case ratio.High < 1-slack:
		done.Verdict, done.Reason = Failed, fmt.Sprintf("%.3f times as fast as the engine's own", ratio.Estimate)
	case ratio.Low > 1-slack:
		done.Verdict = Confirmed
	default:
		done.Verdict = Undecided
	}
	done.Regimes = []RegimeCheck{{Regime: "request", Verdict: done.Verdict, Ratio: ratio}}
	return nil
}

// keepReceivedEngine stores how a config was checked, in the place of an earlier one with the same outcome.
func (r *engineRun) keepReceivedEngine(ctx context.Context, a arrival) error {
	e, l, done := a.entry, a.learned, a.done
	cert := EngineCertificate{
		Verdict: measure.Verdict(verdictOf(e)), Model: r.model.name, Fingerprint: e.Host, Objective: e.Objective, Target: e.Target, Best: EngineRated{Config: l},
		Ratio: engine.Ratio{Estimate: e.Ratio.Estimate, Low: e.Ratio.Low, High: e.Ratio.High}, Evaluations: e.Evaluations, Received: &done, Warnings: []string{},
	}
	proof, err := json.Marshal(cert)
	if err != nil {
		panic("tuner: a certificate always marshals")
	}
	config, err := json.Marshal(l)
	if err != nil {
		panic("tuner: a config always marshals")
	}
	return r.store.Publish(ctx, history.Learned{
		Host: r.host.Fingerprint(), Model: r.model.fingerprint, ModelName: r.model.name, Target: e.Target, Objective: e.Objective, Signature: e.Signature,
		Identity: r.identity, Envelope: originated(r.host, done), Condition: fields(r.host.Condition()),
		Config: config, Certificate: proof, MeasuredAt: e.MeasuredAt, Evaluations: e.Evaluations,
	})
}

// verdictOf is the verdict of the run that found an entry.
func verdictOf(e fleet.Entry) (verdict string) {
	var proof sharedProof
	if json.Unmarshal(e.Certificate, &proof) == nil {
		verdict = string(proof.Verdict)
	}
	return verdict
}
