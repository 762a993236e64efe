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
}

func (m *machine) read() idle.Reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = m.at.Add(time.Second)
	m.busy += time.Duration(m.cpus * float64(time.Second))
	return idle.Reading{At: m.at, CPUs: 4, Busy: m.busy, Runnable: 1}
}

func (m *machine) load(cpus float64) {
	m.mu.Lock()
	m.cpus = cpus
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
