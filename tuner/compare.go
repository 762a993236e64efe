package tuner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// Change is what a variant of a configuration sets otherwise. What is zero stays as it is.
type Change struct {
	Threads      int            `json:"threads,omitempty"` // of every regime; it may be more than the quota allows
	Layout       kernels.Layout `json:"layout,omitempty"`
	Kernel       string         `json:"kernel,omitempty"` // of every regime
	PrefillBatch int            `json:"prefill_batch,omitempty"`
}

// Comparison is the outcome of two configurations run in turn: the A/B test of a change.
type Comparison struct {
	Verdict  measure.Verdict    `json:"verdict"` // ADOPT: the changed one is faster in every regime that it changes
	Model    string             `json:"model"`
	Run      string             `json:"run"`
	Original Config             `json:"original"`
	Changed  Config             `json:"changed"`
	Regimes  []RegimeComparison `json:"regimes"`
	Elapsed  float64            `json:"elapsed_seconds"`
	Warnings []string           `json:"warnings"`
}

// RegimeComparison is the part of a Comparison that belongs to one regime.
type RegimeComparison struct {
	Regime   target.Regime   `json:"regime"`
	Verdict  measure.Verdict `json:"verdict"`
	Ratio    Ratio           `json:"ratio"` // cost of the original over that of the changed one: above 1 the change is faster
	Blocks   int             `json:"blocks"`
	Original target.Arm      `json:"original"`
	Changed  target.Arm      `json:"changed"`
	Wrong    bool            `json:"wrong"`            // one of the two gives wrong results: Reason says which
	Reason   string          `json:"reason,omitempty"` // why there is no verdict
}

// comparedRegimes are those that a change is judged by. Small batches stand between the two.
var comparedRegimes = []target.Regime{target.Decode, target.Prefill}

const (
	compareBlocks     = 40
	compareConfidence = 0.95
	// quotaPeriod is the kernel's default period of a CPU quota, cpu.cfs_period_us.
	quotaPeriod = 100 * time.Millisecond
	// throttledSample holds several periods. A sample is wrong by a part of one period at most, wherever it ends, so that
	// in the same time fewer longer samples tell more than many short ones.
	throttledSample = 5 * quotaPeriod
	// decodeShare is the part of the budget that decoding gets where a prompt is compared as well: it is what a service
	// does most of its time.
	decodeShare = 0.7
)

// comparisonFact is the name under which a run keeps that it compared, and why.
const comparisonFact = "comparison"

// Compare measures what a change of the configuration of a model brings on this host's CPU: both are verified bit for bit, then
// run in turn. original and changed are applied to what Plan answers. It changes nothing but the history, which remembers
// the outcome with why. Where one of the two has more threads than the quota allows, being stopped is what is measured: its
// samples last several periods of the quota, and are not censored.
func (t *Tuner) Compare(ctx context.Context, model string, original, changed Change, budget time.Duration, why string) (*Comparison, error) {
	if err := t.may("compare", ModeTune, ModeAdvise); err != nil {
		return nil, err
	}
	plan, err := t.Plan(ctx, model)
	if err != nil {
		return nil, err
	}
	r, err := t.newTune(ctx, model, Budget{Time: budget, Target: targetCPU})
	if err != nil {
		return nil, err
	}
	c := &Comparison{Verdict: measure.Inconclusive, Model: plan.Model, Run: fmt.Sprintf("%016x", r.run), Warnings: []string{}}
	wide, err := r.variants(c, r.problem.baseOf(plan), original, changed)
	if err != nil {
		return nil, err
	}
	if err := r.openStore(ctx); err != nil {
		return nil, err
	}
	unlock, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	measuring, cancel := r.until(ctx, r.deadline)
	defer cancel()
	rig, err := t.opt.Rig(measuring, wide, 0)
	if err != nil {
		if measuring.Err() != nil && ctx.Err() == nil {
			return nil, fmt.Errorf("compare: %w: setting up took all of %v; allow more", ErrNoBudget, budget)
		}
		return nil, err
	}
	defer rig.Target.Close()
	r.target, r.timer = rig.Target, rig.Timer
	r.compareRegimes(measuring, c)
	c.Verdict = c.overall()
	c.tradeOff()
	c.Elapsed = r.now().Sub(r.started).Seconds()
	c.Warnings = append(c.Warnings, r.warnings...)
	return c, errors.Join(ctx.Err(), r.keepComparison(c, why))
}

// variants fills in the two configurations, and returns the problem in which both are possible.
func (r *tune) variants(c *Comparison, base Config, original, changed Change) (Problem, error) {
	wide := r.problem
	most := max(original.Threads, changed.Threads)
	if cpus := len(wide.Host.CPU.CPUs); most > cpus {
		return wide, fmt.Errorf("compare: threads %d: this host has CPUs for 1 to %d", most, cpus)
	}
	wide.Host.CPU.UsableCores = max(wide.Host.CPU.UsableCores, most)
	c.Original = wide.changed(base, original)
	c.Changed = wide.changed(c.Original, changed)
	for _, v := range []struct {
		name   string
		config Config
	}{{"original", c.Original}, {"changed", c.Changed}} {
		if err := wide.validate(v.config); err != nil {
			return wide, fmt.Errorf("compare: %s %w", v.name, err)
		}
	}
	wide.Layout = c.Changed.Layout // the rig holds it beside the default's
	if c.Original.Layout != c.Changed.Layout && c.Changed.Layout == DefaultLayout {
		wide.Layout = c.Original.Layout
	}
	return wide, nil
}

// baseOf is what the changes are applied to: what Plan answers, or the heuristic where that is for a GPU.
func (p Problem) baseOf(plan Plan) Config {
	if plan.Config.target() == p.Target {
		return plan.Config
	}
	return p.Heuristic()
}

// changed returns c with a change. Another layout, or another batch, brings the blocking of its own.
func (p Problem) changed(c Config, ch Change) Config {
	if ch.Layout != "" && ch.Layout != c.Layout {
		other := p.in(ch.Layout).Heuristic()
		for _, r := range Regimes {
			s := other.setting(r)
			s.Threads, s.Batch = c.setting(r).Threads, c.setting(r).Batch
		}
		c = other
	}
	for _, r := range Regimes {
		s := c.setting(r)
		if ch.Threads > 0 {
			s.Threads = ch.Threads
		}
		if ch.PrefillBatch > 0 && r == target.Prefill {
			s.Batch = ch.PrefillBatch
		}
		if k, ok := kernels.ByName(ch.Kernel); ok && s.Kernel != k.Name {
			s.Kernel, s.Blocking, c.Layout = k.Name, k.Default(s.Batch), k.Layout
		} else if ch.Kernel != "" {
			s.Kernel = ch.Kernel
		}
	}
	c.WorkspaceBytes = p.workspace(c)
	return c
}

// compareRegimes measures each regime in which the two differ.
func (r *tune) compareRegimes(ctx context.Context, c *Comparison) {
	promptToo := c.Original.Arm(target.Prefill) != c.Changed.Arm(target.Prefill)
	for _, regime := range comparedRegimes {
		rc := RegimeComparison{Regime: regime, Verdict: measure.Inconclusive, Original: c.Original.Arm(regime), Changed: c.Changed.Arm(regime)}
		if rc.Original == rc.Changed {
			continue
		}
		end := r.deadline
		if regime == target.Decode && promptToo {
			end = r.now().Add(time.Duration(decodeShare * float64(r.deadline.Sub(r.now()))))
		}
		r.compareRegime(ctx, &rc, end)
		c.Regimes = append(c.Regimes, rc)
	}
	if len(c.Regimes) == 0 {
		c.Regimes = []RegimeComparison{}
		r.warn("the two configurations are the same")
	}
}

// compareRegime runs the two arms of a regime in turn until end.
func (r *tune) compareRegime(ctx context.Context, rc *RegimeComparison, end time.Time) {
	r.tell(Event{Phase: "compare", Regime: rc.Regime, Text: rc.Original.String() + " and " + rc.Changed.String()})
	subjects := [2]measure.Subject{}
	for i, a := range []target.Arm{rc.Original, rc.Changed} {
		subject, err := r.target.Prepare(ctx, rc.Regime, a)
		switch {
		case ctx.Err() != nil:
			rc.Reason = "the time was used up"
			return
		case err != nil:
			rc.Wrong, rc.Reason = errors.Is(err, target.ErrMismatch), fmt.Sprintf("%s: %v", a, err)
			return
		}
		subjects[i] = subject
	}
	timer := r.timer
	if usable := r.problem.Host.CPU.UsableCores; max(rc.Original.Threads, rc.Changed.Threads) > usable {
		throttled := measure.Timer{MinSample: throttledSample, WarmRounds: 1, Rand: timer.Rand}
		timer = &throttled
		for i := range subjects {
			subjects[i] = r.rested(subjects[i])
		}
	}
	ctx, cancel := r.until(ctx, end)
	defer cancel()
	result, err := timer.Compare(ctx, subjects[0], subjects[1], measure.CompareOptions{Blocks: compareBlocks, Looks: 1, Confidence: compareConfidence, MinGain: slack})
	rc.Ratio, rc.Blocks = ratioOf(result), result.Blocks
	rc.Verdict = measure.Decide(result, slack, 0)
	r.pendComparison(rc, result)
	switch {
	case err != nil && ctx.Err() == nil:
		rc.Verdict, rc.Reason = measure.Inconclusive, err.Error()
	case rc.Ratio.High == 0:
		rc.Reason = "too few samples within the budget"
	}
}

// rested lets a period of the quota pass before each sample, so that none pays for what the one before used up.
func (r *tune) rested(s measure.Subject) measure.Subject {
	run := s.Run
	s.Run = func(ctx context.Context, n int) (time.Duration, error) {
		if !r.tuner.simulated {
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(quotaPeriod):
			}
		}
		return run(ctx, n)
	}
	return s
}

// overall is ADOPT where every regime is faster, KEEP_DEFAULT where all are decided and some is not, else INCONCLUSIVE.
func (c *Comparison) overall() measure.Verdict {
	verdict := measure.Inconclusive
	for _, rc := range c.Regimes {
		switch {
		case rc.Verdict == measure.Inconclusive:
			return measure.Inconclusive
		case rc.Verdict == measure.Keep:
			verdict = measure.Keep
		case verdict != measure.Keep:
			verdict = rc.Verdict
		}
	}
	return verdict
}

// tradeOff warns of a change that is faster in one regime and slower in another.
func (c *Comparison) tradeOff() {
	faster, slower := "", ""
	for _, rc := range c.Regimes {
		switch {
		case rc.Verdict == measure.Adopt:
			faster = string(rc.Regime)
		case rc.Ratio.High > 0 && rc.Ratio.High < 1:
			slower = string(rc.Regime)
		}
	}
	if faster != "" && slower != "" {
		c.Warnings = append(c.Warnings, fmt.Sprintf("the change is faster in %s and slower in %s: which counts depends on the requests", faster, slower))
	}
}

// pendComparison takes the samples down as a record of the changed arm, whose yardstick is the original one.
func (r *tune) pendComparison(rc *RegimeComparison, result measure.Comparison) {
	if len(result.LogRatios) == 0 {
		return
	}
	costs := make([]float64, len(result.LogRatios))
	for i, x := range result.LogRatios {
		costs[i] = math.Exp(-x)
	}
	r.pending = append(r.pending, history.Record{
		Run: r.run, Seq: uint32(len(r.pending) + 1), Time: time.Now().UTC(), Host: r.problem.fingerprint(), Model: r.problem.Model.Fingerprint(),
		Target: r.problem.Target, Regime: string(rc.Regime), Config: armJSON(rc.Changed),
		Kernel: rc.Changed.Kernel, KernelRev: r.problem.domain().revision(rc.Changed.Kernel), Signature: r.problem.key(rc.Original),
		Status: history.StatusOK, Costs: costs, Note: "compared with " + rc.Original.String(),
	})
}

// keepComparison writes the run with why it was made, and its samples.
func (r *tune) keepComparison(c *Comparison, why string) error {
	if r.store == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeLast)
	defer cancel()
	run := r.record(nil, nil)
	run.Strategy, run.Finished, run.Verdict = "compare", r.now().UTC(), string(c.Verdict)
	run.Facts[comparisonFact] = why
	failed := []error{r.store.PutRun(ctx, run)}
	if len(r.pending) > 0 {
		failed = append(failed, r.store.Append(ctx, r.pending...))
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("compare: the outcome could not be kept: %w", err)
	}
	return nil
}

// Known is what the history of this host, under its present limits, knows of a change in one regime.
type Known struct {
	Ratio Ratio
	Runs  []string // that hold the samples, as the command names them
}

// Known looks up what a change, applied to what Plan answers with original, was measured to bring: by Compare, else by
// tune runs that measured both settings against one yardstick. Regimes of which nothing is known are absent.
func (t *Tuner) Known(ctx context.Context, model string, original, changed Change) (map[target.Regime]Known, error) {
	plan, err := t.Plan(ctx, model)
	if err != nil {
		return nil, err
	}
	store, err := t.readStore()
	if store == nil {
		return nil, err
	}
	p, err := t.problem(ctx, model)
	if err != nil {
		return nil, err
	}
	before := p.changed(p.baseOf(plan), original)
	after := p.changed(before, changed)
	runs, err := p.runsHere(ctx, store)
	if err != nil {
		return nil, err
	}
	known := map[target.Regime]Known{}
	for _, regime := range comparedRegimes {
		k, err := p.knownOf(ctx, store, regime, before.Arm(regime), after.Arm(regime), runs)
		if err != nil {
			return nil, err
		}
		if k.Ratio.High > 0 {
			known[regime] = k
		}
	}
	return known, nil
}

// runsHere are the runs under the limits that hold now.
func (p Problem) runsHere(ctx context.Context, store *history.Store) (map[uint64]bool, error) {
	runs, err := store.Runs(ctx)
	if err != nil {
		return nil, err
	}
	here := map[uint64]bool{}
	for _, run := range runs {
		here[run.ID] = true
		for _, f := range p.Host.Envelope() {
			if f.Name != "memory_limit_bytes" && run.Facts[f.Name] != f.Value { // which moves with the host and no rate with it
				delete(here, run.ID)
			}
		}
	}
	return here, nil
}

// taken are the costs of an arm beside one yardstick, and the runs that took them.
type taken struct {
	logs []float64
	runs map[uint64]bool
}

// knownOf is what is known of two arms of a regime.
func (p Problem) knownOf(ctx context.Context, store *history.Store, regime target.Regime, before, after target.Arm, runs map[uint64]bool) (Known, error) {
	if before == after {
		return Known{}, nil
	}
	costs := map[string]map[target.Arm]*taken{} // by yardstick
	filter := history.Filter{Host: p.fingerprint(), Model: p.Model.Fingerprint(), Target: p.Target, Regime: string(regime)}
	err := store.Records(ctx, filter, func(rec history.Record) error {
		var a target.Arm
		if !runs[rec.Run] || rec.Status != history.StatusOK || json.Unmarshal(rec.Config, &a) != nil || a != before && a != after {
			return nil
		}
		if costs[rec.Signature] == nil {
			costs[rec.Signature] = map[target.Arm]*taken{before: {runs: map[uint64]bool{}}, after: {runs: map[uint64]bool{}}}
		}
		at := costs[rec.Signature][a]
		at.runs[rec.Run] = true
		for _, cost := range rec.Costs {
			at.logs = append(at.logs, math.Log(cost))
		}
		return nil
	})
	if err != nil {
		return Known{}, err
	}
	if direct := costs[p.key(before)]; direct != nil && len(direct[after].logs) > 0 {
		return knownFrom(&taken{}, direct[after]), nil
	}
	best := Known{}
	for _, signature := range slices.Sorted(maps.Keys(costs)) {
		both := costs[signature]
		if len(both[before].logs) == 0 || len(both[after].logs) == 0 {
			continue
		}
		if k := knownFrom(both[before], both[after]); k.narrower(best) {
			best = k
		}
	}
	return best, nil
}

// knownFrom is the ratio of two costs beside one yardstick. No samples of before stand for the yardstick itself. The errors
// of the two are independent and add in quadrature, on either side.
func knownFrom(before, after *taken) Known {
	a := logInterval(after.logs)
	down, up := a.up, a.down // a dearer change is a smaller ratio
	ratio := -a.centre
	if len(before.logs) > 0 {
		b := logInterval(before.logs)
		ratio, down, up = ratio+b.centre, math.Hypot(down, b.down), math.Hypot(up, b.up)
	}
	if math.IsInf(down+up, 0) {
		return Known{}
	}
	k := Known{Ratio: Ratio{Estimate: math.Exp(ratio), Low: math.Exp(ratio - down), High: math.Exp(ratio + up), Confidence: compareConfidence}}
	runs := maps.Clone(after.runs)
	maps.Copy(runs, before.runs)
	for _, id := range slices.Sorted(maps.Keys(runs)) {
		k.Runs = append(k.Runs, fmt.Sprintf("%016x", id))
	}
	return k
}

// margins is a centre with how far the truth may lie below and above it.
type margins struct{ centre, down, up float64 }

func logInterval(logs []float64) margins {
	centre, low, high := measure.Estimate(logs, compareConfidence)
	return margins{centre, centre - low, high - centre}
}

// narrower reports whether k is known better than other, of which nothing may be known.
func (k Known) narrower(other Known) bool {
	return k.Ratio.High > 0 && (other.Ratio.High == 0 || k.Ratio.High/k.Ratio.Low < other.Ratio.High/other.Ratio.Low)
}
