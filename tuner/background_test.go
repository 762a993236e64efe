package tuner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/idle"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
)

// machine is one whose load the test sets. Each look at it is a second after the one before.
type machine struct {
	mu   sync.Mutex
	at   time.Time
	busy time.Duration
	cpus float64 // that others use
	also func(*idle.Reading)
}

func (m *machine) read() idle.Reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = m.at.Add(time.Second)
	m.busy += time.Duration(m.cpus * float64(time.Second))
	r := idle.Reading{At: m.at, CPUs: 4, Busy: m.busy, Runnable: 1}
	if m.also != nil {
		m.also(&r)
	}
	return r
}

func (m *machine) load(cpus float64) { m.change(cpus, nil) }

// change sets what others use, and what else its readings say.
func (m *machine) change(cpus float64, also func(*idle.Reading)) {
	m.mu.Lock()
	m.cpus, m.also = cpus, also
	m.mu.Unlock()
}

// inBackground opens a tuner for a simulated host in which chunked arms are 5 % faster, with a machine to be idle or not.
func inBackground(t *testing.T, store string, change func(*simulated, *BackgroundOptions)) (*Tuner, *machine) {
	t.Helper()
	m := &machine{at: time.Unix(1_800_000_000, 0)}
	s := &simulated{host: measuretest.New(1, measuretest.SharedHost()...), cost: planted}
	opt := BackgroundOptions{Look: time.Millisecond, Lock: filepath.Join(t.TempDir(), "host.lock"), Read: m.read}
	if change != nil {
		change(s, &opt)
	}
	tuner := s.open(t, store, 1)
	tuner.opt.Background = opt
	return tuner, m
}

// until waits for a state of b, on no clock but the test's own end.
func until(t *testing.T, b *Background, want func(BackgroundState) bool) {
	t.Helper()
	for !want(b.State()) {
		if t.Context().Err() != nil {
			t.Fatal("the test ended")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestBackgroundTunesWhenTheHostIsIdle(t *testing.T) {
	store := t.TempDir()
	tuner, m := inBackground(t, store, nil)
	m.load(3)
	b := tuner.Background(t.Context(), anyModel)
	until(t, b, func(s BackgroundState) bool { return strings.Contains(s.Reason, "use the CPUs") })
	if s := b.State(); s.Steps > 0 || !s.Running {
		t.Fatalf("on a busy host: %+v", s)
	}
	m.load(0)
	cert, err := b.Wait(t.Context())
	if err != nil || cert == nil || cert.Verdict != measure.Adopt {
		t.Fatalf("on an idle host: certificate %+v, error %v, want ADOPT", cert, err)
	}
	plan, err := tuner.Plan(t.Context(), anyModel)
	if err != nil || plan.Source != Measured {
		t.Errorf("afterwards Plan says %s (%v), want measured", plan.Source, err)
	}
	again := tuner.Background(t.Context(), anyModel)
	if cert, err := again.Wait(t.Context()); cert != nil || err != nil {
		t.Errorf("where all is known: %+v, %v, want nothing to do", cert, err)
	}
}

func TestBackgroundGivesWayToLoad(t *testing.T) {
	begun := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tuner, m := inBackground(t, t.TempDir(), nil)
	tuner.opt.Rig = func(ctx context.Context, _ Problem, _ uint64) (Rig, error) {
		begun <- struct{}{}
		<-ctx.Done() // as long as a step lasts
		return Rig{}, ctx.Err()
	}
	b := tuner.Background(ctx, anyModel)
	<-begun
	m.load(4)
	until(t, b, func(s BackgroundState) bool { return s.Stopped == 1 })
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if s := b.State(); s.Running || s.Measuring {
		t.Errorf("after Close: %+v", s)
	}
}

// restless is a rig that offers to rest again and again, and tells when it does and when it goes on.
func restless(rests, goesOn chan<- bool) func(context.Context, Problem, uint64) (Rig, error) {
	return func(ctx context.Context, _ Problem, _ uint64) (Rig, error) {
		for {
			select {
			case rests <- true:
			case <-ctx.Done():
				return Rig{}, ctx.Err()
			}
			rested, err := measure.Rest(ctx)
			if err != nil {
				return Rig{}, err
			}
			select {
			case goesOn <- rested:
			case <-ctx.Done():
				return Rig{}, ctx.Err()
			}
		}
	}
}

// A service that says that it has something to do makes a run rest at its next sample, from which it goes on; and so does one
// in another process.
func TestBackgroundRestsBesideAService(t *testing.T) {
	for name, arrive := range map[string]func(*Background, *machine){
		"its own":   func(b *Background, _ *machine) { b.Busy() },
		"another's": func(_ *Background, m *machine) { m.load(0.1) },
	} {
		t.Run(name, func(t *testing.T) {
			rests, goesOn := make(chan bool), make(chan bool)
			tuner, m := inBackground(t, "", func(_ *simulated, o *BackgroundOptions) {
				o.Rules = idle.DefaultRules
				o.Rules.BurstShare = 0.9
			})
			tuner.simulated, tuner.opt.Now = false, time.Now
			tuner.opt.Rig = restless(rests, goesOn)
			b := tuner.Background(t.Context(), anyModel)
			<-rests
			if rested := <-goesOn; rested {
				t.Error("it rested while it was alone")
			}
			arrive(b, m)
			for rested := false; !rested; { // after the burst of 25 ms at the latest
				<-rests
				rested = <-goesOn
			}
			if s := b.State(); s.Bursts == 0 || s.Stopped > 0 || !s.Measuring {
				t.Errorf("beside a service: %+v", s)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A run that measures or rests holds the store; who wants it goes first.
func TestBackgroundGivesWayToAnotherRun(t *testing.T) {
	store := t.TempDir()
	begun := make(chan struct{}, 1)
	tuner, _ := inBackground(t, store, nil)
	tuner.opt.Rig = func(ctx context.Context, _ Problem, _ uint64) (Rig, error) {
		select {
		case begun <- struct{}{}:
		default:
		}
		<-ctx.Done() // as long as a step lasts
		return Rig{}, ctx.Err()
	}
	b := tuner.Background(t.Context(), anyModel)
	defer b.Close()
	<-begun
	wanted, err := os.Create(filepath.Join(store, wantedName))
	if err == nil {
		err = unix.Flock(int(wanted.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer wanted.Close()
	until(t, b, func(s BackgroundState) bool { return s.Stopped > 0 })
}

// A run that rests gives its memory back where others wait for memory, where no burst can begin, and where its result would be
// no answer.
func TestBackgroundDoesNotRestForEver(t *testing.T) {
	for name, arrive := range map[string]func(*Background, *machine) error{
		"want of memory": func(_ *Background, m *machine) error {
			m.change(0.1, func(r *idle.Reading) { r.PSI, r.MemStall = true, time.Duration(r.At.Unix())*time.Second })
			return nil
		},
		"somebody always runs": func(_ *Background, m *machine) error {
			m.change(0.1, func(r *idle.Reading) { r.Runnable = 2 })
			return nil
		},
		"a pin": func(b *Background, m *machine) error {
			plan, err := b.tuner.Plan(t.Context(), anyModel)
			if err == nil {
				err = b.tuner.Pin(t.Context(), anyModel, plan.Config, "ada")
			}
			m.change(0.1, func(r *idle.Reading) { r.Runnable = 2 })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			rests, goesOn := make(chan bool), make(chan bool)
			tuner, m := inBackground(t, t.TempDir(), func(_ *simulated, o *BackgroundOptions) {
				o.Rules = idle.DefaultRules
				o.Rules.BurstShare = 0.9
				if name == "somebody always runs" {
					o.patience = 50 * time.Millisecond
				}
			})
			tuner.simulated, tuner.opt.Now = false, time.Now
			tuner.opt.Rig = restless(rests, goesOn)
			b := tuner.Background(t.Context(), anyModel)
			defer b.Close()
			<-rests
			if err := arrive(b, m); err != nil {
				t.Fatal(err)
			}
			for b.State().Stopped == 0 {
				select {
				case <-rests:
				case <-goesOn:
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
}

// packing is a simulated target that can tell what a layout costs to make.
type packing struct{ *simulated }

func (packing) Repack(ctx context.Context, _ kernels.Layout) (time.Duration, error) {
	return time.Second, ctx.Err()
}

// A paced run that is interrupted settles at once: a rest on its way would end when the service has gone, which may be never.
func TestInterruptedRunDoesNotRest(t *testing.T) {
	s := &simulated{host: measuretest.New(1), cost: planted}
	tuner := s.open(t, "", 1)
	tuner.opt.Rig = func(context.Context, Problem, uint64) (Rig, error) {
		return Rig{Target: packing{s}, Timer: s.host.Timer(1)}, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	pacer := &measure.Pacer{Clock: tuner.opt.Now, Ask: func(asking context.Context) (bool, error) {
		if asked++; asked == 500 {
			cancel()
		}
		if ctx.Err() != nil && asking.Err() == nil {
			t.Error("it asks for a rest that nothing ends")
		}
		return true, asking.Err()
	}}
	cert, err := tuner.Tune(measure.WithPacer(ctx, pacer), anyModel, Budget{Time: time.Minute, Target: targetCPU, Seed: 1})
	if err != nil || !cert.Interrupted || asked < 500 {
		t.Fatalf("after %d rests: %+v, %v, want an interrupted run", asked, cert, err)
	}
	for _, v := range cert.Layouts {
		if v.RepackSeconds != 1 {
			t.Errorf("repacking to %s takes %v s, want 1", v.Layout, v.RepackSeconds)
		}
	}
}

// Where nobody says any more when to work, a run ends and does not ask for ever.
func TestRunEndsWhereNobodyPaces(t *testing.T) {
	s := &simulated{host: measuretest.New(1), cost: planted}
	tuner := s.open(t, "", 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	pacer := &measure.Pacer{Clock: tuner.opt.Now, Ask: func(context.Context) (bool, error) {
		if asked++; asked > 100_000 {
			cancel()
		}
		if asked > 500 {
			return false, errors.New("nobody there")
		}
		return true, nil
	}}
	_, _ = tuner.Tune(measure.WithPacer(ctx, pacer), anyModel, Budget{Time: time.Minute, Target: targetCPU, Seed: 1})
	if asked <= 500 || asked > 100_000 {
		t.Errorf("it asked %d times", asked)
	}
}

// What a service says counts by time that passes, whatever the clock says.
func TestServedLongAgoUntilBusyIsCalled(t *testing.T) {
	tuner, m := inBackground(t, "", nil)
	m.load(4)
	b := tuner.Background(t.Context(), anyModel)
	defer b.Close()
	if got := b.served(); got < 24*time.Hour {
		t.Errorf("before it was ever told: served %v ago", got)
	}
	b.Busy()
	if got := b.served(); got < 0 || got > time.Hour {
		t.Errorf("after Busy: served %v ago", got)
	}
}

func TestBackgroundDecidesInBursts(t *testing.T) {
	tuner, m := inBackground(t, t.TempDir(), func(_ *simulated, o *BackgroundOptions) {
		o.Rules = idle.DefaultRules
		o.Rules.BurstShare = 1
	})
	m.load(0.1) // of four CPUs: a light service
	b := tuner.Background(t.Context(), anyModel)
	cert, err := b.Wait(t.Context())
	if err != nil || cert == nil || cert.Verdict != measure.Adopt {
		t.Fatalf("certificate %+v, error %v, want ADOPT", cert, err)
	}
	if s := b.State(); s.Bursts < 10 || s.Steps != 1 {
		t.Errorf("decided in %d bursts of %d steps", s.Bursts, s.Steps)
	}
}

func TestBackgroundStopsWhereAnOperatorPins(t *testing.T) {
	tuner, _ := inBackground(t, t.TempDir(), nil)
	plan, err := tuner.Plan(t.Context(), anyModel)
	if err != nil {
		t.Fatal(err)
	}
	tuner.opt.Rig = func(ctx context.Context, _ Problem, _ uint64) (Rig, error) {
		return Rig{}, errors.Join(tuner.Pin(ctx, anyModel, plan.Config, "ada"), errors.New("nothing was measured"))
	}
	b := tuner.Background(t.Context(), anyModel)
	if _, err := b.Wait(t.Context()); err == nil || !strings.Contains(b.State().Reason, "pinned by ada") {
		t.Errorf("after a pin: %+v, %v", b.State(), err)
	}
}

func TestBackgroundKeepsToItsBudget(t *testing.T) {
	tuner, _ := inBackground(t, "", func(_ *simulated, o *BackgroundOptions) { o.PerDay = time.Second })
	tuner.opt.Rig = func(ctx context.Context, _ Problem, _ uint64) (Rig, error) {
		for end := cpuTime() + 100*time.Millisecond; cpuTime() < end; {
			continue
		}
		return Rig{}, context.DeadlineExceeded
	}
	b := tuner.Background(t.Context(), anyModel)
	until(t, b, func(s BackgroundState) bool { return strings.Contains(s.Reason, "is spent") })
	if s := b.State(); s.Steps < 1 || s.Spent > time.Second {
		t.Errorf("%d steps, %v spent of 1s", s.Steps, s.Spent)
	}
	b.Close()
}

func TestOneBackgroundToAHost(t *testing.T) {
	tuner, m := inBackground(t, "", nil)
	m.load(4)
	first := tuner.Background(t.Context(), anyModel)
	until(t, first, func(s BackgroundState) bool { return strings.Contains(s.Reason, "use the CPUs") })
	second := tuner.Background(t.Context(), anyModel)
	until(t, second, func(s BackgroundState) bool { return strings.Contains(s.Reason, idle.ErrHeld.Error()) })
	first.Close()
	until(t, second, func(s BackgroundState) bool { return strings.Contains(s.Reason, "use the CPUs") })
	second.Close()
}

func TestBackgroundOfNoModel(t *testing.T) {
	tuner, _ := inBackground(t, "", nil)
	if _, err := tuner.Background(t.Context(), "no-such-model").Wait(t.Context()); err == nil {
		t.Error("no error for a model that does not exist")
	}
}
