package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/idle"
)

// The levels of events.
const (
	infoLevel  = zerolog.InfoLevel
	warnLevel  = zerolog.WarnLevel
	errorLevel = zerolog.ErrorLevel
)

// Options are how a Daemon works. Tuner, Store, Models and Child are needed.
type Options struct {
	Tuner  *tuner.Tuner // answers, takes pins and rolls back; it does not measure
	Store  string
	Models []string
	// Child is the command that runs a step, to which "--model M --budget 15s --check=false --paced" are added. It prints a
	// tuner.Certificate, or with --check a tuner.Verification, as JSON, and works at the pace of Paced.
	Child []string

	Mode   tuner.Mode    // "" = that of Tuner; frozen, if it is to be, is Tuner
	Rules  idle.Rules    // the zero Rules are idle.DefaultRules
	PerDay time.Duration // CPU time in any 24 hours; if 0, 30 minutes
	Step   time.Duration // of a tune at first; if 0, 20 s. It doubles, up to 4 minutes, until something is decided
	Check  time.Duration // of a check; if 0, 10 s
	Every  time.Duration // between checks of a model; if 0, 6 hours
	Look   time.Duration // how often to look whether the machine is idle; if 0, every second
	Lock   string        // file that stands for this host; if "", idle.DefaultLock
	Memory uint64        // bytes that a child may take; if 0, half of what is available when it starts, as far as that is known
	// GPU tells how much the GPUs are used, 0 to 1, where steps measure on one; nil = they do not.
	GPU func() float64
	Log zerolog.Logger
	Now func() time.Time // if nil, time.Now

	// Ready is called once this is the one daemon of the host and has taken up what an earlier one left, before any step. Its
	// error ends Run.
	Ready func() error

	// Read tells how busy the machine is, and Watch the same, but only what load while measuring shows in. If nil, the one this
	// runs on.
	Read, Watch func() idle.Reading
	// Conditions tells the facts on which a measurement depends and that change from hour to hour. If nil, this machine's.
	Conditions func(context.Context) (map[string]string, error)
}

func (o *Options) fill() error {
	switch {
	case o.Tuner == nil || o.Store == "":
		return errors.New("daemon: no store: name a directory")
	case len(o.Models) == 0:
		return errors.New("daemon: no models: name one at least")
	case len(o.Child) == 0:
		return errors.New("daemon: no command for the steps")
	}
	for i, name := range o.Models {
		if slices.Contains(o.Models[:i], name) {
			return fmt.Errorf("daemon: model %s is named twice", name)
		}
	}
	if o.Mode == "" {
		o.Mode = o.Tuner.Mode()
	}
	if _, err := tuner.ParseMode(string(o.Mode)); err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	if o.Mode == tuner.ModeFrozen && o.Tuner.Mode() != tuner.ModeFrozen {
		return errors.New("daemon: mode frozen: the tuner is not frozen: open it with the hashes of the configs")
	}
	if o.Rules == (idle.Rules{}) {
		o.Rules = idle.DefaultRules
	}
	if err := o.Rules.Validate(); err != nil {
		return err
	}
	for d, standard := range map[*time.Duration]time.Duration{
		&o.PerDay: 30 * time.Minute, &o.Step: 20 * time.Second, &o.Check: 10 * time.Second, &o.Every: 6 * time.Hour, &o.Look: time.Second,
	} {
		if *d < 0 {
			return fmt.Errorf("daemon: duration %v: want a positive one", *d)
		}
		if *d == 0 {
			*d = standard
		}
	}
	if o.Lock == "" {
		o.Lock = idle.DefaultLock()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Read == nil {
		o.Read = func() idle.Reading { return idle.Local(time.Now()) }
	}
	if o.Watch == nil {
		o.Watch = func() idle.Reading { return idle.LocalLoad(time.Now()) }
	}
	if o.Conditions == nil {
		o.Conditions = conditions
	}
	return nil
}

// conditions are the limits and the condition of this machine: quota, cpuset, governor, microcode and the like.
func conditions(ctx context.Context) (map[string]string, error) {
	host, err := probe.Local(ctx)
	facts := map[string]string{}
	for _, f := range slices.Concat(host.Envelope(), host.Condition()) {
		facts[f.Name] = f.Value
	}
	return facts, err
}

// Daemon tunes in the background. State, Subscribe, Pin, Unpin and Rollback are safe for concurrent use.
type Daemon struct {
	opt     Options
	journal journal
	ledger  *idle.Ledger
	models  []*sentinel // of the goroutine that runs Run, like the next two
	gate    idle.Gate
	pace    idle.Pace // of the children that are not alone
	doing   *job      // what the child is for; nil before the first

	mu      sync.Mutex
	state   State
	readers map[chan Event]bool
	past    map[string][]Check
	due     map[string]bool // models to look at at once, since an operator changed something
}

// New returns a daemon that does nothing yet.
func New(opt Options) (*Daemon, error) {
	if err := opt.fill(); err != nil {
		return nil, err
	}
	d := &Daemon{opt: opt, journal: newJournal(opt.Store), due: map[string]bool{}, past: map[string][]Check{}}
	d.state = State{Started: opt.Now(), Mode: opt.Mode, Phase: Stopped, Reason: "it has not begun", Budget: Budget{Limit: opt.PerDay.Seconds(), Left: opt.PerDay.Seconds()}}
	for _, name := range opt.Models {
		d.models = append(d.models, &sentinel{name: name, path: filepath.Join(opt.Store, sentinelName(name)), step: opt.Step})
		d.state.Models = append(d.state.Models, ModelState{Name: name, DriftLimit: driftLimit})
	}
	return d, nil
}

// Run works until ctx ends, which is no error. What serves stays as it is.
func (d *Daemon) Run(ctx context.Context) error {
	if d.opt.Mode == tuner.ModeOff {
		d.tell(infoLevel, "", "nothing to do", "mode off")
		return nil
	}
	unlock, err := idle.Lock(d.opt.Lock)
	if err != nil {
		return err
	}
	defer unlock()
	if err := d.restore(ctx); err != nil {
		return err
	}
	if d.opt.Ready != nil {
		if err := d.opt.Ready(); err != nil {
			return err
		}
	}
	defer d.phase(Stopped, "it was asked to end")
	d.tell(infoLevel, "", "background tuning begins", fmt.Sprintf("mode %s, %v of CPU time a day", d.opt.Mode, d.opt.PerDay))
	defer d.tell(infoLevel, "", "background tuning ends", "it was asked to; what serves stays as it is")
	return d.loop(ctx)
}

// restore takes up what an earlier daemon left: its child, its account, its checks.
func (d *Daemon) restore(ctx context.Context) error {
	store, err := history.Open(d.opt.Store, history.Options{}) // makes the directory
	if err != nil && store == nil {
		return err
	}
	left, err := d.journal.restore()
	if err != nil {
		d.tell(warnLevel, "", "the journal could not be read", err.Error())
	}
	if left {
		d.tell(warnLevel, "", "ended a child that an earlier daemon left behind", "the daemon was killed")
	}
	ledger, note, err := idle.OpenLedger(filepath.Join(d.opt.Store, tuner.LedgerName), d.opt.PerDay, d.opt.Now)
	if err != nil {
		return err
	}
	if note != "" {
		d.tell(warnLevel, "", "the account of CPU time begins anew", note)
	}
	d.ledger = ledger
	for _, m := range d.models {
		if err := m.load(); err != nil {
			d.tell(warnLevel, m.name, "its checks begin anew", err.Error())
		}
		d.show(ctx, m)
	}
	return nil
}

// factsEvery is how often the conditions and what answers are looked at.
const factsEvery = time.Minute

// loop waits for the machine to be idle and for something to be due, one thing at a time.
func (d *Daemon) loop(ctx context.Context) error {
	d.gate, d.pace = idle.Gate{Rules: d.opt.Rules, GPU: d.opt.GPU}, idle.Pace{Share: d.opt.Rules.BurstShare}
	var looked time.Time
	for {
		if since := d.opt.Now().Sub(looked); d.asked() || since >= factsEvery || since < 0 {
			looked = d.opt.Now()
			d.notice(ctx)
			if err := d.held(ctx); err != nil {
				return err
			}
		}
		d.lookAround(0)
		if job, why := d.next(ctx); job == nil {
			d.phase(Waiting, why)
		} else if why := d.gate.Admit(d.opt.Now()); why != "" {
			d.phase(Waiting, why)
		} else if light := d.gate.Light(); light != "" && time.Now().Before(d.pace.Next()) {
			d.phase(Waiting, "the last child has still to be paid for with a rest, as "+light)
		} else {
			d.do(ctx, *job)
			d.gate.Forget()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(d.opt.Look):
		}
	}
}

// asked reports whether an operator has changed something since it was last asked.
func (d *Daemon) asked() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	any := len(d.due) > 0
	clear(d.due)
	return any
}

// pending reports whether an operator has changed something that was not yet looked at.
func (d *Daemon) pending() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.due) > 0
}

// lookAround sees how busy others are. child is the CPU time of the child that runs, if one does.
func (d *Daemon) lookAround(child time.Duration) {
	var own unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &own)
	d.gate.Look(d.opt.Read(), child+time.Duration(own.Utime.Nano()+own.Stime.Nano()))
	d.account(d.gate.Usage(d.opt.Rules.Quiet))
}

// pacing says how the child works.
func (d *Daemon) pacing(how string) {
	d.change(func(s *State) { s.Reason = d.doing.String() + "; " + how })
}

// overtaken reports whether an operator has pinned something since the child began, also from the command line.
func (d *Daemon) overtaken() bool {
	if d.doing == nil {
		return false
	}
	plan, err := d.opt.Tuner.Plan(context.Background(), d.doing.model.name) // which never blocks
	return err == nil && d.doing.overtaken(plan)
}

// account shows what others do and what was spent.
func (d *Daemon) account(u idle.Usage) {
	limit, spent := d.ledger.Limit().Seconds(), d.ledger.Spent().Seconds()
	d.change(func(s *State) {
		s.Host = u
		s.Budget = Budget{Limit: limit, Spent: spent, Left: max(0, limit-spent)}
	})
}

// notice looks at the conditions, and makes every model due for a check where they have changed, also while no daemon ran.
func (d *Daemon) notice(ctx context.Context) {
	now, err := d.opt.Conditions(ctx)
	if err != nil {
		d.tell(warnLevel, "", "the conditions of this host could not be read", err.Error())
		return
	}
	for _, m := range d.models {
		changed := changes(m.saved.Conditions, now)
		if changed != "" {
			d.opt.Tuner.Reprobe()
			m.saved.Next = time.Time{}
			d.tell(infoLevel, m.name, "what was learned is checked again", changed)
		}
		if changed != "" || m.saved.Conditions == nil {
			m.saved.Conditions = now
			d.remember(m)
		}
		d.show(ctx, m)
	}
}

// changes says which conditions are others than before; "" = none is.
func changes(before, now map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if was, ok := before[name]; ok && was != now[name] {
			list = append(list, fmt.Sprintf("%s was %s and is %s", name, was, now[name]))
		}
	}
	return strings.Join(list, ", ")
}

// held is an error where a config would answer that is not frozen.
func (d *Daemon) held(ctx context.Context) error {
	if d.opt.Mode != tuner.ModeFrozen {
		return nil
	}
	for _, m := range d.models {
		if _, err := d.opt.Tuner.Plan(ctx, m.name); err != nil {
			return fmt.Errorf("daemon: %w", err)
		}
	}
	return nil
}

// Pin makes what answers now the answer until it is unpinned. The daemon leaves the model alone for as long.
func (d *Daemon) Pin(ctx context.Context, model, by string) error {
	plan, err := d.opt.Tuner.Plan(ctx, model)
	if err == nil {
		err = d.opt.Tuner.Pin(ctx, model, plan.Config, by)
	}
	return d.ordered(model, "pinned by "+by, "", err)
}

// Unpinned begins the event of a model that is unpinned; who did it follows.
const Unpinned = "unpinned by "

// Unpin lets what was learned answer again.
func (d *Daemon) Unpin(ctx context.Context, model, by string) error {
	return d.ordered(model, Unpinned+by, "", d.opt.Tuner.Unpin(ctx, model))
}

// Rollback makes the config that was certified before answer again.
func (d *Daemon) Rollback(ctx context.Context, model, by, why string) error {
	_, err := d.opt.Tuner.Rollback(ctx, model, by, why)
	return d.ordered(model, "rolled back by "+by, why, err)
}

// ordered tells what an operator did, and has the daemon look at it soon.
func (d *Daemon) ordered(model, what, why string, err error) error {
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.due[model] = true
	d.mu.Unlock()
	d.tell(infoLevel, model, what, why)
	return nil
}
