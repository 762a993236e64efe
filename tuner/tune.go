package tuner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/history/fleet"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// Budget bounds a tune run and says what it is for. Only Time is needed.
type Budget struct {
	Time       time.Duration  // everything included: setting up, searching, the final duel; but not the rests of a paced run
	Objective  Objective      // "" = ObjectiveMixed
	Target     string         // "cpu", "cuda", or "" or "auto" = both where there is a GPU, and the better one by measurement
	Device     string         // UUID of the GPU; "" = the one with the most memory
	Strategy   string         // "" = bandit's "auto"
	Seed       uint64         // of search and of the random weights
	Layout     kernels.Layout // "" = any
	MaxThreads int            // 0 = every usable core
	// FleetWait is how long, before Time begins, to wait for a host of this class that is tuning already; 0 = not at all.
	FleetWait time.Duration
}

// target is where a run measures.
func (b Budget) target() string {
	if b.Target == targetCUDA {
		return targetCUDA
	}
	return targetCPU
}

// ErrBadBudget is wrapped by the errors of a Budget that cannot be.
var ErrBadBudget = errors.New("tune")

// Event is what a run tells while it works.
type Event struct {
	Phase       string // "gpu", "fleet", "setup", "search", "duel", "placement", "roofline", "done"
	Regime      target.Regime
	Text        string  // what happened, for a log line
	Incumbent   string  // the best arm so far; "" unknown
	Ratio       float64 // its measured gain over the heuristic so far; 0 unknown
	Evaluations int
	SpaceSize   int
	Left        time.Duration
}

// tune is one run: what its steps share.
type tune struct {
	tuner    *Tuner
	problem  Problem
	budget   Budget
	store    *history.Store // nil = nothing is kept
	target   target.Target
	timer    *measure.Timer
	now      func() time.Time
	floor    float64 // what this host cannot tell from no gain at all
	run      uint64
	seq      uint32
	started  time.Time
	deadline time.Time
	pending  []history.Record // not yet accepted by the store
	wrong    []target.Arm     // found to give wrong results, by this run or before
	newWrong bool             // by this run
	retry    time.Time        // when the store is offered them again after it refused
	warnings []string
	rival    *Certificate // what this run's answer is to be compared with: that of the CPU; nil = nothing

	hints []hint       // what other hosts of this class proved
	claim *fleet.Claim // this host's turn to tune for its class, if it has it
	ahead string       // who has it instead
	alone bool         // the fleet could not be used
}

// Tune measures: it searches the settings of each regime of the objective, duels the best of them with the default on
// fresh samples, publishes what was proven and returns the certificate. A run resumes what earlier runs recorded.
// When ctx ends, everything measured is kept and the certificate says what could be decided by then; so a nil error
// goes with an Interrupted certificate.
func (t *Tuner) Tune(ctx context.Context, model string, budget Budget) (*Certificate, error) {
	if err := t.may("tune", ModeTune); err != nil {
		return nil, err
	}
	if budget.Target == "" || budget.Target == targetAuto {
		return t.tuneBest(ctx, model, budget)
	}
	return t.tuneOn(ctx, model, budget, nil)
}

// tuneOn is Tune on one target. rival is what the answer is compared with at the end; nil = nothing.
func (t *Tuner) tuneOn(ctx context.Context, model string, budget Budget, rival *Certificate) (*Certificate, error) {
	r, err := t.newTune(ctx, model, budget)
	if err != nil {
		return nil, err
	}
	r.rival = rival
	if err := r.openStore(ctx); err != nil {
		return nil, err
	}
	unlock, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	r.join(ctx)
	defer r.leave()
	if cpu, ok := r.problem.domain().(cpuDomain); ok && cpu.widest().Needs == 0 {
		r.warn(fmt.Sprintf("no SIMD kernel for layout %s runs on this host: the portable one is slow, and a verdict takes minutes", cpu.heuristic().Layout))
	}
	r.tell(Event{Phase: "setup", Text: "making random ternary weights of the model's size"})
	measuring, cancel := r.until(ctx, r.deadline)
	defer cancel()
	if err := r.open(measuring); err != nil {
		return r.outOfTime(ctx, measuring, err)
	}
	defer r.target.Close()
	return r.measure(ctx, measuring)
}

// openStore opens the history for this run and takes down what is doubtful about it.
func (r *tune) openStore(ctx context.Context) error {
	store, note, err := r.tuner.openStore(ctx)
	if err != nil || store == nil {
		return err
	}
	r.store = store
	if note != "" {
		r.warn(note)
	}
	r.heed(store.Warnings())
	return nil
}

// begin takes up what earlier runs left and writes that this one has begun; the lock is held.
func (r *tune) begin(ctx context.Context) error {
	snapshot, err := r.tuner.snapshot()
	if err != nil {
		r.warn("the learned configs could not be read: " + err.Error())
		snapshot = nil
	}
	r.bind(snapshot)
	r.resume(snapshot)
	r.wrong = r.problem.wrong(snapshot)
	if r.store == nil {
		return nil
	}
	return r.store.PutRun(ctx, r.record(nil, nil))
}

// disprove takes an arm down whose results are wrong; other errors are none of its business.
func (r *tune) disprove(a target.Arm, err error) {
	if errors.Is(err, target.ErrMismatch) && !slices.Contains(r.wrong, a) {
		r.wrong, r.newWrong = append(r.wrong, a), true
	}
}

// bounded reports whether the run may not use all of the host, so that its result holds for less than that.
func (r *tune) bounded() bool {
	return r.problem.Target == targetCPU && r.problem.threads() < r.problem.Host.CPU.UsableCores
}

func (r *tune) warn(text string) { r.warnings = append(r.warnings, text) }

// ErrNoBudget means that the budget ended before anything could be measured.
var ErrNoBudget = errors.New("no budget left to measure")

// outOfTime is the outcome of a run that ended while it set up: a certificate where somebody interrupted it.
func (r *tune) outOfTime(ctx, measuring context.Context, err error) (*Certificate, error) {
	switch {
	case ctx.Err() != nil:
		cert := r.certificate()
		cert.Interrupted = true
		r.settle(ctx, nil, cert)
		return cert, r.finish(cert)
	case measuring.Err() != nil:
		return nil, fmt.Errorf("tune: %w: setting up took all of %v; allow more", ErrNoBudget, r.budget.Time)
	}
	return nil, err
}

// resumeShare is the part of the budget that a run may use which begins with a config proven by an earlier one: the
// space is mostly known, and what remains is to refine it and to confirm the result.
const resumeShare = 0.5

// resume cuts the budget where earlier runs decided every regime of the objective, and in a layout that this run tries.
func (r *tune) resume(snapshot *history.Snapshot) {
	for _, regime := range Regimes {
		if r.problem.Objective.share(regime) == 0 {
			continue
		}
		if v, ok := r.problem.proven(snapshot, regime); !ok || !slices.Contains(r.problem.layouts(), v.winner().Layout) {
			return
		}
	}
	r.shorten("earlier runs decided every regime: half the budget is enough to refine and confirm")
}

// shorten cuts the budget, unless a strategy was asked for by name.
func (r *tune) shorten(why string) {
	if r.budget.Strategy != "" && r.budget.Strategy != "auto" {
		return
	}
	r.deadline = r.started.Add(time.Duration(resumeShare * float64(r.budget.Time)))
	r.tell(Event{Phase: "setup", Text: why})
}

func (t *Tuner) newTune(ctx context.Context, name string, b Budget) (*tune, error) {
	if b.Time <= 0 {
		return nil, fmt.Errorf("%w: budget %v: a positive duration such as 60s", ErrBadBudget, b.Time)
	}
	p, err := t.problem(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := p.apply(b); err != nil {
		return nil, err
	}
	if p.Target == targetCUDA {
		if p.Card, err = t.card(ctx, b.Device); err != nil {
			return nil, fmt.Errorf("tune: target %s: %w", p.Target, err)
		}
	}
	clock := t.opt.Now
	if pacer := measure.PacerOf(ctx); pacer != nil {
		clock = pacer.Now
	}
	now := clock()
	return &tune{tuner: t, problem: p, budget: b, run: history.NewRunID(now), now: clock, started: now, deadline: now.Add(b.Time)}, nil
}

// until bounds ctx by a moment on the run's clock. A context knows the real clock only: on a simulated one the steps of a
// run end by themselves, and how long they really take says nothing.
func (r *tune) until(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	if pacer := measure.PacerOf(ctx); pacer != nil {
		return pacer.Until(ctx, end)
	}
	if r.tuner.simulated {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, end.Sub(r.now()))
}

// apply checks a budget against the host and takes over what it asks for.
func (p *Problem) apply(b Budget) error {
	objective, err := ParseObjective(string(b.Objective))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadBudget, err)
	}
	p.Objective = objective
	if _, ok := kernels.FormatOf(b.Layout); !ok && b.Layout != "" {
		return fmt.Errorf("%w: layout %q: one of %v", ErrBadBudget, b.Layout, kernels.Layouts())
	}
	p.Layout = b.Layout
	if pinned, _ := p.on(b.target()).pinnedLayout(); pinned != "" {
		if p.Layout = pinned; b.Layout != "" && b.Layout != pinned {
			return fmt.Errorf("%w: layout %q: layout %s is pinned for %s", ErrBadBudget, b.Layout, pinned, p.Model.Name)
		}
	}
	if usable := p.Host.CPU.UsableCores; b.MaxThreads < 0 || b.MaxThreads > usable {
		return fmt.Errorf("%w: max threads %d: this host can use 1 to %d", ErrBadBudget, b.MaxThreads, usable)
	}
	p.MaxThreads = b.MaxThreads
	for _, r := range Regimes {
		if pinned, ok := p.on(b.target()).pinnedOf(r)[knobThreads]; ok && b.MaxThreads > 0 && number(pinned) > b.MaxThreads {
			return fmt.Errorf("%w: max threads %d: %s.%s=%s is pinned for %s", ErrBadBudget, b.MaxThreads, r, knobThreads, pinned, p.Model.Name)
		}
	}
	if b.Strategy != "" && !slices.Contains(bandit.Names(), b.Strategy) {
		return fmt.Errorf("%w: strategy %q: one of %v", ErrBadBudget, b.Strategy, bandit.Names())
	}
	switch b.Target {
	case "", targetAuto, targetCPU:
		p.Target = targetCPU
	case targetCUDA:
		p.Target = targetCUDA
	default:
		return fmt.Errorf("%w: target %q: one of %s, %s, %s", ErrBadBudget, b.Target, targetCPU, targetCUDA, targetAuto)
	}
	return nil
}

func (r *tune) open(ctx context.Context) error {
	rig, err := r.tuner.opt.Rig(ctx, r.problem, r.budget.Seed)
	r.target, r.timer = rig.Target, rig.Timer
	return err
}

// measure runs the regimes one after the other and puts the certificate together. ctx is the caller's, measuring ends
// with the budget as well.
func (r *tune) measure(ctx, measuring context.Context) (*Certificate, error) {
	cert := r.certificate()
	var searches []*search
	var failures []error
	for i, regime := range Regimes {
		share := r.share(i)
		if share == 0 {
			continue
		}
		s, err := r.regime(ctx, measuring, regime, r.now().Add(share))
		if err != nil { // one regime that cannot be measured is no reason to lose the others
			failures = append(failures, err)
			r.warn(err.Error())
		}
		searches = append(searches, s)
	}
	if len(failures) == len(searches) {
		return nil, errors.Join(failures...)
	}
	r.settle(ctx, searches, cert)
	r.place(measuring, cert)
	r.roofline(measuring, cert)
	cert.Interrupted, cert.NoiseFloor = ctx.Err() != nil, r.floor
	return cert, r.finish(cert)
}

// settle chooses the layout and takes each regime's verdict from the duels in it. An interrupted run settles too, with
// all that is asked of a layout.
func (r *tune) settle(ctx context.Context, searches []*search, cert *Certificate) {
	snapshot := r.published()
	layout, verdicts := r.choose(ctx, searches, r.before(snapshot))
	cert.Layouts = verdicts
	for _, s := range searches {
		s.settle(layout)
		cert.Regimes = append(cert.Regimes, s.verdict)
	}
	r.inherit(cert, layout, snapshot)
}

// published is what is published now; nil where it cannot be read, which was told when the run began.
func (r *tune) published() *history.Snapshot {
	snapshot, err := r.tuner.snapshot()
	if err != nil {
		return nil
	}
	return snapshot
}

// before is the layout of the answer so far: that of an earlier proof, else of the heuristic.
func (r *tune) before(snapshot *history.Snapshot) kernels.Layout {
	for _, regime := range Regimes {
		if v, ok := r.problem.proven(snapshot, regime); ok {
			return v.winner().Layout
		}
	}
	return r.problem.Heuristic().Layout
}

// inherit gives every regime its setting in a layout: what this run decided, else what an earlier one did, which the
// certificate then carries on, else the heuristic, or the default where the heuristic turned out wrong. So a run never
// changes the answer for a regime that it did not decide.
func (r *tune) inherit(cert *Certificate, layout kernels.Layout, snapshot *history.Snapshot) {
	facts := r.problem.in(layout).sound(r.wrong)
	cert.Best.Config.Layout = layout
	for _, regime := range Regimes {
		arm := facts.Arm(regime)
		if v, ok := cert.proof(regime); ok {
			arm = v.winner()
		} else if v, ok := r.problem.proven(snapshot, regime); ok && v.winner().Layout == layout && !slices.Contains(r.wrong, v.winner()) {
			cert.Inherited = append(cert.Inherited, v)
			arm = v.winner()
		}
		cert.Best.Config = cert.Best.Config.with(regime, arm)
	}
	cert.Wrong = append(cert.Wrong, r.wrong...)
}

// share is the time the i-th regime may take: its part of what is left, so that time an earlier regime did not need
// goes to the later ones.
func (r *tune) share(i int) time.Duration {
	var rest float64
	for _, later := range Regimes[i:] {
		rest += r.problem.Objective.share(later)
	}
	if rest == 0 {
		return 0
	}
	left := r.deadline.Sub(r.now()) - rooflineTime(r.budget.Time) - r.placementTime()
	return time.Duration(max(1, float64(left)*r.problem.Objective.share(Regimes[i])/rest))
}

func (r *tune) certificate() *Certificate {
	standard := r.problem.Default()
	return &Certificate{
		Model: r.problem.Model.Name, Fingerprint: r.problem.fingerprint(), Objective: r.problem.Objective,
		Target: r.problem.Target, Run: fmt.Sprintf("%016x", r.run),
		Default: Rated{Config: standard}, Best: Rated{Config: standard}, Budget: r.budget.Time.Seconds(), Note: rateNote,
		Regimes: []RegimeVerdict{}, Layouts: []LayoutVerdict{}, Inherited: []RegimeVerdict{}, Wrong: []target.Arm{}, Warnings: []string{},
	}
}

// finish completes the certificate, keeps what the store did not take before, and publishes.
func (r *tune) finish(cert *Certificate) error {
	cert.Best.Config = r.problem.completed(cert.Best.Config)
	r.tell(Event{Phase: "done", Text: "keeping the result"})
	return r.publish(cert)
}

// rooflineTime is kept back for the comparison with the read loop.
func rooflineTime(budget time.Duration) time.Duration { return min(2*time.Second, budget/10) }

// holder is a target that holds the weights itself, in each layout.
type holder interface {
	Hold(ctx context.Context, layout kernels.Layout) (*target.CPU, error)
	Note() string
}

// roofline compares the decode setting that will be used with a plain read loop over the same weights.
func (r *tune) roofline(ctx context.Context, cert *Certificate) {
	shelf, ok := r.target.(holder)
	if !ok {
		return
	}
	if note := shelf.Note(); note != "" {
		r.warn("the target " + note)
	}
	if r.problem.Objective.share(target.Decode) == 0 {
		return
	}
	r.tell(Event{Phase: "roofline", Text: "comparing decode with a plain read of the same weights"})
	arm := cert.Best.Config.Arm(target.Decode)
	cpu, err := shelf.Hold(ctx, arm.Layout)
	var c measure.Comparison
	if err == nil {
		c, err = r.againstReading(ctx, cpu, arm)
	}
	switch {
	case c.Blocks == 0 && ctx.Err() != nil:
		r.warn("decode was not compared with a plain read: the time had ended")
	case err != nil && ctx.Err() == nil:
		r.warn("decode could not be compared with a plain read: " + err.Error())
	}
	if c.Blocks == 0 {
		return
	}
	cert.Roofline = Roofline{
		ReadBandwidth: float64(cpu.WeightBytes()) / c.Cand.Median * 1e9, ReadThreads: arm.Threads,
		DecodeFraction: 1 / c.Ratio, WeightBytes: cpu.WeightBytes(), Residency: cpu.Residency(),
	}
}

func (r *tune) againstReading(ctx context.Context, cpu *target.CPU, arm target.Arm) (measure.Comparison, error) {
	decode, err := cpu.Prepare(ctx, target.Decode, arm)
	if err != nil {
		return measure.Comparison{}, err
	}
	read, err := cpu.ReadSubject(arm.Threads)
	if err != nil {
		return measure.Comparison{}, err
	}
	return r.timer.Compare(ctx, decode, read, measure.CompareOptions{Blocks: 12, Looks: 1})
}

func (r *tune) tell(e Event) {
	e.Left = max(0, r.deadline.Sub(r.now()))
	r.tuner.progress(e)
}

func (t *Tuner) progress(e Event) {
	if t.opt.Progress != nil {
		t.opt.Progress(e)
	}
}
