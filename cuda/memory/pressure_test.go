package memory

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
)

func TestLevels(t *testing.T) {
	c := Defaults
	for _, test := range []struct {
		name   string
		before Level
		share  float64
		want   Level
	}{
		{"below all", Calm, 0.79, Calm}, {"the first threshold", Calm, 0.80, Trim}, {"the second", Calm, 0.90, Shrink},
		{"the third", Trim, 0.95, Refuse}, {"full", Calm, 1, Refuse},
		{"within the hysteresis of the first", Trim, 0.76, Trim}, {"below it", Trim, 0.74, Calm},
		{"not reached from below", Calm, 0.76, Calm},
		{"within that of the third", Refuse, 0.91, Refuse}, {"below that, of the second", Refuse, 0.89, Shrink},
		{"below both", Refuse, 0.84, Trim}, {"below all three", Refuse, 0.5, Calm},
	} {
		if got := c.level(test.before, test.share); got != test.want {
			t.Errorf("%s: from %v at %v: %v, want %v", test.name, test.before, test.share, got, test.want)
		}
	}
}

func TestCheck(t *testing.T) {
	s, d := gpus(t, 10*gib)
	var told []Pressure
	m := manager(t, d, Options{Backing: BackingPages, Pressure: func(p Pressure) { told = append(told, p) }})
	check := func(taken uint64, want Level) {
		t.Helper()
		s.Take(0, taken)
		if got, err := m.Check(); err != nil || got != want || m.Level() != want {
			t.Errorf("%d taken by others: %v, %v, want %v", taken, got, err, want)
		}
	}
	fill := func() {
		for _, bytes := range []uint64{100, 10 * mib, 200 * mib} {
			drop(t, m, get(t, m, bytes))
		}
	}
	held := func() uint64 { return m.Stats().TakenBytes }
	fill()
	check(5*gib, Calm)
	if held() != 218*mib {
		t.Errorf("calm: %d bytes held, want all that was freed", held())
	}
	check(8*gib, Trim)
	if held() != 10*mib {
		t.Errorf("R1.43 trim: %d bytes held, want the pages alone", held())
	}
	check(9*gib, Shrink)
	if held() != 0 {
		t.Errorf("shrink: %d bytes held", held())
	}
	check(9500*mib, Refuse) // and the context
	if _, err := m.Alloc(Request{Bytes: 100}); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("refuse: %v", err)
	}
	check(8*gib, Trim)
	check(7*gib, Calm)
	drop(t, m, get(t, m, 100))
	var levels []Level
	for _, p := range told {
		levels = append(levels, p.Level)
	}
	if len(told) != 5 || told[0].Before != Calm || told[0].Share < 0.8 || told[0].Memory.TotalBytes != 10*gib {
		t.Errorf("told %v, %+v", levels, told)
	}
	// R1.44: pressure events are counted.
	if got := m.Stats().Counts.PressureEvents; got != 3 {
		t.Errorf("%d pressure events, want 3 rises", got)
	}
	if err := s.Fault("MemGetInfo:1=999"); err != nil {
		t.Fatal(err)
	}
	if level, err := m.Check(); err == nil || level != Calm {
		t.Errorf("%v, %v", level, err)
	}
}

// Refuse holds also where the reserve of the moment would leave something.
func TestRefuse(t *testing.T) {
	s, d := gpus(t, 10*gib)
	c := Defaults
	c.ReserveShare = 0.01
	m := manager(t, d, Options{Constants: c})
	held := get(t, m, 3*mib)
	s.Take(0, 9500*mib)
	if level, err := m.Check(); level != Refuse || err != nil {
		t.Fatalf("%v, %v", level, err)
	}
	if _, err := m.Alloc(Request{Bytes: 150 * mib}); !errors.Is(err, driver.ErrOutOfMemory) || !strings.Contains(err.Error(), "under pressure") {
		t.Errorf("%v", err)
	}
	drop(t, m, held, get(t, m, 512*kib)) // of what a page has left
}

// A query that does not end is given up after its deadline; nothing waits for it, and what is known is called stale.
func TestQueriesAreGivenUp(t *testing.T) {
	_, d := gpus(t, 10*gib)
	stuck, ended := make(chan struct{}), make(chan error)
	var asked atomic.Int32
	c := Defaults
	c.RecordLifetime = time.Nanosecond
	m := manager(t, d, Options{Constants: c, Query: func(int) (gpu.Memory, error) {
		if asked.Add(1) == 1 {
			return gpu.Memory{TotalBytes: 10 * gib, FreeBytes: 9 * gib}, nil
		}
		<-stuck
		return gpu.Memory{TotalBytes: 10 * gib, FreeBytes: gib}, nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	m.record.deadline = 5 * time.Millisecond
	for range 3 {
		r, err := m.Memory()
		if !errors.As(err, new(*QueryError)) || !strings.Contains(r.Stale, "no answer within 5ms") || r.Basis != "estimate" || r.FreeBytes != 9*gib {
			t.Errorf("%+v, %v", r, err)
		}
	}
	drop(t, m, get(t, m, 5*mib)) // by the last known memory
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times, want no other query beside the one that hangs", n)
	}
	m.record.deadline = time.Hour
	close(stuck)
	go func() { ended <- m.Watch(ctx, time.Millisecond) }()
	for m.Level() != Shrink { // a query ends, and tells that 90 % are taken
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if n := asked.Load(); n < 3 {
		t.Errorf("asked %d times, want a query after the one that was given up", n)
	}
}

func TestScratch(t *testing.T) {
	// 100 MiB of weights, and 1 MiB for each sample.
	demand := Demand{Stated: &Need{FixedBytes: 100 * mib, SampleBytes: mib}}
	setup := func(t *testing.T) (take func(uint64), m *Manager, s *Scratch, clock *clock, log *bytes.Buffer) {
		machine, d := gpus(t, 10*gib)
		clock, log = newClock(), new(bytes.Buffer)
		logger := zerolog.New(log)
		m = manager(t, d, Options{Now: clock.now, Log: &logger})
		s, err := m.Scratch(demand)
		if err != nil {
			t.Fatal(err)
		}
		if w, reason := s.Now(); w.Batch != 256 || w.Bytes != 356*mib || reason != "" {
			t.Fatalf("%+v, %s", w, reason)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		// The query of the manager sees free = 10 GiB - context - scratch - taken.
		take = func(bytes uint64) {
			machine.Take(0, bytes)
			if _, err := m.Check(); err != nil {
				t.Fatal(err)
			}
		}
		return take, m, s, clock, log
	}
	const calm = 9*gib - 256*mib - 356*mib // taken by others, so that exactly the reserve of 1 GiB is free

	t.Run("R1.40 R1.41 no pressure, no change", func(t *testing.T) {
		take, m, s, clock, log := setup(t)
		before, _ := s.Now()
		take(5 * gib)
		clock.pass(time.Hour)
		take(6 * gib)
		if after, _ := s.Now(); after != before || strings.Contains(log.String(), "pressure on a workspace") || m.Stats().Counts.Shrinks != 0 {
			t.Errorf("%+v, then %+v", before, after)
		}
	})
	t.Run("R1.40 R1.41 R1.42 R1.53 pressure shrinks workspace and batch", func(t *testing.T) {
		take, m, s, _, log := setup(t)
		take(calm - 200*mib) // 200 MiB are available: less than 356
		w, reason := s.Now()
		// With its own 356 MiB, 556 are available: 60 % are 333 MiB, less the 100 of weights: 233 samples.
		if w.Batch != 233 || w.Bytes != 333*mib || reason != "" {
			t.Errorf("%+v, %q", w, reason)
		}
		if got := m.Stats(); got.Counts.Shrinks != 1 || got.Counts.PressureEvents == 0 || got.AllocatedBytes != 333*mib {
			t.Errorf("R1.44: %+v", got.Counts)
		}
		if !strings.Contains(log.String(), `{"level":"warn","device":0,"available_bytes":209715`) {
			t.Errorf("R1.40: no warning in %s", log.String())
		}
	})
	t.Run("R1.41 under pressure, but nothing smaller to be had: it stays", func(t *testing.T) {
		take, m, s, _, log := setup(t)
		take(calm - 200*mib)
		small, _ := s.Now()
		machineCalls := m.Stats().Counts
		for range 3 { // as little is available as before
			take(calm - 200*mib - (356-333)*mib)
		}
		after, _ := s.Now()
		got := m.Stats().Counts
		if after != small || got.Shrinks != 1 || got.Frees != machineCalls.Frees || got.PressureEvents == machineCalls.PressureEvents {
			t.Errorf("%+v, then %+v; %+v, then %+v\n%s", small, after, machineCalls, got, log.String())
		}
	})
	t.Run("R1.42 running work finishes first", func(t *testing.T) {
		take, _, s, _, _ := setup(t)
		inside, done := make(chan struct{}), make(chan struct{})
		go func() {
			_ = s.Use(func(p driver.Ptr, w Workspace) error {
				close(inside)
				<-done
				if w.Batch != 256 || p == 0 {
					t.Errorf("%+v at %#x", w, p)
				}
				return nil
			})
		}()
		<-inside
		shrunk := make(chan struct{})
		go func() { take(calm - 200*mib); close(shrunk) }()
		select {
		case <-shrunk:
			t.Error("shrunk while work runs")
		case <-time.After(20 * time.Millisecond):
		}
		close(done)
		<-shrunk
		if err := s.Use(func(_ driver.Ptr, w Workspace) error {
			if w.Batch != 233 {
				t.Errorf("%+v", w)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	t.Run("R1.42 at least batch 1", func(t *testing.T) {
		take, _, s, _, _ := setup(t)
		take(calm + 200*mib) // nothing is available; with its own 156 MiB, of which 60 % are too few for the weights
		if w, reason := s.Now(); w.Batch != 1 || w.Bytes != 101*mib || reason != "" {
			t.Errorf("%+v, %q", w, reason)
		}
	})
	t.Run("R1.42 R1.52 a total failure goes to the CPU, with a reason", func(t *testing.T) {
		take, m, s, _, log := setup(t)
		take(calm + 600*mib)
		w, reason := s.Now()
		if w.Limit != "no cuda" || w.Batch != 64 || w.Bytes != 0 || !strings.Contains(reason, "no room") {
			t.Errorf("%+v, %q", w, reason)
		}
		if got := m.Stats(); got.Counts.Fallbacks != 1 || got.AllocatedBytes != 0 || !strings.Contains(log.String(), "goes to the CPU") {
			t.Errorf("%+v", got.Counts)
		}
		if err := s.Use(func(p driver.Ptr, w Workspace) error {
			if p != 0 {
				t.Errorf("%#x", p)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	t.Run("R1.43 it grows again later, in steps, not beyond what it was", func(t *testing.T) {
		take, m, s, clock, _ := setup(t)
		take(calm + 600*mib)
		batches := func() (all []int) {
			for range 12 {
				take(0)
				w, _ := s.Now()
				all = append(all, w.Batch)
				clock.pass(Defaults.GrowthHold / 2)
			}
			return all
		}
		want := []int{64, 64, 2, 2, 4, 4, 8, 8, 16, 16, 32, 32}
		got := batches()
		if len(got) != len(want) {
			t.Fatal(got)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("batches %v, want %v (64 is the CPU's)", got, want)
			}
		}
		for range 10 {
			clock.pass(Defaults.GrowthHold)
			take(0)
		}
		if w, _ := s.Now(); w.Batch != 256 || m.Stats().Counts.Growths != 8 {
			t.Errorf("%+v, %d growths", w, m.Stats().Counts.Growths)
		}
	})
	t.Run("R4.63 limits come from the manager: what is allocated is not given twice", func(t *testing.T) {
		_, d := gpus(t, 10*gib)
		m := manager(t, d, Options{BudgetBytes: 2 * gib})
		before, err := m.Workspace(demand)
		if err != nil {
			t.Fatal(err)
		}
		a := get(t, m, 1900*mib)
		after, err := m.Workspace(demand)
		if err == nil && after.Bytes >= before.Bytes || err != nil && !errors.As(err, new(*WorkspaceError)) {
			t.Errorf("%+v, then %+v, %v", before, after, err)
		}
		drop(t, m, a)
		if again, err := m.Workspace(demand); err != nil || again.Bytes != before.Bytes {
			t.Errorf("what is free in the pools counts: %+v, %v", again, err)
		}
	})
	t.Run("closed", func(t *testing.T) {
		_, _, s, _, _ := setup(t)
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		if err := s.Use(func(driver.Ptr, Workspace) error { return nil }); !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}
