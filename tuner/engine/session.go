package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// Options bound a search. Only Budget is needed.
type Options struct {
	Budget time.Duration // of everything, loading the model each time included
	// Runs is the most processes before the duel, those of earlier sessions included. If 0, 25.
	Runs int
	// Pairs is the most pairs of the duel. If 0, 16; fewer than 7 decide nothing.
	Pairs int
	// MinGain is the gain below which another setting is not worth it. If 0, 0.01.
	MinGain float64
	Seed    uint64           // of the order within the pairs
	Now     func() time.Time // the clock of the budget; nil = time.Now
	Watch   measure.Watcher  // says when the host took time away; nil = nobody does
	Heat    func() Thermal   // nil = nobody knows
	// Rest waits until a hot host may have cooled. If nil, it lets the time pass.
	Rest func(context.Context, time.Duration)
	Tell func(Measured) // is told of each process, on the caller's goroutine; nil = nobody is
	// Recall is asked once the engine has run, with what it says of itself, for what earlier sessions measured of it under
	// the same conditions, in the order they ran. If nil, nothing is known.
	Recall func(facts map[string]string) []Measured
	// Ceiling is how many units of a regime a second nothing can exceed here with a value of a knob; 0 unknown. If nil, nothing
	// is known.
	Ceiling func(regime, knob, value string) float64
}

// Measured is one process: what was asked and what came of it.
type Measured struct {
	Session   uint64               `json:"-"`     // the earlier one that ran it; 0 this one
	Build     string               `json:"-"`     // of the engine, as it says
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
	// which is in Certificate.Ratio, and of the cold one. While the search goes on it is over the defaults before it.
	Relative map[string]float64 `json:"relative,omitempty"`

	costs map[string]float64 // centres of Samples
}

// cost is the centre of a regime's repetitions in ns per unit; 0 if there is none.
func (m Measured) cost(regime string) float64 { return m.costs[regime] }

// isDefault reports whether the engine ran as it is, and with success.
func (m Measured) isDefault() bool { return len(m.Setting) == 0 && m.Status == OK }

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

// Interrupted is why a search ended that its caller stopped.
const Interrupted = "interrupted"

// ErrBudget means that the budget ended before anything could be compared.
var ErrBudget = errors.New("engine: the budget is too short")

// session is one search: what its steps share.
type session struct {
	engine   Engine
	what     Description
	opt      Options
	now      func() time.Time
	begun    time.Time
	end      time.Time
	phase    string
	runs     []Measured     // of this session
	known    int            // processes of earlier sessions, which come first in planned
	spent    int            // how many of these count as runs
	planned  []Measured     // candidates and defaults in the order they ran, without the duel
	asked    map[string]int // how often a setting was to run in a regime
	best     Plan
	reserved int               // processes that are kept for the plan that the stages come to
	failed   map[string]string // regime and setting -> why
	standby  map[string]string // the engine's own value of each knob, as it reported it or else as its help says
	stopped  string
	through  bool               // every stage was gone through
	enough   bool               // as many processes ran as may
	threaded bool               // the stage of threads was gone through
	first    measure.Counters   // when the session began
	cool     Thermal            // then
	shares   map[string]float64 // of the default's request
}

// Search finds a plan and duels it with the engine's default. The error is why nothing could be compared; what ran is in
// the certificate all the same.
func Search(ctx context.Context, e Engine, opt Options) (*Certificate, error) {
	s, err := newSession(ctx, e, opt)
	if err != nil {
		return nil, err
	}
	var d *duelled
	if err = s.standard(ctx); err == nil {
		s.explore(ctx)
		d = s.duel(ctx)
	}
	if ctx.Err() != nil {
		s.stopped = Interrupted
	}
	return s.certificate(d), err
}

func newSession(ctx context.Context, e Engine, opt Options) (*session, error) {
	s := &session{engine: e, opt: opt, now: opt.Now, asked: map[string]int{}, failed: map[string]string{}, standby: map[string]string{}, shares: map[string]float64{}}
	if s.now == nil {
		s.now = time.Now
	}
	if opt.Budget <= 0 {
		return nil, fmt.Errorf("%w: %v: a positive duration such as 10m", ErrBudget, opt.Budget)
	}
	s.begun = s.now()
	s.end = s.begun.Add(opt.Budget)
	var err error
	if s.what, err = e.Describe(ctx); err != nil {
		return nil, err
	}
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

// standard runs the engine as it is: once cold, which counts for nothing but its time, and once warm. Then what earlier
// sessions know is told.
func (s *session) standard(ctx context.Context) error {
	s.phase, s.best = "default", Plan{}
	for _, r := range s.regimes() {
		s.best[r] = nil
	}
	if s.opt.Heat != nil {
		s.cool = s.opt.Heat()
	}
	for _, again := range []string{"", " the second time"} {
		m := s.start(ctx, nil, s.regimes())
		switch {
		case m.Status == Stopped && ctx.Err() == nil:
			return fmt.Errorf("%w: %v did not suffice for its own settings%s: allow more, or fewer tokens or repetitions", ErrBudget, s.opt.Budget, again)
		case m.Status != OK && m.Status != Censored:
			return fmt.Errorf("%w: %s%s: %s", ErrNoDefault, m.Status, again, m.Note)
		}
	}
	warm := s.runs[len(s.runs)-1]
	for _, r := range s.what.Regimes {
		s.shares[r.Name] = r.Units * warm.cost(r.Name) / s.request(warm)
	}
	if s.opt.Recall != nil {
		s.recall(s.opt.Recall(s.what.Facts))
	}
	return nil
}

// recall takes over what earlier sessions measured of settings that may be tried now. What gave wrong results stays so;
// another failure may have been the moment's.
func (s *session) recall(earlier []Measured) {
	var list []Measured
	for _, m := range earlier {
		if m.Cold || m.Phase == "duel" || !s.offered(m.Setting) {
			continue
		}
		switch m.Status {
		case OK:
			m.costs = centres(m.Samples)
			list = append(list, m)
		case Mismatch:
			s.fail(m.Setting, m.Regimes, m.Status, m.Note)
		}
	}
	paired := slices.DeleteFunc(slices.Clone(list), func(m Measured) bool { return !s.comparable(m, list) })
	s.known, s.spent = len(paired), spent(paired)
	s.planned = append(paired, s.planned...)
}

// spent is how many processes of earlier sessions count as runs: candidates, and of the defaults as many as these need. Each
// session begins with the default, and many short ones would use up all runs without a candidate.
func spent(earlier []Measured) int {
	candidates := 0
	for _, m := range earlier {
		if len(m.Setting) > 0 {
			candidates++
		}
	}
	return min(len(earlier), candidates+(candidates+between-1)/between)
}

// comparable reports whether the default ran, with all regimes, in the session of a process.
func (s *session) comparable(m Measured, among []Measured) bool {
	return slices.ContainsFunc(among, func(d Measured) bool {
		return d.isDefault() && d.Session == m.Session && !slices.ContainsFunc(s.regimes(), func(r string) bool { return d.cost(r) == 0 })
	})
}

// offered reports whether a setting is of values that may be tried.
func (s *session) offered(setting Setting) bool {
	for knob, value := range setting {
		if !slices.ContainsFunc(s.what.Knobs, func(k Knob) bool { return k.Name == knob && slices.Contains(k.Values, value) }) {
			return false
		}
	}
	return s.what.Reject == nil || s.what.Reject(setting) == nil
}

func (s *session) fail(setting Setting, regimes []string, status Status, note string) {
	for _, r := range regimes {
		s.failed[r+" "+setting.String()] = string(status) + ": " + note
	}
}

// patience is how much longer than the default a candidate may take before it hangs: a setting four times as slow is no
// candidate. A disk that is busy for a while is none of its business.
const (
	patience = 4
	grace    = 10 * time.Second
)

// limit is how long the next process may take, and whether it is the budget that says so.
func (s *session) limit() (limit time.Duration, budget bool) {
	left := max(s.end.Sub(s.now()), time.Millisecond)
	for _, m := range s.runs {
		if len(m.Setting) == 0 && m.costs != nil && !m.Cold {
			limit = patience*m.Elapsed + grace
			return min(left, limit), left < limit
		}
	}
	return left, true
}

// attempts is how often a process is started whose host was disturbed.
const attempts = 2

// rest is how long a host that was too hot is given to cool.
const rest = 20 * time.Second

// start runs one process, again if the host was disturbed, and takes it down.
func (s *session) start(ctx context.Context, setting Setting, regimes []string) Measured {
	var m Measured
	for range attempts {
		m = s.once(ctx, setting, regimes)
		if m.Status != Censored || s.phase != "duel" && s.over() {
			break
		}
		if m.Note == tooHot {
			s.rest(ctx)
		}
	}
	return m
}

// rest lets the host cool, in a budget that has time for it.
func (s *session) rest(ctx context.Context) {
	pause := min(rest, s.end.Sub(s.now())/10)
	if s.opt.Rest != nil {
		s.opt.Rest(ctx, pause)
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Why a process is censored.
const (
	tooHot = "the CPU was too hot and slowed itself down"
	stolen = "the hypervisor gave the CPU to others"
)

func (s *session) once(ctx context.Context, setting Setting, regimes []string) Measured {
	disturbance := s.watch()
	limit, budget := s.limit()
	o := s.engine.Run(ctx, setting, regimes, limit)
	if o.Status == OK {
		if err := s.doubt(o, setting, regimes); err != nil {
			o.Status, o.Note, o.Samples = Garbage, err.Error(), nil
		}
	}
	if o.Status == Hang && budget { // that says nothing of the setting
		o.Status, o.Note = Stopped, "the budget ended"
	}
	m := Measured{Phase: s.phase, Setting: setting, Regimes: regimes, Status: o.Status, Note: o.Note, Samples: o.Samples, Elapsed: o.Elapsed, Cold: len(s.runs) == 0}
	if o.Status == OK {
		m.Loading, m.costs = s.loading(o), centres(o.Samples)
	}
	if why := disturbance(&m); why != "" && m.Status == OK && !m.Cold {
		m.Status, m.Note = Censored, why
	}
	s.take(m, o)
	return s.runs[len(s.runs)-1]
}

// take takes a process down.
func (s *session) take(m Measured, o Outcome) {
	if len(m.Setting) == 0 && o.Status == OK {
		for _, k := range s.what.Knobs {
			if v, ok := k.factValue(o.Facts); ok || k.Ordered && v != "" {
				s.standby[k.Name] = v
			}
		}
		maps.Copy(orMake(&s.what.Facts), o.Facts)
	}
	m.Build = Build(s.what.Facts)
	if o.Status != OK && o.Status != Stopped {
		s.fail(m.Setting, m.Regimes, o.Status, o.Note)
	}
	if s.phase != "duel" && !m.Cold {
		s.planned = append(s.planned, m)
		m.Relative = s.relative(len(s.planned) - 1)
	}
	s.runs = append(s.runs, m)
	if s.opt.Tell != nil {
		s.opt.Tell(m)
	}
}

func orMake(m *map[string]string) map[string]string {
	if *m == nil {
		*m = map[string]string{}
	}
	return *m
}

// modelFacts say which model an engine measured, buildFacts which engine it is.
var (
	modelFacts = []string{"model_filename", "model_type", "model_size", "model_n_params"}
	buildFacts = []string{"build_commit", "build_number"}
)

// doubt is why figures cannot be what they are said to be.
func (s *session) doubt(o Outcome, setting Setting, regimes []string) error {
	var sum float64
	for _, r := range s.what.Regimes {
		for _, ns := range o.Samples[r.Name] {
			if !(ns > 0) || math.IsInf(ns, 1) {
				return fmt.Errorf("%s: a repetition of %g ns: want a positive number", r.Name, ns)
			}
			if r.Unit == perToken {
				sum += ns * r.Units
			}
		}
		if slices.Contains(regimes, r.Name) && len(o.Samples[r.Name]) == 0 {
			return fmt.Errorf("no figure of %s", r.Name)
		}
	}
	if clock := float64(o.Elapsed + 10*time.Millisecond); sum > clock {
		return fmt.Errorf("its repetitions add up to %.4g s, and the whole process took %.4g s", sum/1e9, o.Elapsed.Seconds())
	}
	same := modelFacts
	if len(setting) == 0 { // a candidate may be built anew
		same = slices.Concat(modelFacts, buildFacts)
	}
	for _, name := range same {
		if first, now := s.what.Facts[name], o.Facts[name]; first != "" && now != "" && now != first {
			return fmt.Errorf("it says %s %s, and said %s before: another program or model", name, now, first)
		}
	}
	return nil
}

// When stolen CPU time spoils a process: more than a twentieth of it, and more than twice what this host usually takes; in less
// than a second the kernel's tick of 10 ms says nothing.
const (
	stolenShare = 0.05
	stolenLeast = time.Second
)

// watch reads what the host admits before a process, and returns what says afterwards why the process does not count; ""
// it does.
func (s *session) watch() func(*Measured) string {
	var before measure.Counters
	var warm Thermal
	var unwatched error
	begun := s.now()
	if s.opt.Watch != nil {
		before, unwatched = s.opt.Watch.Read()
		if len(s.runs) == 0 {
			s.first = before
		}
	}
	if s.opt.Heat != nil {
		warm = s.opt.Heat()
	}
	return func(m *Measured) (why string) {
		if s.opt.Watch != nil && unwatched == nil {
			if after, err := s.opt.Watch.Read(); err == nil {
				m.Throttled = after.Throttled > before.Throttled
				if s.disturbed(before, after) {
					why = stolen
				}
			}
		}
		if s.opt.Heat != nil {
			after := s.opt.Heat()
			m.Celsius = after.Celsius
			if s.hot(warm, after, s.now().Sub(begun)) {
				why = tooHot
			}
		}
		return why
	}
}

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

// hot reports whether the CPU slowed itself down in a process, and more than twice as often as it usually does in this
// session: where it always does, that is how this host is.
func (s *session) hot(before, after Thermal, took time.Duration) bool {
	usual := float64(after.Throttles-s.cool.Throttles) * float64(took) / float64(max(1, s.now().Sub(s.begun)))
	return float64(after.Throttles-before.Throttles) > 2*usual
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

// over reports whether the search has to end, and why: what is left belongs to the duel. The last candidate leaves a process
// for the default that has to run beside it.
func (s *session) over() bool {
	if s.stopped != "" {
		return true
	}
	most := s.maxRuns() - s.reserved
	if s.sinceDefault() == between-1 {
		most--
	}
	switch {
	case s.spent+len(s.runs) >= most:
		s.enough = true
		s.stopped = fmt.Sprintf("%d processes were enough", s.maxRuns())
	case s.end.Sub(s.now()) < leastPairs*s.pair()+s.usual(nil):
		s.stopped = "the time for searching was used up"
		if need := s.needed(); need > s.opt.Budget {
			s.stopped += fmt.Sprintf(": a process takes %v, so that %d of them and a duel want about %v, or fewer tokens or repetitions",
				s.usual(nil).Round(100*time.Millisecond), s.maxRuns(), need.Round(time.Second))
		}
	}
	return s.stopped != ""
}

// needed is the budget with which as many processes as may run do, and the shortest duel that decides.
func (s *session) needed() time.Duration {
	return time.Duration(max(0, s.maxRuns()-s.spent))*s.usual(nil) + leastPairs*s.pair()
}

// usual is what a process with a setting takes, or where that is not known with the default.
func (s *session) usual(setting Setting) time.Duration {
	var list, standard []float64
	for _, m := range s.runs {
		if m.costs == nil || m.Cold {
			continue
		}
		if maps.Equal(m.Setting, setting) {
			list = append(list, float64(m.Elapsed))
		}
		if len(m.Setting) == 0 {
			standard = append(standard, float64(m.Elapsed))
		}
	}
	return time.Duration(median(orElse(list, standard)))
}

// pair is what a pair of the duel takes: the default, and the processes of the plan.
func (s *session) pair() time.Duration {
	sum := s.usual(nil)
	for setting := range s.best.processes(s.regimes()) {
		sum += s.usual(setting)
	}
	return sum
}
