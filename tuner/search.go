package tuner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// busyFloor is the noise floor from which on a host counts as busy: what is measured then is not told to later runs that
// find it quiet.
const busyFloor = 0.15

// How a duel decides.
const (
	duelConfidence = 0.99 // of the interval that must clear the threshold
	minGain        = 0.01 // a gain below 1 % is not worth another configuration
	finalists      = 3
	duelBlocks     = 96                      // at most; half prove a gain of 5 % on a noisy shared host
	leastBlocks    = 10                      // between looks, and at the least: below it the interval of three finalists is unbounded
	exhausted      = "nothing left to learn" // why a search ended that was not cut short
	duelLooks      = 8                       // how often, at the most, a duel asks whether it is decided
)

// search is the tuning of one regime: what its steps share. Trials are paired with the heuristic, which is the incumbent
// when nothing is known: on a host where the default is several times slower, pairing with the default would spend most
// of the time on it.
type search struct {
	*tune
	caller      context.Context // to tell an interrupt from the end of the budget
	regime      target.Regime
	space       *bandit.Space
	strategy    bandit.Strategy
	standard    measure.Subject // the default: what the duel is fought with
	standardArm target.Arm
	base        measure.Subject // the yardstick of the search: what trials are paired with
	baseArm     target.Arm
	block       time.Duration // about how long one paired block of the search takes
	round       time.Duration // and one of the duel
	searchEnd   time.Time     // the search gives way to the duel
	end         time.Time     // the regime's share is used up
	arms        map[int]*arm
	learned     *target.Arm // what an earlier run proved, if anything
	duels       []contender
	unrivalled  bool // there was nothing to duel with the default
	verdict     RegimeVerdict

	leader string    // the best arm so far, for the progress line
	ratio  float64   // its gain over the yardstick so far
	led    time.Time // when that was last asked for
}

// arm is a point of the space with its comparison to the yardstick.
type arm struct {
	arm    target.Arm
	pair   *measure.Pair // nil: it could not be prepared
	status bandit.Status
	note   string
}

// regime searches one regime and duels the best until end. The error is why it could not be measured at all. The verdict
// is taken later, by settle.
func (r *tune) regime(ctx, measuring context.Context, regime target.Regime, end time.Time) (*search, error) {
	s := &search{
		tune: r, caller: ctx, regime: regime, arms: map[int]*arm{}, end: end,
		standardArm: r.problem.Default().Arm(regime), baseArm: r.problem.Heuristic().Arm(regime),
	}
	s.verdict = RegimeVerdict{
		Regime: regime, Verdict: measure.Inconclusive, Default: s.standardArm, Best: s.standardArm,
		RunnersUp: []RunnerUp{}, Cuts: []Cut{}, Warnings: []string{},
	}
	if err := s.begin(measuring); err != nil {
		s.verdict.Stopped = s.ended(measuring, err.Error())
		if measuring.Err() != nil {
			err = nil
		}
		return s, err
	}
	s.explore(measuring)
	s.duel(measuring)
	s.flush()
	return s, nil
}

// ended says why a step stopped: somebody interrupted it, the budget ended, or else.
func (s *search) ended(measuring context.Context, otherwise string) string {
	switch {
	case s.caller.Err() != nil:
		return "interrupted"
	case measuring.Err() != nil:
		return "the budget was used up"
	}
	return otherwise
}

// begin makes the space and the strategy, tells it what is known, and prepares the default.
func (s *search) begin(ctx context.Context) error {
	space, err := s.problem.Space(s.regime)
	if err != nil {
		return err
	}
	s.space = space
	s.verdict.SpaceSize = space.Size()
	for _, c := range space.Cuts() {
		s.verdict.Cuts = append(s.verdict.Cuts, Cut{Reason: c.Reason, Points: c.Points})
	}
	if err := s.calibrate(ctx); err != nil {
		return err
	}
	s.searchEnd = s.end.Add(-s.duelTime(s.end.Sub(s.now())))
	name := s.budget.Strategy
	if name == "" {
		name = "auto"
	}
	s.strategy, err = bandit.New(name, space, bandit.Options{
		Seed: s.budget.Seed, Start: s.starts(), Budget: max(0, int(s.searchEnd.Sub(s.now())/s.block)),
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadBudget, err)
	}
	s.tellKnown()
	return nil
}

// duelTime is the part of what is left that the duel gets: two fifths, or in a short run what it takes to decide on one
// finalist of each layout, since a search whose result cannot be proven is for nothing; but never all.
func (s *search) duelTime(left time.Duration) time.Duration {
	least := s.decision() * time.Duration(len(s.problem.layouts()))
	return min(max(left*2/5, least), left*4/5, finalists*duelBlocks*s.round)
}

// decision is about how long it takes to decide on a finalist with a large gain: the first look, and a quarter of it for
// preparing and warming up.
func (s *search) decision() time.Duration { return leastBlocks * s.round * 5 / 4 }

// calibrate prepares the default and the yardstick, finds how long paired blocks take, and in the first regime measures
// what this host cannot tell from no gain.
func (s *search) calibrate(ctx context.Context) (err error) {
	var standard, base time.Duration
	if s.standard, standard, err = s.ready(ctx, s.standardArm); err != nil {
		return fmt.Errorf("%s: default %s: %w", s.regime, s.standardArm, err)
	}
	s.base, base, err = s.ready(ctx, s.baseArm)
	if err != nil && ctx.Err() == nil && s.baseArm != s.standardArm {
		s.disown(err)
		s.base, base, s.baseArm, err = s.standard, standard, s.standardArm, nil
	}
	if err != nil {
		return fmt.Errorf("%s: heuristic %s: %w", s.regime, s.baseArm, err)
	}
	s.block, s.round = 4*base, 2*standard+2*base
	if err := s.noise(ctx); err != nil {
		return err
	}
	if s.floor > busyFloor {
		s.verdict.Warnings = append(s.verdict.Warnings, fmt.Sprintf("the host is busy: it cannot tell gains below %.0f %%; tune again when it is idle", 100*s.floor))
	}
	return nil
}

// disown takes down that the heuristic cannot be used here, so that it is neither the yardstick nor the answer.
func (s *search) disown(err error) {
	a := &arm{arm: s.baseArm, status: StatusOf(err)}
	s.disprove(s.baseArm, err)
	s.verdict.Failed++
	s.verdict.Warnings = append(s.verdict.Warnings, fmt.Sprintf("the heuristic %s cannot be used: %v", s.baseArm, err))
	s.keep(a, bandit.Trial{Status: a.status}, nil, err.Error())
}

// ready prepares an arm, warms it up, and returns how long one sample of it takes.
func (s *search) ready(ctx context.Context, a target.Arm) (measure.Subject, time.Duration, error) {
	subject, err := s.target.Prepare(ctx, s.regime, a)
	if err != nil {
		return subject, 0, err
	}
	warm, err := s.timer.Warm(ctx, subject)
	if err != nil {
		return subject, 0, err
	}
	if !warm.Steady {
		s.warn(fmt.Sprintf("%s: %s never became steady while warming up", s.regime, a))
	}
	const samples = 3
	started := s.now()
	sample, err := s.timer.Measure(ctx, subject, samples)
	if a == s.standardArm {
		s.verdict.DefaultNs = sample.Median
	}
	return subject, max(s.now().Sub(started)/samples, time.Microsecond), err
}

// noise measures the noise floor, once per run.
func (s *search) noise(ctx context.Context) error {
	if s.floor > 0 {
		return nil
	}
	blocks := int(s.end.Sub(s.now()) / 20 / s.block)
	floor, err := s.timer.NoiseFloor(ctx, s.base, min(max(blocks, 8), 20))
	if errors.Is(err, measure.ErrFewSamples) {
		s.warn("the noise floor could not be measured: " + err.Error())
		return nil
	}
	s.floor = floor
	return err
}

// starts are the arms asked for first: those of Problem.Starts, what an earlier run proved, and what other hosts of this
// class did.
func (s *search) starts() []bandit.Point {
	points := s.problem.Starts(s.space, s.regime)
	snapshot, err := s.tuner.snapshot()
	if err != nil {
		snapshot = nil // told when the run began
	}
	if v, ok := s.problem.proven(snapshot, s.regime); ok && v.Verdict == measure.Adopt {
		if p, inside := s.problem.pointOf(s.space, v.Best); inside {
			points = append(points, p)
			s.learned = &v.Best
		}
	}
	for _, a := range s.hinted() {
		if p, inside := s.problem.pointOf(s.space, a); inside {
			points = append(points, p)
		}
	}
	return points
}

// tellKnown resumes: the yardstick costs 1 by definition, and whatever earlier runs measured against this very yardstick
// with this very kernel table is told to the strategy.
func (s *search) tellKnown() {
	if p, ok := s.problem.pointOf(s.space, s.baseArm); ok {
		s.strategy.Tell(bandit.Trial{Point: p, Status: bandit.OK, Costs: []float64{1, 1, 1, 1}})
	}
	trials, err := s.known()
	if err != nil {
		s.warn("earlier measurements could not be read: " + err.Error())
	}
	points := map[int]bool{}
	for _, trial := range trials {
		i, _ := s.space.Index(trial.Point)
		points[i] = true
	}
	s.verdict.Known = len(points)
	s.strategy.Tell(trials...)
}

// explore asks, measures and tells until the time for searching is used up or there is nothing left to learn.
func (s *search) explore(ctx context.Context) {
	for {
		switch {
		case ctx.Err() != nil:
			s.verdict.Stopped = s.ended(ctx, "")
			return
		case s.lost() != nil:
			s.verdict.Stopped = "the target was lost: " + s.lost().Error()
			return
		case !s.now().Before(s.searchEnd):
			s.verdict.Stopped = "the time for searching was used up"
			return
		}
		_, err := measure.Rest(ctx)
		if ctx.Err() != nil {
			continue // the end is told above
		}
		if err != nil {
			s.verdict.Stopped = err.Error()
			return
		}
		asked := s.strategy.Ask(1)
		if len(asked) == 0 {
			s.verdict.Stopped = exhausted
			return
		}
		for _, trial := range asked {
			done, ok := s.evaluate(ctx, trial)
			if !ok {
				return
			}
			s.strategy.Tell(done)
			s.report(trial.Point)
		}
	}
}

// evaluate measures a trial in paired blocks against the yardstick. It is not ok when the context ended before anything
// was measured.
func (s *search) evaluate(ctx context.Context, trial bandit.Trial) (bandit.Trial, bool) {
	started := s.now()
	a := s.prepare(ctx, trial.Point)
	if ctx.Err() != nil {
		s.verdict.Stopped = s.ended(ctx, "")
		return trial, false
	}
	done := bandit.Trial{Point: trial.Point, Status: a.status}
	note := a.note
	var samples []float64
	if a.pair != nil {
		before := a.pair.Result()
		for i := 0; i < max(1, trial.Want) && a.status == bandit.OK; i++ {
			if err := a.pair.Block(ctx); err != nil && ctx.Err() == nil {
				s.fail(a, err)
			}
		}
		after := a.pair.Result()
		for _, l := range after.LogRatios[len(before.LogRatios):] {
			done.Costs = append(done.Costs, math.Exp(-l))
		}
		samples = after.Cand.Samples[len(before.Cand.Samples):]
		s.verdict.Censored += after.Censored - before.Censored
		done.Status, note = a.status, a.note
		if a.status == bandit.OK && len(done.Costs) == 0 && ctx.Err() == nil {
			note = "every sample was censored: the host was throttled or its CPU stolen"
		}
	}
	done.Elapsed = s.now().Sub(started)
	s.keep(a, done, samples, note)
	return done, true
}

// prepare returns the arm of a point, made ready and proven correct the first time it is asked for.
func (s *search) prepare(ctx context.Context, point bandit.Point) *arm {
	i, _ := s.space.Index(point)
	if known, ok := s.arms[i]; ok {
		return known
	}
	a := &arm{arm: s.problem.ArmAt(s.space, point), status: bandit.OK}
	subject, err := s.target.Prepare(ctx, s.regime, a.arm)
	if ctx.Err() != nil {
		return a
	}
	s.arms[i] = a
	s.verdict.Evaluations++
	if err != nil {
		s.fail(a, err)
		return a
	}
	a.pair = s.timer.Pair(s.base, subject)
	return a
}

// fail takes down why an arm cannot be measured further.
func (s *search) fail(a *arm, err error) {
	a.status, a.note = StatusOf(err), err.Error()
	s.verdict.Failed++
	s.disprove(a.arm, err)
}

// StatusOf is the kind of a target's error; nil is OK.
func StatusOf(err error) bandit.Status {
	switch {
	case err == nil:
		return bandit.OK
	case errors.Is(err, target.ErrMismatch):
		return bandit.Mismatch
	case errors.Is(err, target.ErrRejected):
		return bandit.Rejected
	case errors.Is(err, target.ErrOutOfMemory):
		return bandit.OutOfMemory
	}
	return bandit.Crash
}

// duel compares the most promising arms with the default on fresh samples, those of the search being biased by the
// choice, and decides. The intervals are widened for the number of finalists (Bonferroni), since the best is taken.
// Where an earlier run proved an arm, nothing is decided unless that arm could be compared again, or turned out wrong.
func (s *search) duel(ctx context.Context) {
	s.late(ctx)
	rivals := s.rivals()
	s.unrivalled = len(rivals) == 0
	var duels []contender
	for i, a := range rivals {
		share := s.end.Sub(s.now()) / time.Duration(len(rivals)-i)
		c, err := s.compare(ctx, a, len(rivals), share)
		if c.Blocks > 0 && err == nil {
			duels = append(duels, contender{arm: a, comparison: c, verdict: measure.Decide(c, minGain, 0)})
			continue
		}
		if s.learned != nil && a == *s.learned && !errors.Is(err, target.ErrMismatch) {
			s.verdict.Warnings = append(s.verdict.Warnings, "what an earlier run proved could not be compared again, and stays")
			return
		}
	}
	s.duels = duels
}

// contender is a finalist with its fresh comparison.
type contender struct {
	arm        target.Arm
	comparison measure.Comparison
	verdict    measure.Verdict
}

// rivals are the arms that duel with the default, as many as there is time to decide on: what an earlier run proved, the
// strategy's best of each layout, that of the default's first, since it is the answer where another one is not proven
// throughout; what another host of this class proved; the heuristic, so that a search misled by a busy host is put right;
// and more of the strategy's.
func (s *search) rivals() []target.Arm {
	var wanted []target.Arm
	if s.learned != nil {
		wanted = append(wanted, *s.learned)
	}
	ranked := slices.DeleteFunc(s.ranked(), func(a target.Arm) bool { return a == s.standardArm }) // a busy host may rank the default first
	wanted = append(wanted, leaders(ranked)...)
	hinted := s.hinted()
	wanted = append(wanted, hinted[:min(1, len(hinted))]...)
	if len(ranked) > 0 {
		wanted = append(wanted, s.baseArm)
	}
	wanted = append(wanted, ranked...)
	most := min(max(finalists, len(s.problem.layouts()))+min(1, len(hinted)), max(1, int(s.end.Sub(s.now())/s.decision())))
	var list []target.Arm
	for _, a := range wanted {
		if len(list) < most && a != s.standardArm && !slices.Contains(list, a) { // the heuristic may be the default
			list = append(list, a)
		}
	}
	return list
}

// ranked are the arms that the strategy has measured, its best first.
func (s *search) ranked() []target.Arm {
	r, ok := s.strategy.(bandit.Recommender)
	if !ok {
		return nil
	}
	var list []target.Arm
	for _, point := range r.Recommend(s.space.Size()) {
		list = append(list, s.problem.ArmAt(s.space, point))
	}
	return list
}

// leaders are the first arm of each layout, the default's layout before the others.
func leaders(ranked []target.Arm) []target.Arm {
	var list []target.Arm
	for _, a := range ranked {
		if slices.ContainsFunc(list, func(b target.Arm) bool { return b.Layout == a.Layout }) {
			continue
		}
		if a.Layout == DefaultLayout {
			list = slices.Insert(list, 0, a)
		} else {
			list = append(list, a)
		}
	}
	return list
}

// compare duels one finalist with the default in at most share. When ctx ends, what was measured by then counts.
func (s *search) compare(ctx context.Context, a target.Arm, of int, share time.Duration) (measure.Comparison, error) {
	s.tell(Event{Phase: "duel", Regime: s.regime, Text: "duel with the default: " + a.String(), Evaluations: s.verdict.Evaluations, SpaceSize: s.space.Size()})
	var c measure.Comparison
	subject, err := s.target.Prepare(ctx, s.regime, a)
	if err == nil {
		blocks := min(max(int(share*4/5/s.round), leastBlocks), duelBlocks) // a fifth is for warming up and for luck
		c, err = s.timer.Compare(ctx, s.standard, subject, measure.CompareOptions{
			Blocks: blocks, Looks: min(duelLooks, blocks/leastBlocks),
			Confidence: 1 - (1-duelConfidence)/float64(of), MinGain: minGain,
		})
		s.verdict.Censored += c.Censored
	}
	if ctx.Err() != nil {
		return c, nil
	}
	if err != nil {
		s.disprove(a, err)
		s.verdict.Warnings = append(s.verdict.Warnings, fmt.Sprintf("%s failed in the duel: %v", a, err))
	}
	return c, err
}

// best is the winner of a layout's contenders, if it has any.
func (s *search) best(layout kernels.Layout) (contender, bool) {
	duels := byLayout(s.duels, layout)
	if len(duels) == 0 {
		return contender{}, false
	}
	return s.winner(duels), true
}

// keeps reports whether the default stays for want of anything better in its layout: a duel said so, or the whole space
// was tried and all but the default failed, or there is nothing else to be tried since an operator pinned it all.
func (s *search) keeps(layout kernels.Layout) bool {
	if c, ok := s.best(layout); ok {
		return c.verdict == measure.Keep
	}
	return s.unrivalled && s.verdict.Stopped == exhausted && (s.verdict.Evaluations+s.verdict.Known > 0 || s.space.Size() == 1 && s.baseArm == s.standardArm)
}

// settle takes the verdict from the duels of a layout.
func (s *search) settle(layout kernels.Layout) {
	for _, d := range s.duels {
		s.verdict.RunnersUp = append(s.verdict.RunnersUp, RunnerUp{Arm: d.arm, Ratio: ratioOf(d.comparison)})
	}
	winner, ok := s.best(layout)
	if !ok {
		if layout == s.standardArm.Layout && s.keeps(layout) {
			s.verdict.Verdict = measure.Keep
		} else {
			s.verdict.Warnings = append(s.verdict.Warnings, fmt.Sprintf("nothing in layout %s could be compared with the default by the end of the time", layout))
		}
		return
	}
	s.verdict.Verdict = winner.verdict
	s.verdict.Best = winner.arm
	s.verdict.Ratio = ratioOf(winner.comparison)
	s.verdict.Blocks = winner.comparison.Blocks
	s.verdict.OverHeuristic = s.overHeuristic(winner.arm)
	s.verdict.DefaultNs, s.verdict.BestNs = winner.comparison.Base.Median, winner.comparison.Cand.Median
	for _, w := range winner.comparison.Warnings {
		s.verdict.Warnings = append(s.verdict.Warnings, w.Error())
	}
}

// overHeuristic is what the search gained over the answer from facts alone: the ratio in the trials' own blocks, which
// chose the arm and so flatter it a little. It is 1 where the winner is the heuristic, 0 where it was not measured.
func (s *search) overHeuristic(a target.Arm) float64 {
	if a == s.baseArm {
		return 1
	}
	point, _ := s.problem.pointOf(s.space, a)
	i, _ := s.space.Index(point)
	if known := s.arms[i]; known != nil && known.pair != nil && known.pair.Result().Blocks > 0 {
		return known.pair.Result().Ratio
	}
	return 0
}

// winner is the fastest of those that are proven better; where none is, of those that are undecided, since a gain is then
// not ruled out; else of all. Others that the duel cannot tell from it are as good: then what an earlier run proved
// stays, else on a GPU the smaller workspace, else the strategy's order decides, which rests on all evidence and not on the luck of one duel. So the same host
// mostly gives the same answer. And what an earlier run proved is not replaced by a slower arm because this run could
// not prove it again.
func (s *search) winner(duels []contender) contender {
	var group []contender
	for _, verdict := range []measure.Verdict{measure.Adopt, measure.Inconclusive, measure.Keep} {
		for _, d := range duels {
			if d.verdict == verdict {
				group = append(group, d)
			}
		}
		if len(group) > 0 {
			break
		}
	}
	fastest := slices.MaxFunc(group, func(a, b contender) int { return cmp.Compare(a.comparison.Ratio, b.comparison.Ratio) })
	for _, d := range duels {
		if s.learned != nil && d.arm == *s.learned && d.verdict != measure.Keep && d.comparison.Ratio >= fastest.comparison.Low {
			return d
		}
	}
	tied := slices.DeleteFunc(group, func(d contender) bool { return d.comparison.Ratio < fastest.comparison.Low })
	if s.problem.Target == targetCUDA { // where memory is what a model and its users compete for
		return slices.MinFunc(tied, func(a, b contender) int {
			return cmp.Compare(s.problem.domain().workspace(a.arm), s.problem.domain().workspace(b.arm))
		})
	}
	return tied[0]
}

// ratioOf is a comparison's ratio; an interval that is still unbounded becomes 0 to 0, unknown.
func ratioOf(c measure.Comparison) Ratio {
	r := Ratio{Estimate: c.Ratio, Low: c.Low, High: c.High, Confidence: c.Confidence}
	if c.High == math.MaxFloat64 {
		r.Low, r.High = 0, 0
	}
	return r
}

// report tells the progress of the search.
func (s *search) report(point bandit.Point) {
	if s.led.IsZero() || s.now().Sub(s.led) > time.Second {
		s.lead()
	}
	s.tell(Event{
		Phase: "search", Regime: s.regime, Text: s.problem.ArmAt(s.space, point).String(), Incumbent: s.leader, Ratio: s.ratio,
		Evaluations: s.verdict.Evaluations, SpaceSize: s.space.Size(),
	})
}

// lead asks the strategy for the best arm so far, which costs it some work.
func (s *search) lead() {
	r, ok := s.strategy.(bandit.Recommender)
	if !ok {
		return
	}
	s.led = s.now()
	for _, best := range r.Recommend(1) {
		s.leader, s.ratio = s.problem.ArmAt(s.space, best).String(), 0
		i, _ := s.space.Index(best)
		if a := s.arms[i]; a != nil && a.pair != nil {
			s.ratio = a.pair.Result().Ratio
		}
	}
}
