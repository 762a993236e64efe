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
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// How a duel decides.
const (
	duelConfidence = 0.99 // of the interval that must clear the threshold
	minGain        = 0.01 // a gain below 1 % is not worth another configuration
	finalists      = 3
	duelBlocks     = 96 // at most; half prove a gain of 5 % on a noisy shared host
	leastBlocks    = 12 // between looks, and at the least: below it the interval of three finalists is unbounded
	duelLooks      = 8  // how often, at the most, a duel asks whether it is decided
)

// search is the tuning of one regime: what its steps share. Trials are paired with the heuristic, which is the incumbent
// when nothing is known: on a host where the default is several times slower, pairing with the default would spend most
// of the time on it.
type search struct {
	*tune
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

// regime tunes one regime until end.
func (r *tune) regime(ctx context.Context, regime target.Regime, end time.Time) (RegimeVerdict, error) {
	s := &search{tune: r, regime: regime, arms: map[int]*arm{}, end: end, standardArm: r.problem.Default().Arm(regime), baseArm: r.problem.Heuristic().Arm(regime)}
	s.verdict = RegimeVerdict{
		Regime: regime, Verdict: measure.Inconclusive, Default: s.standardArm, Best: s.standardArm,
		RunnersUp: []RunnerUp{}, Cuts: []Cut{}, Warnings: []string{},
	}
	if err := s.begin(ctx); err != nil {
		if ctx.Err() != nil {
			s.verdict.Stopped = "interrupted before the default was measured"
			return s.verdict, nil
		}
		return s.verdict, err
	}
	s.explore(ctx)
	s.duel(ctx)
	return s.verdict, nil
}

// begin makes the space and the strategy, tells it what is known, and prepares the default.
func (s *search) begin(ctx context.Context) error {
	space, err := s.problem.space(s.regime)
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
	left := s.end.Sub(s.now())
	s.searchEnd = s.end.Add(-min(left*2/5, finalists*duelBlocks*s.round))
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

// calibrate prepares the default and the yardstick, finds how long paired blocks take, and in the first regime measures
// what this host cannot tell from no gain.
func (s *search) calibrate(ctx context.Context) (err error) {
	var standard, base time.Duration
	if s.standard, standard, err = s.ready(ctx, s.standardArm); err != nil {
		return fmt.Errorf("%s: default %s: %w", s.regime, s.standardArm, err)
	}
	if s.base, base, err = s.ready(ctx, s.baseArm); err != nil {
		return fmt.Errorf("%s: heuristic %s: %w", s.regime, s.baseArm, err)
	}
	s.block, s.round = 4*base, 2*standard+2*base
	return s.noise(ctx)
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

// starts are the arms asked for first: the heuristic, the default, and what an earlier run proved.
func (s *search) starts() []bandit.Point {
	var points []bandit.Point
	add := func(a target.Arm) {
		if p, ok := pointOf(s.space, a); ok {
			points = append(points, p)
		}
	}
	add(s.baseArm)
	add(s.standardArm)
	snapshot, err := s.tuner.snapshot()
	if err != nil || snapshot == nil {
		return points
	}
	for _, c := range s.problem.learned(snapshot) {
		if c.ok {
			a := c.plan.Config.Arm(s.regime)
			add(a)
			if s.learned == nil && c.source == Measured {
				s.learned = &a
			}
		}
	}
	return points
}

// tellKnown resumes: the yardstick costs 1 by definition, and whatever earlier runs measured against this very yardstick
// with this very kernel table is told to the strategy.
func (s *search) tellKnown() {
	if p, ok := pointOf(s.space, s.baseArm); ok {
		s.strategy.Tell(bandit.Trial{Point: p, Status: bandit.OK, Costs: []float64{1, 1, 1, 1}})
	}
	trials, err := s.known()
	if err != nil {
		s.warn("earlier measurements could not be read: " + err.Error())
	}
	s.verdict.Known = len(trials)
	s.strategy.Tell(trials...)
}

// explore asks, measures and tells until the time for searching is used up or there is nothing left to learn.
func (s *search) explore(ctx context.Context) {
	for {
		switch {
		case ctx.Err() != nil:
			s.verdict.Stopped = "interrupted"
			return
		case !s.now().Before(s.searchEnd):
			s.verdict.Stopped = "the time for searching was used up"
			return
		}
		asked := s.strategy.Ask(1)
		if len(asked) == 0 {
			s.verdict.Stopped = "nothing left to learn"
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
		s.verdict.Stopped = "interrupted"
		return trial, false
	}
	var before measure.Comparison
	if a.pair != nil {
		before = a.pair.Result()
		for range max(1, trial.Want) {
			if err := a.pair.Block(ctx); err != nil {
				a.fail(ctx, err)
				break
			}
		}
	}
	done := bandit.Trial{Point: trial.Point, Status: a.status, Elapsed: s.now().Sub(started)}
	var fresh measure.Comparison
	if a.pair != nil {
		fresh = a.pair.Result()
		for _, l := range fresh.LogRatios[len(before.LogRatios):] {
			done.Costs = append(done.Costs, math.Exp(-l))
		}
		s.verdict.Censored += fresh.Censored - before.Censored
	}
	if a.status == bandit.OK && len(done.Costs) == 0 {
		a.note = "every sample was censored: the host was throttled or its CPU stolen"
	}
	s.record(a, done, fresh)
	return done, true
}

// prepare returns the arm of a point, made ready and proven correct the first time it is asked for.
func (s *search) prepare(ctx context.Context, point bandit.Point) *arm {
	i, _ := s.space.Index(point)
	if known, ok := s.arms[i]; ok {
		return known
	}
	a := &arm{arm: s.problem.armAt(s.space, point), status: bandit.OK}
	subject, err := s.target.Prepare(ctx, s.regime, a.arm)
	if ctx.Err() != nil {
		return a
	}
	s.arms[i] = a
	s.verdict.Evaluations++
	if err != nil {
		a.fail(ctx, err)
		s.verdict.Failed++
		return a
	}
	a.pair = s.timer.Pair(s.base, subject)
	return a
}

// fail takes down why an arm cannot be measured further; a cancelled context is no fault of the arm.
func (a *arm) fail(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, target.ErrMismatch):
		a.status = bandit.Mismatch
	case errors.Is(err, target.ErrRejected):
		a.status = bandit.Rejected
	case errors.Is(err, target.ErrOutOfMemory):
		a.status = bandit.OutOfMemory
	default:
		a.status = bandit.Crash
	}
	a.note = err.Error()
}

// duel compares the most promising arms with the default on fresh samples, those of the search being biased by the
// choice, and decides. The intervals are widened for the number of finalists (Bonferroni), since the best is taken.
func (s *search) duel(ctx context.Context) {
	var duels []contender
	rivals := s.rivals()
	for i, a := range rivals {
		share := s.end.Sub(s.now()) / time.Duration(len(rivals)-i)
		c := s.compare(ctx, a, len(rivals), share)
		if c.Blocks > 0 {
			duels = append(duels, contender{arm: a, comparison: c, verdict: measure.Decide(c, minGain, 0)})
		}
	}
	if len(rivals) == 0 && ctx.Err() == nil { // nothing but the default works here
		s.verdict.Verdict = measure.Keep
		s.verdict.Ratio = Ratio{Estimate: 1, Low: 1, High: 1, Confidence: duelConfidence}
	}
	if len(duels) > 0 {
		s.settle(duels)
	}
}

// contender is a finalist with its fresh comparison.
type contender struct {
	arm        target.Arm
	comparison measure.Comparison
	verdict    measure.Verdict
}

// rivals are the arms that duel with the default: the strategy's best and what an earlier run proved.
func (s *search) rivals() []target.Arm {
	recommended, ok := s.strategy.(bandit.Recommender)
	if !ok {
		return nil
	}
	var list []target.Arm
	for _, point := range recommended.Recommend(finalists + 1) {
		if a := s.problem.armAt(s.space, point); a != s.standardArm {
			list = append(list, a)
		}
	}
	most := min(finalists, max(1, int(s.end.Sub(s.now())/(2*leastBlocks*s.round)))) // as many as there is time to decide on
	list = list[:min(most, len(list))]
	if s.learned == nil || *s.learned == s.standardArm || slices.Contains(list, *s.learned) {
		return list
	}
	return append(list[:min(most-1, len(list))], *s.learned)
}

// compare duels one finalist with the default in at most share.
func (s *search) compare(ctx context.Context, a target.Arm, of int, share time.Duration) measure.Comparison {
	s.tell(Event{Phase: "duel", Regime: s.regime, Text: "duel with the default: " + a.String(), Evaluations: s.verdict.Evaluations, SpaceSize: s.space.Size()})
	subject, err := s.target.Prepare(ctx, s.regime, a)
	if err != nil {
		return measure.Comparison{}
	}
	blocks := min(max(int(share*4/5/s.round), leastBlocks), duelBlocks) // a fifth is for warming up and for luck
	c, err := s.timer.Compare(ctx, s.standard, subject, measure.CompareOptions{
		Blocks: blocks, Looks: min(duelLooks, blocks/leastBlocks),
		Confidence: 1 - (1-duelConfidence)/float64(of), MinGain: minGain,
	})
	s.verdict.Censored += c.Censored
	if err != nil && ctx.Err() == nil {
		s.verdict.Warnings = append(s.verdict.Warnings, fmt.Sprintf("%s failed in the duel: %v", a, err))
		return measure.Comparison{}
	}
	return c
}

// settle takes the winner among the contenders.
func (s *search) settle(duels []contender) {
	winner := s.winner(duels)
	s.verdict.Verdict = winner.verdict
	s.verdict.Best = winner.arm
	s.verdict.Ratio = ratioOf(winner.comparison)
	s.verdict.Blocks = winner.comparison.Blocks
	s.verdict.OverHeuristic = s.overHeuristic(winner.arm)
	s.verdict.DefaultNs, s.verdict.BestNs = winner.comparison.Base.Median, winner.comparison.Cand.Median
	for _, d := range duels {
		s.verdict.RunnersUp = append(s.verdict.RunnersUp, RunnerUp{Arm: d.arm, Ratio: ratioOf(d.comparison)})
	}
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
	point, _ := pointOf(s.space, a)
	i, _ := s.space.Index(point)
	if known := s.arms[i]; known != nil && known.pair != nil {
		return known.pair.Result().Ratio
	}
	return 0
}

// winner is the fastest of those that are proven better, or of all where none is, unless the duel cannot tell others
// from it: then what an earlier run proved stays, else the strategy's order decides, which rests on all evidence, that
// of earlier runs too, and not on the luck of one duel. So the same host mostly gives the same answer.
func (s *search) winner(duels []contender) contender {
	proven := slices.DeleteFunc(slices.Clone(duels), func(d contender) bool { return d.verdict != measure.Adopt })
	if len(proven) == 0 {
		proven = duels
	}
	fastest := slices.MaxFunc(proven, func(a, b contender) int { return cmp.Compare(a.comparison.Ratio, b.comparison.Ratio) })
	tied := slices.DeleteFunc(slices.Clone(proven), func(d contender) bool { return d.comparison.Ratio < fastest.comparison.Low })
	for _, d := range tied {
		if s.learned != nil && d.arm == *s.learned {
			return d
		}
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
	if s.leader == "" || s.now().Sub(s.led) > time.Second {
		s.lead()
	}
	s.tell(Event{
		Phase: "search", Regime: s.regime, Text: s.problem.armAt(s.space, point).String(), Incumbent: s.leader, Ratio: s.ratio,
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
		i, _ := s.space.Index(best)
		if a := s.arms[i]; a != nil && a.pair != nil {
			s.leader, s.ratio = a.arm.String(), a.pair.Result().Ratio
		}
	}
}

func (s *search) warn(text string) { s.warnings = append(s.warnings, text) }
