package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// Options bound a search. Only Budget is needed.
type Options struct {
	Budget time.Duration // of everything, loading the model each time included
	// Runs is the most processes to start before the duel. If 0, 25.
	Runs int
	// Pairs is the most pairs of the duel. If 0, 16; fewer than 6 decide nothing.
	Pairs int
	// MinGain is the gain below which another setting is not worth it. If 0, 0.01.
	MinGain float64
	Seed    uint64           // of the order within the pairs
	Now     func() time.Time // the clock of the budget; nil = time.Now
	Watch   measure.Watcher  // says when the host took time away; nil = nobody does
	Heat    func() float64   // degrees Celsius of the hottest sensor, 0 unknown; nil = nobody knows
	Tell    func(Measured)   // is told of each process, on the caller's goroutine; nil = nobody is
}

// Measured is one process: what was asked and what came of it.
type Measured struct {
	Phase     string               `json:"phase"` // default, threads, batch, others, interactions, confirm, duel
	Setting   Setting              `json:"setting"`
	Regimes   []string             `json:"regimes"`
	Status    Status               `json:"status"`
	Note      string               `json:"note,omitempty"`
	Samples   map[string][]float64 `json:"samples_ns,omitempty"` // ns per unit
	Elapsed   time.Duration        `json:"elapsed_ns"`           // with loading the model
	Loading   time.Duration        `json:"loading_ns"`           // of that, not in the samples; 0 unknown
	Cold      bool                 `json:"cold,omitempty"`       // the first of the session: its files may have come from the disk
	Celsius   float64              `json:"celsius,omitempty"`    // hottest sensor afterwards
	Throttled bool                 `json:"throttled,omitempty"`  // the CPU quota ran out meanwhile
	// Relative is the cost over that of the default around it, by regime; less is better. Nothing is known of the duel's,
	// which is in Certificate.Ratio, and of the cold one.
	Relative map[string]float64 `json:"relative,omitempty"`

	costs map[string]float64 // centres of Samples
}

// cost is the centre of a regime's repetitions in ns per unit; 0 if there is none.
func (m Measured) cost(regime string) float64 { return m.costs[regime] }

// centres are the costs of a process. A late repetition in five moves the centre little, and of clean ones it loses less than
// their median does.
func centres(samples map[string][]float64) map[string]float64 {
	costs := map[string]float64{}
	for regime, list := range samples {
		var logs []float64
		for _, ns := range list {
			logs = append(logs, math.Log(ns))
		}
		centre, _, _ := measure.Estimate(logs, duelConfidence)
		costs[regime] = math.Exp(centre)
	}
	return costs
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// ErrNoDefault means that the engine does not even run as it is.
var ErrNoDefault = errors.New("engine: it does not run with its own settings")

// ErrBudget means that the budget ended before anything could be compared.
var ErrBudget = errors.New("engine: the budget is too short")

// session is one search: what its steps share.
type session struct {
	engine  Engine
	what    Description
	opt     Options
	now     func() time.Time
	begun   time.Time
	end     time.Time
	phase   string
	runs    []Measured
	planned []Measured // candidates and defaults in the order they ran, without the duel
	best    Plan
	failed  map[string]string // regime and setting -> why
	standby map[string]string // the engine's own value of each knob, as it reported it
	stopped string
	through bool               // every stage was gone through
	first   measure.Counters   // when the session began
	shares  map[string]float64 // of the default's request
}

// Search finds a plan and duels it with the engine's default. The error is why nothing could be compared; what ran is in
// the certificate all the same.
func Search(ctx context.Context, e Engine, opt Options) (*Certificate, error) {
	s, err := newSession(ctx, e, opt)
	if err != nil {
		return nil, err
	}
	if err := s.standard(ctx); err != nil {
		return s.certificate(nil), err
	}
	s.explore(ctx)
	if ctx.Err() != nil && s.stopped == "" {
		s.stopped = "interrupted"
	}
	return s.certificate(s.duel(ctx)), nil
}

func newSession(ctx context.Context, e Engine, opt Options) (*session, error) {
	s := &session{engine: e, opt: opt, now: opt.Now, failed: map[string]string{}, standby: map[string]string{}, shares: map[string]float64{}}
	if s.now == nil {
		s.now = time.Now
	}
	if opt.Budget <= 0 {
		return nil, fmt.Errorf("%w: %v: a positive duration such as 10m", ErrBudget, opt.Budget)
	}
	var err error
	if s.what, err = e.Describe(ctx); err != nil {
		return nil, err
	}
	s.begun = s.now()
	s.end = s.begun.Add(opt.Budget)
	for _, k := range s.what.Knobs {
		if slices.Contains(k.Values, k.Own) {
			s.standby[k.Name] = k.Own
		}
	}
	return s, nil
}

func (s *session) maxRuns() int     { return orDefault(s.opt.Runs, 25) }
func (s *session) maxPairs() int    { return orDefault(s.opt.Pairs, 16) }
func (s *session) minGain() float64 { return orDefault(s.opt.MinGain, 0.01) }

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// regimes are the names of all regimes.
func (s *session) regimes() (names []string) {
	for _, r := range s.what.Regimes {
		names = append(names, r.Name)
	}
	return names
}

// standard runs the engine as it is: once cold, which counts for nothing but its time, and once warm.
func (s *session) standard(ctx context.Context) error {
	s.phase, s.best = "default", Plan{}
	for _, r := range s.regimes() {
		s.best[r] = nil
	}
	cold := s.start(ctx, nil, s.regimes())
	if cold.Status != OK {
		return fmt.Errorf("%w: %s: %s", ErrNoDefault, cold.Status, cold.Note)
	}
	warm := s.start(ctx, nil, s.regimes())
	if warm.Status != OK && warm.Status != Censored {
		return fmt.Errorf("%w: %s the second time: %s", ErrNoDefault, warm.Status, warm.Note)
	}
	var request float64
	for _, r := range s.what.Regimes {
		request += r.Units * warm.cost(r.Name)
	}
	for _, r := range s.what.Regimes {
		s.shares[r.Name] = r.Units * warm.cost(r.Name) / request
	}
	return nil
}

// patience is how much longer than the default a candidate may take before it hangs: a setting four times as slow is no
// candidate. A disk that is busy for a while is none of its business.
const (
	patience = 4
	grace    = 10 * time.Second
)

// limit is how long the next process may take.
func (s *session) limit() time.Duration {
	left := s.end.Sub(s.now())
	for _, m := range s.runs {
		if len(m.Setting) == 0 && m.Status == OK && !m.Cold {
			return max(min(left, patience*m.Elapsed+grace), time.Millisecond)
		}
	}
	return max(left, time.Millisecond)
}

// attempts is how often a process is started whose host was disturbed.
const attempts = 2

// start runs one process, again if the host was disturbed, and takes it down.
func (s *session) start(ctx context.Context, setting Setting, regimes []string) Measured {
	var m Measured
	for range attempts {
		m = s.once(ctx, setting, regimes)
		if m.Status != Censored || s.over() {
			break
		}
	}
	return m
}

func (s *session) once(ctx context.Context, setting Setting, regimes []string) Measured {
	var before measure.Counters
	var unwatched error
	stolen := false
	if s.opt.Watch != nil {
		before, unwatched = s.opt.Watch.Read()
		if len(s.runs) == 0 {
			s.first = before
		}
	}
	o := s.engine.Run(ctx, setting, regimes, s.limit())
	m := Measured{Phase: s.phase, Setting: setting, Regimes: regimes, Status: o.Status, Note: o.Note, Samples: o.Samples, Elapsed: o.Elapsed, Cold: len(s.runs) == 0}
	m.Loading, m.costs = s.loading(o), centres(o.Samples)
	if s.opt.Watch != nil && unwatched == nil {
		if after, err := s.opt.Watch.Read(); err == nil {
			m.Throttled, stolen = after.Throttled > before.Throttled, s.disturbed(before, after)
		}
	}
	if s.opt.Heat != nil {
		m.Celsius = s.opt.Heat()
	}
	if stolen && m.Status == OK && !m.Cold {
		m.Status, m.Note = Censored, "the hypervisor gave the CPU to others"
	}
	if len(setting) == 0 && o.Status == OK {
		for _, k := range s.what.Knobs {
			if v, ok := k.factValue(o.Facts); ok || k.Ordered && v != "" {
				s.standby[k.Name] = v
			}
		}
		maps.Copy(orMake(&s.what.Facts), o.Facts)
	}
	s.runs = append(s.runs, m)
	if s.phase != "duel" && !m.Cold {
		s.planned = append(s.planned, m)
	}
	if o.Status != OK && o.Status != Stopped {
		for _, r := range regimes {
			s.failed[r+" "+setting.String()] = string(o.Status) + ": " + o.Note
		}
	}
	if s.opt.Tell != nil {
		s.opt.Tell(m)
	}
	return m
}

func orMake(m *map[string]string) map[string]string {
	if *m == nil {
		*m = map[string]string{}
	}
	return *m
}

// When stolen CPU time spoils a process: more than a twentieth of it, and more than twice what this host usually takes; in less
// than a second the kernel's tick of 10 ms says nothing.
const (
	stolenShare = 0.05
	stolenLeast = time.Second
)

// disturbed reports whether the host took time away between two readings. A CPU quota that ran out is no disturbance: with
// fewer threads it would not have, which is what the search is about.
func (s *session) disturbed(before, after measure.Counters) bool {
	share := func(from measure.Counters) float64 {
		if after.At <= from.At {
			return 0
		}
		return float64(after.Steal-from.Steal) / float64(after.At-from.At)
	}
	return after.At-before.At >= stolenLeast && share(before) > max(stolenShare, 2*share(s.first))
}

// loading is what a process took besides its samples, where these are times of tokens.
func (s *session) loading(o Outcome) time.Duration {
	left := o.Elapsed
	for _, r := range s.what.Regimes {
		if r.Unit != perToken {
			return 0
		}
		for _, ns := range o.Samples[r.Name] {
			left -= time.Duration(ns * r.Units)
		}
	}
	return max(0, left)
}

// over reports whether the search has to end, and why: what is left belongs to the duel.
func (s *session) over() bool {
	if s.stopped != "" {
		return true
	}
	switch {
	case len(s.runs) >= s.maxRuns():
		s.stopped = fmt.Sprintf("%d processes were started", len(s.runs))
	case s.end.Sub(s.now()) < leastPairs*2*s.usual()+s.usual():
		s.stopped = "the time for searching was used up"
	}
	return s.stopped != ""
}

// usual is what a process takes.
func (s *session) usual() time.Duration {
	var list []float64
	for _, m := range s.runs {
		if m.Status == OK && !m.Cold {
			list = append(list, float64(m.Elapsed))
		}
	}
	return time.Duration(median(list))
}

// between is how many candidates run from one default to the next: each has a default right before or after it.
const between = 2

// spare is a setting without the values that the engine takes by itself: to name them is not another setting.
func (s *session) spare(setting Setting) Setting {
	kept := maps.Clone(setting)
	maps.DeleteFunc(kept, func(knob, value string) bool { return s.standby[knob] == value })
	return kept
}

// evaluate runs a plan's processes and says whether all went well. The default runs again when its turn comes.
func (s *session) evaluate(ctx context.Context, p Plan, regimes []string) bool {
	for setting, list := range p.processes(regimes) {
		if s.refused(setting, list) || ctx.Err() != nil || s.over() {
			return false
		}
		if s.sinceDefault() >= between && len(setting) > 0 {
			s.start(ctx, nil, s.regimes())
			if s.over() {
				return false
			}
		}
		if s.start(ctx, setting, list).Status != OK {
			return false
		}
	}
	return true
}

// processes are the settings of a plan with the regimes that each is for.
func (p Plan) processes(regimes []string) func(yield func(Setting, []string) bool) {
	return func(yield func(Setting, []string) bool) {
		done := map[string]bool{}
		for _, r := range regimes {
			if done[p[r].String()] {
				continue
			}
			done[p[r].String()] = true
			var same []string
			for _, other := range regimes {
				if maps.Equal(p[other], p[r]) {
					same = append(same, other)
				}
			}
			if !yield(p[r], same) {
				return
			}
		}
	}
}

// refused reports whether a setting is not possible, or failed before: it is not tried again.
func (s *session) refused(setting Setting, regimes []string) bool {
	if s.what.Reject != nil && s.what.Reject(setting) != nil {
		return true
	}
	return slices.ContainsFunc(regimes, func(r string) bool { return s.failed[r+" "+setting.String()] != "" })
}

func (s *session) sinceDefault() int {
	n := 0
	for _, m := range slices.Backward(s.planned) {
		if len(m.Setting) == 0 {
			break
		}
		n++
	}
	return n
}

// controls is how many runs of the default a candidate is compared with, the nearest ones: more would follow drift worse,
// fewer carry their own noise into every ratio.
const controls = 4

// ratio is the logarithm of what a setting costs in a regime over what the default costs around it: the mean over its runs.
func (s *session) ratio(regime string, setting Setting) (mean float64, ok bool) {
	if len(setting) == 0 {
		return 0, true
	}
	var sum float64
	n := 0
	for i, m := range s.planned {
		if m.Status != OK || !maps.Equal(m.Setting, setting) || m.cost(regime) == 0 {
			continue
		}
		if control, known := s.control(regime, i); known {
			sum += math.Log(m.cost(regime)) - control
			n++
		}
	}
	return sum / float64(max(1, n)), n > 0
}

// control is the mean logarithm of the default's cost in the runs nearest to the i-th.
func (s *session) control(regime string, i int) (float64, bool) {
	type at struct {
		distance int
		log      float64
	}
	var list []at
	for j, m := range s.planned {
		if len(m.Setting) == 0 && m.Status == OK && m.cost(regime) > 0 {
			list = append(list, at{max(i-j, j-i), math.Log(m.cost(regime))})
		}
	}
	slices.SortStableFunc(list, func(a, b at) int { return a.distance - b.distance })
	list = list[:min(controls, len(list))]
	var sum float64
	for _, a := range list {
		sum += a.log
	}
	return sum / float64(max(1, len(list))), len(list) > 0
}

// explore goes through the stages.
func (s *session) explore(ctx context.Context) {
	for _, k := range s.stage(Threads) {
		s.phase = "threads"
		s.bisect(ctx, k)
	}
	s.phase = "batch"
	s.evaluate(ctx, s.best, s.regimes()) // the luckiest of several is not as good as it looked
	s.settle()
	for _, k := range s.stage(Batch) {
		s.climb(ctx, k)
	}
	s.phase = "others"
	changed := false
	for _, k := range s.stage(Others) {
		changed = s.switchover(ctx, k) || changed
	}
	if changed {
		s.phase = "interactions"
		for _, k := range s.stage(Threads) {
			s.nudge(ctx, k)
		}
	}
	if s.through = s.stopped == "" && ctx.Err() == nil; !s.through {
		return
	}
	s.phase = "confirm"
	s.confirm(ctx)
}

func (s *session) stage(stage Stage) (list []Knob) {
	for _, k := range s.what.Knobs {
		if k.Stage == stage {
			list = append(list, k)
		}
	}
	return list
}

// heavy are the regimes of a knob that make up a part of the request worth a process.
func (s *session) heavy(k Knob) (names []string) {
	for _, r := range s.regimes() {
		if s.shares[r] >= 0.02 && (len(k.Regimes) == 0 || slices.Contains(k.Regimes, r)) {
			names = append(names, r)
		}
	}
	return names
}

// flat is the difference of two costs that is not worth a process: the noise of a run is larger.
const flat = 0.02

// bisect finds the best value of a unimodal knob for each regime at once: all values by halves first, and then the
// middles on either side of the best, until there is nothing between or the middles are no better. One process tells of
// every regime, so that the second curve costs only where it bends elsewhere.
func (s *session) bisect(ctx context.Context, k Knob) {
	tried := map[int]bool{}
	try := func(i int) {
		if i < 0 || i >= len(k.Values) || tried[i] {
			return
		}
		tried[i] = true
		plan := Plan{}
		for _, r := range s.regimes() {
			plan[r] = s.alone(k, i)
		}
		if len(plan[s.regimes()[0]]) > 0 { // else it is the default, which has run
			s.evaluate(ctx, plan, s.regimes())
		}
	}
	for i := len(k.Values); i >= 1 && !s.fallen(k, tried); i /= 2 {
		try(i - 1)
	}
	for _, regime := range s.heavyFirst(k) {
		for !s.over() {
			best, left, right := s.bracket(k, regime, tried)
			if best < 0 {
				break
			}
			before := len(tried)
			fine := max(1, (best+1)/8) // steps that make less of a difference than the noise of a process
			if right > best+fine {
				try((best + min(right, len(k.Values)-1) + 1) / 2)
			}
			if left < best-fine {
				try((best + max(left, 0)) / 2)
			}
			if len(tried) == before || !s.bends(k, regime, tried, best) {
				break
			}
		}
	}
	for _, r := range s.regimes() {
		if best, _, _ := s.bracket(k, r, tried); best >= 0 {
			with := s.spare(s.best[r].With(k.Name, k.Values[best]))
			if log, ok := s.ratio(r, with); ok && log < 0 {
				s.best[r] = with
			}
		}
	}
}

// alone is the i-th value of a knob, all else being the engine's own.
func (s *session) alone(k Knob, i int) Setting { return s.spare(Setting{k.Name: k.Values[i]}) }

// fallen reports whether the last two values tried, downwards, cost every regime clearly more than the best: of a unimodal
// knob nothing better lies below.
func (s *session) fallen(k Knob, tried map[int]bool) bool {
	down := slices.Sorted(maps.Keys(tried))
	if len(down) < 3 {
		return false
	}
	for _, regime := range s.heavy(k) {
		best, _, _ := s.bracket(k, regime, tried)
		least, _ := s.ratio(regime, s.alone(k, max(0, best)))
		for _, i := range down[:2] {
			if log, ok := s.ratio(regime, s.alone(k, i)); ok && log-least < 4*flat {
				return false
			}
		}
	}
	return true
}

// heavyFirst are the regimes of a knob, that with the largest share first.
func (s *session) heavyFirst(k Knob) []string {
	list := s.heavy(k)
	slices.SortStableFunc(list, func(a, b string) int {
		if s.shares[a] > s.shares[b] {
			return -1
		}
		return 1
	})
	return list
}

// bracket is the best value tried and the tried ones on either side of it, -1 and len where there is none.
func (s *session) bracket(k Knob, regime string, tried map[int]bool) (best, left, right int) {
	best, left, right = -1, -1, len(k.Values)
	var least float64
	for _, i := range slices.Sorted(maps.Keys(tried)) {
		log, ok := s.ratio(regime, s.alone(k, i))
		if ok && (best < 0 || log < least) {
			best, least = i, log
		}
	}
	for i := range tried {
		if i < best {
			left = max(left, i)
		}
		if i > best {
			right = min(right, i)
		}
	}
	return best, left, right
}

// bends reports whether the curve around the best value still tells its sides apart, so that there may be more between.
func (s *session) bends(k Knob, regime string, tried map[int]bool, before int) bool {
	best, left, right := s.bracket(k, regime, tried)
	if best != before {
		return true
	}
	at := func(i int) float64 {
		log, ok := s.ratio(regime, s.alone(k, max(0, min(i, len(k.Values)-1))))
		if !ok {
			return math.Inf(1)
		}
		return log
	}
	here := at(best)
	fine := max(1, (best+1)/8)
	return left < best-fine && at(left)-here > flat || right > best+fine && at(right)-here > flat
}

// climb moves an ordered knob from the engine's own value while it gains.
func (s *session) climb(ctx context.Context, k Knob) {
	at := slices.Index(k.Values, s.standby[k.Name])
	if at < 0 {
		at = len(k.Values) - 1
	}
	for _, step := range []int{1, -1} {
		moved := false
		for next := at + step; next >= 0 && next < len(k.Values) && s.improves(ctx, k, k.Values[next]); next += step {
			at, moved = next, true
		}
		if moved {
			break
		}
	}
}

// switchover tries the other values of a knob, one at a time.
func (s *session) switchover(ctx context.Context, k Knob) bool {
	changed := false
	for _, v := range k.Values {
		if v != s.standby[k.Name] && s.improves(ctx, k, v) {
			changed = true
		}
	}
	return changed
}

// nudge tries the neighbours of what was found for a knob, now that others have changed.
func (s *session) nudge(ctx context.Context, k Knob) {
	for _, r := range s.heavyFirst(k) {
		at := slices.Index(k.Values, orDefault(s.best[r][k.Name], s.standby[k.Name]))
		for _, next := range []int{at + 1, at - 1} {
			if at >= 0 && next >= 0 && next < len(k.Values) {
				one := k
				one.Regimes = []string{r}
				s.improves(ctx, one, k.Values[next])
			}
		}
	}
}

// improves tries a value in the best plan and takes it over where it gains. A gain that may be luck is measured again.
func (s *session) improves(ctx context.Context, k Knob, value string) bool {
	regimes := s.heavy(k)
	if len(regimes) == 0 || s.over() {
		return false
	}
	plan := s.spared(s.best.with(k.Name, value, s.regimes()))
	if k.Stage == Threads {
		plan = s.spared(s.best.with(k.Name, value, regimes))
	}
	if k.Beside != "" && s.less(plan[regimes[0]][k.Beside], s.standby[k.Beside], value) {
		plan = plan.with(k.Beside, value, s.regimes())
	}
	if !s.evaluate(ctx, plan, regimes) || s.gain(plan, regimes) < s.minGain() {
		return false
	}
	if s.gain(plan, regimes) < 4*s.minGain() && (!s.evaluate(ctx, plan, regimes) || s.gain(plan, regimes) < s.minGain()) {
		return false
	}
	s.best = plan
	return true
}

// spared is a plan of spare settings.
func (s *session) spared(p Plan) Plan {
	q := Plan{}
	for r, setting := range p {
		q[r] = s.spare(setting)
	}
	return q
}

// less reports whether what a knob is set to, or the engine's own value of it, is a number below value.
func (s *session) less(set, own, value string) bool {
	have, err := strconv.Atoi(orDefault(set, own))
	want, bad := strconv.Atoi(value)
	return err == nil && bad == nil && have < want
}

// gain is how much less of the request's time the regimes take with a plan than with the best so far.
func (s *session) gain(p Plan, regimes []string) float64 {
	var before, after float64
	for _, r := range regimes {
		a, known := s.ratio(r, s.best[r])
		b, ok := s.ratio(r, p[r])
		if !known || !ok {
			return 0
		}
		before += s.shares[r] * math.Exp(a)
		after += s.shares[r] * math.Exp(b)
	}
	return before/after - 1
}

// confirm spends what runs are left on the settings of each regime that are nearest to the best: the luckiest of many single
// runs is seldom the best.
func (s *session) confirm(ctx context.Context) {
	for !s.over() && ctx.Err() == nil {
		regime, setting := s.doubtful()
		if regime == "" || !s.evaluate(ctx, Plan{regime: setting}, []string{regime}) {
			return
		}
		s.settle()
	}
}

// confirmations is how often a setting is run at the most before the duel.
const confirmations = 3

// doubtful is the setting least often run among the two best thread counts of the heaviest regimes.
func (s *session) doubtful() (string, Setting) {
	fewest, regime, setting := confirmations, "", Setting(nil)
	for _, k := range s.stage(Threads) {
		for _, r := range s.heavyFirst(k) {
			list := s.ranked(r)
			for _, candidate := range list[:min(2, len(list))] {
				if n := s.times(r, candidate); n < fewest && len(candidate) > 0 {
					fewest, regime, setting = n, r, candidate
				}
			}
		}
	}
	return regime, setting
}

// ranked are the settings of a regime that differ from its best in the knobs of stage Threads alone, the cheapest first.
func (s *session) ranked(regime string) []Setting {
	seen := map[string]Setting{}
	for _, m := range s.planned {
		if _, ok := s.ratio(regime, m.Setting); ok && s.alike(m.Setting, s.best[regime]) {
			seen[m.Setting.String()] = m.Setting
		}
	}
	list := slices.Collect(maps.Values(seen))
	slices.SortFunc(list, func(a, b Setting) int {
		x, _ := s.ratio(regime, a)
		y, _ := s.ratio(regime, b)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return list
}

// alike reports whether two settings agree but for the knobs of stage Threads.
func (s *session) alike(a, b Setting) bool {
	strip := func(x Setting) Setting {
		y := maps.Clone(x)
		for _, k := range s.stage(Threads) {
			delete(y, k.Name)
		}
		return y
	}
	return len(strip(a)) == len(strip(b)) && maps.Equal(strip(a), strip(b))
}

func (s *session) times(regime string, setting Setting) (n int) {
	for _, m := range s.planned {
		if m.Status == OK && maps.Equal(m.Setting, setting) && m.cost(regime) > 0 {
			n++
		}
	}
	return n
}

// settle takes the best thread count of each regime by all that is known.
func (s *session) settle() {
	for _, r := range s.regimes() {
		if list := s.ranked(r); len(list) > 0 {
			s.best[r] = list[0]
		}
	}
}

// coin orders the two of a pair.
func (s *session) coin() *rand.Rand { return rand.New(rand.NewPCG(s.opt.Seed, s.opt.Seed)) }
