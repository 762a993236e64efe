package tuner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/idle"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// BackgroundOptions say when Background may measure. The zero value works.
type BackgroundOptions struct {
	Rules  idle.Rules    // when the machine is idle; the zero Rules are idle.DefaultRules
	PerDay time.Duration // CPU time in any 24 hours; if 0, 30 minutes
	Step   time.Duration // how long a run lasts at first; if 0, 15 s. It doubles until something is decided
	Lock   string        // file that stands for this host; if "", idle.DefaultLock
	Look   time.Duration // how often to look whether the machine is idle; if 0, every second
	// Read tells how busy the machine is. If nil, the one this runs on.
	Read func() idle.Reading

	watch    func() idle.Reading // Read, or only what load while measuring shows in
	patience time.Duration       // how long a burst may be due while the run holds its memory
}

// backgroundDefaults are our choice: 30 CPU minutes a day are 1 % of two cores.
const (
	backgroundPerDay  = 30 * time.Minute
	backgroundStep    = 15 * time.Second
	backgroundLongest = 2 * time.Minute
	backgroundLook    = time.Second
	// backgroundWatch is how often to look for load while measuring: five times in the 100 ms within which to stop.
	backgroundWatch = 20 * time.Millisecond
	// backgroundBurst is how long a run works that is not alone before it rests; a block that is measured ends first.
	backgroundBurst = 25 * time.Millisecond
	// backgroundPaced is how long a run is at the least that is not alone: it is not worth setting up every hour anew.
	backgroundPaced = time.Minute
	// backgroundPatience is that of the daemon.
	backgroundPatience = time.Hour
)

func (o BackgroundOptions) filled() BackgroundOptions {
	if o.Rules == (idle.Rules{}) {
		o.Rules = idle.DefaultRules
	}
	if o.PerDay == 0 {
		o.PerDay = backgroundPerDay
	}
	if o.Step == 0 {
		o.Step = backgroundStep
	}
	if o.Lock == "" {
		o.Lock = idle.DefaultLock()
	}
	if o.Look == 0 {
		o.Look = backgroundLook
	}
	if o.patience == 0 {
		o.patience = backgroundPatience
	}
	o.watch = o.Read
	if o.Read == nil {
		o.Read = func() idle.Reading { return idle.Local(time.Now()) }
		o.watch = func() idle.Reading { return idle.LocalLoad(time.Now()) }
	}
	return o
}

// LedgerName is the file of a store in which the CPU time of background tuning is accounted for.
const LedgerName = "budget.json"

// BackgroundState is what a Background does at a moment.
type BackgroundState struct {
	Running     bool          // it still has something to do
	Measuring   bool          // now, or it rests between two bursts
	Reason      string        // why it does not measure now, or how it ended
	Bursts      int           // between which it rested, as somebody else worked
	Steps       int           // runs so far
	Stopped     int           // of these, those that gave way to load
	Spent       time.Duration // CPU time of the last 24 hours
	Certificate *Certificate  // of the last run; nil before the first
	Err         error         // the latest that went wrong; it goes on nevertheless
}

// Background tunes one model within this process when the host is idle, until something is decided. It is safe for
// concurrent use.
type Background struct {
	tuner *Tuner
	model string
	opt   BackgroundOptions
	stop  context.CancelFunc
	done  chan struct{}
	born  time.Time
	busy  atomic.Int64                  // when Busy was last called, in ns since born, which no change of the clock moves
	pacer atomic.Pointer[measure.Pacer] // of the run at hand

	mu    sync.Mutex
	state BackgroundState
}

// Background begins to tune a model whenever the host is idle, as Options.Background says, and returns at once. What is
// decided is published: the next Plan answers with it. It ends when something is decided, when ctx ends, and at Close. A
// model that cannot be read is told by Wait.
func (t *Tuner) Background(ctx context.Context, model string) *Background {
	ctx, stop := context.WithCancel(ctx)
	b := &Background{tuner: t, model: model, opt: t.opt.Background.filled(), stop: stop, done: make(chan struct{}), born: time.Now()}
	b.busy.Store(math.MinInt64 / 2) // long ago
	b.state = BackgroundState{Running: true, Reason: "it has just begun"}
	go func() {
		defer close(b.done)
		defer stop()
		err := b.run(ctx)
		b.change(func(s *BackgroundState) {
			s.Running, s.Measuring = false, false
			if err != nil {
				s.Err, s.Reason = err, err.Error()
			}
		})
	}()
	return b
}

// State returns what b does now.
func (b *Background) State() BackgroundState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// Busy tells that the service has something to do: measuring stops at its next sample, some 10 ms later, and goes on in
// bursts between long rests until the service has been quiet for as long as the machine must be idle. It takes some
// nanoseconds, and should be called for every request: CPU time of this process does not show as that of somebody else.
func (b *Background) Busy() {
	b.busy.Store(int64(time.Since(b.born)))
	if p := b.pacer.Load(); p != nil {
		p.Interrupt()
	}
}

// served is how long ago the service last had something to do.
func (b *Background) served() time.Duration { return time.Since(b.born) - time.Duration(b.busy.Load()) }

// errLoad is why a run stops before its time.
var errLoad = errors.New("load arrived")

// Wait returns once b has ended, with the last certificate, which is nil where nothing had to be measured.
func (b *Background) Wait(ctx context.Context) (*Certificate, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-b.done:
	}
	s := b.State()
	return s.Certificate, s.Err
}

// Close ends b, and returns when it has. What was measured is kept.
func (b *Background) Close() error {
	b.stop()
	<-b.done
	return nil
}

func (b *Background) change(f func(*BackgroundState)) {
	b.mu.Lock()
	f(&b.state)
	b.mu.Unlock()
}

func (b *Background) because(why string) { b.change(func(s *BackgroundState) { s.Reason = why }) }

// run tunes until something is decided. Its error is one that waiting does not mend.
func (b *Background) run(ctx context.Context) error {
	plan, err := b.tuner.Plan(ctx, b.model)
	if err != nil {
		return err
	}
	if plan.Source == Pinned || plan.Source == Measured && len(plan.Recheck) == 0 {
		b.because("nothing to do: " + plan.Reason)
		return nil
	}
	if err := b.tuner.may("nothing is measured", ModeTune); err != nil {
		b.because(fmt.Sprintf("%v; it should be tuned: %s", err, plan.Reason))
		return nil
	}
	if err := b.opt.Rules.Validate(); err != nil {
		return err
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	ledger, err := b.ledger()
	if err != nil {
		return err
	}
	return b.tune(ctx, ledger)
}

// lock waits until this is the one background tuner of the host.
func (b *Background) lock(ctx context.Context) (unlock func(), err error) {
	for {
		unlock, err := idle.Lock(b.opt.Lock)
		if !errors.Is(err, idle.ErrHeld) {
			return unlock, err
		}
		b.because(err.Error())
		if err := pause(ctx, 10*b.opt.Look); err != nil {
			return nil, err
		}
	}
}

func (b *Background) ledger() (*idle.Ledger, error) {
	path := ""
	if b.tuner.opt.Store != "" {
		path = filepath.Join(b.tuner.opt.Store, LedgerName)
	}
	ledger, note, err := idle.OpenLedger(path, b.opt.PerDay, nil)
	if err == nil && note != "" {
		b.change(func(s *BackgroundState) { s.Err = errors.New(note) })
	}
	return ledger, err
}

// tune runs steps whenever the machine is idle, each as long again as the one before, until one decides.
func (b *Background) tune(ctx context.Context, ledger *idle.Ledger) error {
	gate, pace := idle.Gate{Rules: b.opt.Rules}, idle.Pace{Share: b.opt.Rules.BurstShare}
	step := b.opt.Step
	for {
		if err := pause(ctx, b.opt.Look); err != nil {
			return nil // it was asked to end
		}
		gate.Look(b.opt.Read(), 0)
		if why := gate.Admit(time.Now()); why != "" {
			b.because(why)
			continue
		}
		if plan, err := b.tuner.Plan(ctx, b.model); err == nil && plan.Source == Pinned {
			b.because("nothing to do: " + plan.Reason)
			return nil
		}
		turns := &turns{background: b, gate: &gate, pace: &pace}
		long := step
		if turns.met() {
			if !turns.mayBegin() {
				b.because("somebody is served, and the last run has still to be paid for with a rest")
				continue
			}
			long = max(step, backgroundPaced)
		}
		settle, err := b.reserve(ledger, long)
		if err != nil {
			b.because(err.Error())
			continue
		}
		cert, stopped := b.step(ctx, long, turns)
		settle(turns.own)
		gate.Forget()
		if cert != nil && cert.Verdict != measure.Inconclusive {
			b.because(fmt.Sprintf("decided: %s", cert.Verdict))
			return nil
		}
		if !stopped {
			step = min(2*step, max(backgroundLongest, b.opt.Step))
		}
	}
}

// reserve takes the CPU time of a step on all cores out of the budget.
func (b *Background) reserve(ledger *idle.Ledger, step time.Duration) (settled func(used time.Duration), err error) {
	host, err := b.tuner.probe(context.Background())
	if err != nil {
		return nil, err
	}
	most := step * time.Duration(max(1, host.CPU.UsableCores))
	settle, err := ledger.Reserve(min(most, ledger.Limit()))
	if err != nil {
		return nil, err
	}
	return func(used time.Duration) {
		err := settle(min(most, used))
		b.change(func(s *BackgroundState) {
			s.Spent = ledger.Spent()
			if err != nil {
				s.Err = err
			}
		})
	}, nil
}

// step is one run, which ends early when load arrives.
func (b *Background) step(ctx context.Context, budget time.Duration, turns *turns) (cert *Certificate, stopped bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	turns.stop = cancel
	pacer := &measure.Pacer{Burst: backgroundBurst, Ask: turns.ask, Clock: b.tuner.opt.Now}
	b.pacer.Store(pacer)
	b.change(func(s *BackgroundState) { s.Measuring, s.Reason = true, "measuring" })
	turns.begin()
	var watch sync.WaitGroup
	watch.Go(func() { b.watch(ctx, cancel, turns) })
	cert, err := b.tuner.Tune(measure.WithPacer(ctx, pacer), b.model, Budget{Time: budget, Target: targetCPU})
	stopped = ctx.Err() != nil
	b.pacer.Store(nil)
	cancel(nil)
	watch.Wait()
	turns.end()
	b.change(func(s *BackgroundState) {
		s.Measuring = false
		s.Steps++
		if stopped {
			s.Stopped++
		}
		if cert != nil {
			s.Certificate = cert
		}
		if err != nil && !stopped {
			s.Err, s.Reason = err, err.Error()
		}
	})
	return cert, stopped
}

// watch ends a step when others begin to use the machine while it works. While it rests, it does no harm, but to who wants to
// measure with the store himself: he goes first.
func (b *Background) watch(ctx context.Context, stop context.CancelCauseFunc, turns *turns) {
	gate := idle.Gate{Rules: b.opt.Rules}
	store := b.tuner.opt.Store
	for looks := 1; pause(ctx, backgroundWatch) == nil; looks++ {
		if store != "" && looks%10 == 0 && Wanted(store) { // five times a second
			stop(errors.New("another run wants the store"))
			return
		}
		if turns.resting.Load() {
			gate.Forget()
			continue
		}
		gate.Look(b.opt.watch(), cpuTime())
		if why := gate.Yield(); why != "" {
			stop(fmt.Errorf("%w: %s", errLoad, why))
			return
		}
	}
}

// cpuTime is the CPU time that this process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pause waits, or returns the error of a context that ended meanwhile.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
