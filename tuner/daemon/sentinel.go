package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/idle"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// sentinel is what is known and wanted of one model.
type sentinel struct {
	name  string
	path  string
	step  time.Duration // of its next tune
	retry time.Time     // not before; after a step that failed
	fails int           // in a row
	saved saved
}

// saved is the part of a sentinel that outlives the daemon.
type saved struct {
	Config    string                      `json:"config"` // what the detectors watch, see watched
	Detectors map[target.Regime]*Detector `json:"detectors"`
	// Rates are those of each regime under each condition of the host at each pace, whose name is conditionName's.
	Rates      map[string]map[target.Regime]*Rate `json:"rates"`
	Conditions map[string]string                  `json:"conditions"` // when they were last looked at
	Checks     int                                `json:"checks"`
	Last       tuner.Ratio                        `json:"last_ratio"`
	Next       time.Time                          `json:"next_check"`
	Retune     string                             `json:"retune"` // why it is to be tuned anew; "" = it is not
	Verdict    string                             `json:"verdict"`
	Past       []Check                            `json:"past"`
}

// sentinelName is the file of a store in which the checks of a model are kept. A model may be a path.
func sentinelName(model string) string {
	sum := sha256.Sum256([]byte(model))
	return fmt.Sprintf("sentinel-%x.json", sum[:8])
}

// load takes up the checks of an earlier daemon. Those that do not parse begin anew.
func (m *sentinel) load() error {
	data, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, &m.saved)
	}
	if err == nil && !m.saved.sane() {
		err = fmt.Errorf("%s: its figures cannot be", m.path)
	}
	if err != nil {
		m.saved = saved{}
	}
	return err
}

// sane reports whether the daemon could have written s.
func (s saved) sane() bool {
	for _, d := range s.Detectors {
		if !d.sane() {
			return false
		}
	}
	for _, rates := range s.Rates {
		for _, r := range rates {
			if !r.sane() {
				return false
			}
		}
	}
	return s.Checks >= 0
}

// watched names what the detectors of a plan watch: a config with the run that certified it. The same config may be certified
// again, at another ratio.
func watched(plan tuner.Plan) string {
	return fmt.Sprintf("%s measured %d", plan.Config.Hash(), plan.MeasuredAt.UnixNano())
}

// rate is that of a regime under a condition. Where there are too many conditions, all begin anew.
func (s *saved) rate(condition string, r target.Regime) *Rate {
	if s.Rates[condition] == nil {
		if s.Rates == nil || len(s.Rates) >= mostConditions {
			s.Rates = map[string]map[target.Regime]*Rate{}
		}
		s.Rates[condition] = map[target.Regime]*Rate{}
	}
	if s.Rates[condition][r] == nil {
		s.Rates[condition][r] = new(Rate)
	}
	return s.Rates[condition][r]
}

// mostConditions bounds what is kept of one model; a host goes to and fro between two or three, at two paces.
const mostConditions = 8

// conditionName is 16 hex digits that stand for the conditions of the host and for the pace of a check.
func conditionName(facts map[string]string, at pace) string {
	data, err := json.Marshal([]any{at, facts}) // sorts them
	if err != nil {
		panic("daemon: strings always marshal")
	}
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%x", sum[:8])
}

func (m *sentinel) save() error {
	data, err := json.Marshal(m.saved)
	if err != nil {
		return err
	}
	return idle.WriteFile(m.path, data)
}

// job is a step that is due.
type job struct {
	model *sentinel
	check bool // or a tune
	time  time.Duration
	why   string
	plan  tuner.Plan // when it became due
}

func (j *job) String() string {
	if j == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s: %s", j.model.name, j.why)
}

// overtaken reports whether an operator has pinned something since j became due, so that what it finds is no answer.
func (j *job) overtaken(plan tuner.Plan) bool {
	same := func(a, b history.PinnedKnob) bool {
		return a.Target == b.Target && a.Knob == b.Knob && a.Value == b.Value
	}
	return plan.Source == tuner.Pinned || !slices.EqualFunc(plan.PinnedKnobs, j.plan.PinnedKnobs, same)
}

// next is the step that is due, if the mode allows one; else why there is none. The models take turns.
func (d *Daemon) next(ctx context.Context) (*job, string) {
	if d.opt.Mode != tuner.ModeTune && d.opt.Mode != tuner.ModeAdvise {
		return nil, fmt.Sprintf("mode %s measures nothing", d.opt.Mode)
	}
	now := d.opt.Now()
	var soonest time.Time
	for i, m := range d.models {
		j, when := d.want(ctx, m)
		if j != nil {
			d.models = append(append(append([]*sentinel{}, d.models[:i]...), d.models[i+1:]...), m)
			return j, ""
		}
		if !when.IsZero() && (soonest.IsZero() || when.Before(soonest)) {
			soonest = when
		}
	}
	if soonest.IsZero() {
		return nil, "nothing is to be done for any model"
	}
	return nil, fmt.Sprintf("the next step is due in %v", soonest.Sub(now).Round(time.Second))
}

// want is the step that a model needs now, or when it will need one; the zero time for never.
func (d *Daemon) want(ctx context.Context, m *sentinel) (*job, time.Time) {
	now := d.opt.Now()
	if now.Before(m.retry) && m.retry.Sub(now) <= longestRetry { // else the clock was set back
		return nil, m.retry
	}
	plan, err := d.opt.Tuner.Plan(ctx, m.name)
	if err != nil {
		d.tell(warnLevel, m.name, "nothing can be done for it", err.Error())
		return nil, time.Time{}
	}
	switch {
	case plan.Source == tuner.Pinned:
		d.tell(infoLevel, m.name, "left alone", plan.Reason)
		return nil, time.Time{}
	case plan.Source != tuner.Measured || m.saved.Retune != "":
		if d.opt.Mode == tuner.ModeAdvise {
			d.tell(infoLevel, m.name, "to be tuned", orElse(m.saved.Retune, plan.Reason))
			return nil, time.Time{}
		}
		return &job{model: m, time: m.step, why: orElse(m.saved.Retune, plan.Reason), plan: plan}, now
	case m.saved.Config != watched(plan):
		d.watch(ctx, m, plan)
		return nil, m.saved.Next
	case now.Before(m.saved.Next) && m.saved.Next.Sub(now) <= d.opt.Every:
		return nil, m.saved.Next
	}
	return &job{model: m, check: true, time: d.opt.Check, why: "a check is due", plan: plan}, now
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// watch begins to watch the config that answers now.
func (d *Daemon) watch(ctx context.Context, m *sentinel, plan tuner.Plan) {
	m.saved.Config, m.saved.Detectors, m.saved.Rates = watched(plan), map[target.Regime]*Detector{}, nil
	m.saved.Checks, m.saved.Last = 0, tuner.Ratio{}
	m.saved.Next = d.opt.Now().Add(d.opt.Every)
	if len(plan.Recheck) > 0 {
		m.saved.Next = d.opt.Now()
	}
	e, err := d.opt.Tuner.Explain(ctx, m.name)
	if err != nil {
		d.tell(warnLevel, m.name, "its certificate cannot be read", err.Error())
		return
	}
	for _, v := range e.Regimes {
		if v.Verdict == measure.Adopt && v.Best == plan.Config.Arm(v.Regime) {
			watched := NewDetector(v.Ratio)
			m.saved.Detectors[v.Regime] = &watched
		}
	}
	d.remember(m)
}

// remember writes down what is known of a model. A full disk is no reason to stop.
func (d *Daemon) remember(m *sentinel) {
	if err := m.save(); err != nil {
		d.tell(warnLevel, m.name, "its checks could not be kept", err.Error())
	}
}

// show shows what is known of a model.
func (d *Daemon) show(ctx context.Context, m *sentinel) {
	plan, err := d.opt.Tuner.Plan(ctx, m.name)
	shown := ModelState{Name: m.name, Plan: plan, Verdict: m.saved.Verdict, Checks: m.saved.Checks, LastRatio: m.saved.Last, NextCheck: m.saved.Next, DriftLimit: driftLimit}
	if err != nil {
		shown.Error = err.Error()
	}
	for _, watched := range m.saved.Detectors {
		shown.Drift = max(shown.Drift, watched.Sum)
	}
	for _, at := range []pace{withoutRests, inBursts} {
		for _, rate := range m.saved.Rates[conditionName(m.saved.Conditions, at)] {
			shown.Drift = max(shown.Drift, rate.Sum)
		}
	}
	d.change(func(s *State) {
		d.past[m.name] = slices.Clone(m.saved.Past)
		for i := range s.Models {
			if s.Models[i].Name == m.name {
				s.Models[i] = shown
			}
		}
	})
}

// leastCPU is the least CPU time to a core with which a step is worth its set-up.
const leastCPU = 5 * time.Second

// do runs one step.
func (d *Daemon) do(ctx context.Context, j job) {
	host, err := probe.Local(ctx)
	if err != nil {
		d.phase(Waiting, err.Error())
		return
	}
	cores := time.Duration(max(1, host.CPU.UsableCores))
	light := d.gate.Light()
	if light != "" && !j.check {
		j.time = max(j.time, pacedStep)
	}
	wanted := 2 * cores * j.time // making the weights is in the time of a step, but a slow host may overrun it
	reserved := min(wanted, d.ledger.Left())
	if reserved < min(wanted, cores*leastCPU) {
		d.phase(Waiting, fmt.Sprintf("%v: %v left of %v", idle.ErrSpent, d.ledger.Left(), d.ledger.Limit()))
		return
	}
	settle, err := d.ledger.Reserve(reserved)
	if err != nil {
		d.tell(warnLevel, "", "no step can be run", err.Error())
		d.phase(Waiting, err.Error())
		return
	}
	j.time = min(j.time, reserved/cores)
	memory := d.opt.Memory
	if memory == 0 {
		memory = memoryCap(host.Memory)
	}
	d.doing = &j
	d.change(func(s *State) {
		s.Phase, s.Model, s.Reason = map[bool]Phase{false: Measuring, true: Checking}[j.check], j.model.name, j.String()
		s.Steps++
	})
	args := append(append([]string{}, d.opt.Child...), "--model", j.model.name, "--budget", j.time.String(), fmt.Sprintf("--check=%t", j.check), "--paced")
	o := d.runChild(ctx, args, limits{time: 3*j.time + 30*time.Second, cpu: reserved, memory: memory})
	if err := settle(o.cpu); err != nil {
		d.tell(warnLevel, "", "the account of CPU time could not be written", err.Error())
	}
	d.took(ctx, j, o)
	d.show(ctx, j.model)
}

// memoryCap is what a child may take where nobody says: half of what is available. Where that is not known, there is no cap.
func memoryCap(m probe.Memory) uint64 {
	if m.AvailableBytes == 0 {
		return math.MaxInt64
	}
	return m.AvailableBytes / 2
}

// longestRetry is the longest pause after steps that failed.
const longestRetry = time.Hour

// resultCodes are the exit codes of a step that goes with a result: done, inconclusive, verification failed.
var resultCodes = map[int]bool{0: true, 3: true, 5: true}

// took makes of what a child left what follows from it.
func (d *Daemon) took(ctx context.Context, j job, o outcome) {
	m := j.model
	d.opt.Tuner.Reprobe() // what the child has published, and the host as it is now
	switch {
	case o.ending == cancelled:
		return
	case o.ending == gaveWay:
		d.change(func(s *State) { s.Aborted++ })
		d.tell(infoLevel, m.name, "a step gave way", o.why)
		return
	case o.ending != finished:
		d.failed(m, fmt.Sprintf("a step %s", o.ending), o.why)
		return
	}
	var err error
	if !resultCodes[o.code] {
		err = errors.New("it says nothing")
	} else if j.check {
		err = d.checked(ctx, m, o)
	} else {
		err = d.tuned(ctx, j, o.out)
	}
	if err != nil {
		d.failed(m, fmt.Sprintf("a step came to nothing (exit code %d)", o.code), orElse(o.why, err.Error()))
		return
	}
	m.fails = 0
	d.remember(m)
}

// failed waits before the next step of a model, longer each time.
func (d *Daemon) failed(m *sentinel, what, why string) {
	m.fails++
	m.retry = d.opt.Now().Add(min(longestRetry, d.opt.Look<<min(m.fails, 20)))
	m.step = min(2*m.step, longestStep(d.opt.Step)) // it may have been too short to begin with
	d.change(func(s *State) { s.Failed++ })
	d.tell(warnLevel, m.name, what, why)
}

// longestStep bounds the doubling of steps.
func longestStep(first time.Duration) time.Duration { return max(4*time.Minute, first) }

// tuned reads the certificate of a step.
func (d *Daemon) tuned(ctx context.Context, j job, out []byte) error {
	m := j.model
	var cert tuner.Certificate
	if err := json.Unmarshal(out, &cert); err != nil || cert.Verdict == "" {
		return fmt.Errorf("its certificate does not parse: %v", err)
	}
	m.saved.Verdict = string(cert.Verdict)
	if cert.Verdict == measure.Inconclusive {
		m.step = min(2*m.step, longestStep(d.opt.Step))
		d.tell(infoLevel, m.name, fmt.Sprintf("nothing decided yet; the next step may take %v", m.step), fmt.Sprintf("%d arms measured, %d known before", cert.Evaluations, cert.Known))
		return nil
	}
	m.step, m.saved.Retune = d.opt.Step, ""
	plan, err := d.opt.Tuner.Plan(ctx, m.name)
	if err != nil {
		return err
	}
	d.tell(infoLevel, m.name, fmt.Sprintf("%s: %.3f times the default", cert.Verdict, cert.Ratio.Estimate), plan.Reason)
	switch {
	case plan.Source == tuner.Measured:
		d.watch(ctx, m, plan)
	case j.overtaken(plan): // the next step keeps to what is pinned
	default: // and it would be tuned again at once, for ever
		m.retry = d.opt.Now().Add(longestRetry)
		d.tell(warnLevel, m.name, fmt.Sprintf("what was decided is not the answer; it is not tuned for %v", longestRetry), plan.Reason)
	}
	return nil
}

// soon is how much sooner the next check comes while a statistic is above a third of its limit.
const soon = 12

// checked takes a check into account.
func (d *Daemon) checked(ctx context.Context, m *sentinel, o outcome) error {
	var v tuner.Verification
	if err := json.Unmarshal(o.out, &v); err != nil || v.Verdict == "" {
		return fmt.Errorf("its verification does not parse: %v", err)
	}
	m.saved.Checks++
	every := d.opt.Every
	for _, c := range v.Regimes {
		if m.saved.Last = c.Ratio; c.Ratio.Estimate > 0 {
			break
		}
	}
	for _, c := range v.Regimes {
		if c.Verdict == tuner.Failed && c.Reason != "" { // wrong, or it cannot even be run
			d.note(m, c)
			d.takeBack(ctx, m, fmt.Sprintf("%s: %s", c.Regime, c.Reason), c.Regime)
			return nil
		}
		watched := m.saved.Detectors[c.Regime]
		alarm := watched != nil && watched.Add(c.Ratio)
		d.note(m, c)
		if alarm {
			d.drifted(ctx, m, c.Regime, *watched)
			return nil
		}
		if watched != nil && watched.Sum > driftLimit/3 {
			every = d.opt.Every / soon
		}
		if o.pace == mixed { // its time is neither that of the one pace nor of the other
			continue
		}
		rate := m.saved.rate(conditionName(m.saved.Conditions, o.pace), c.Regime)
		if rate.Add(c.LearnedNs) {
			d.slowed(m, c.Regime, rate)
			return nil
		}
		if rate.Sum > driftLimit/3 {
			every = d.opt.Every / soon
		}
	}
	m.saved.Next = d.opt.Now().Add(every)
	return nil
}

// slowed has a model tuned anew that takes longer than usual under the same conditions, as does the default: another config may
// be the best now. It is no reason to take it back.
func (d *Daemon) slowed(m *sentinel, r target.Regime, rate *Rate) {
	why := fmt.Sprintf("%s has taken %.2f times as long as usual over the last %d checks, under the same conditions, and so does the default", r, rate.Slower(), rate.Rising)
	*rate = Rate{} // this is what is usual from now on
	m.saved.Config, m.saved.Retune = "", why
	d.tell(warnLevel, m.name, "to be tuned anew", why)
}

// drifted tunes anew what is still better than the default, and takes back what is not.
func (d *Daemon) drifted(ctx context.Context, m *sentinel, r target.Regime, watched Detector) {
	why := fmt.Sprintf("%s has run at %.3f times the default over the last %d checks, and was certified at %.3f",
		r, watched.Ratio(), watched.Rising, certifiedRatio(watched))
	if watched.Ratio() < 1 {
		d.takeBack(ctx, m, why)
		return
	}
	m.saved.Config, m.saved.Retune = "", why
	d.tell(warnLevel, m.name, "to be tuned anew", why)
}

// takeBack makes the config answer that was certified before, and has the model tuned anew. wrong are the regimes whose setting
// is not to be used any more in any config.
func (d *Daemon) takeBack(ctx context.Context, m *sentinel, why string, wrong ...target.Regime) {
	m.saved.Next = d.opt.Now().Add(d.opt.Every)
	if d.opt.Mode != tuner.ModeTune {
		d.tell(warnLevel, m.name, "it should be rolled back", why)
		return
	}
	plan, err := d.opt.Tuner.Rollback(ctx, m.name, "the sentinel", why, wrong...)
	if err != nil {
		d.tell(errorLevel, m.name, "it could not be rolled back: "+err.Error(), why)
	} else {
		d.tell(warnLevel, m.name, "rolled back to "+plan.Config.Hash(), why)
	}
	m.saved.Config, m.saved.Retune = "", why
}
