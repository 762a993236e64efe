package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

// An operator who tunes while the daemon's child has the store goes first.
func TestAStepGivesWayToAnOperatorsRun(t *testing.T) {
	d, _ := begin(t, func(o *Options) { o.Child = childCommand("hold", o.Store) })
	path := filepath.Join(d.opt.Store, "tune.lock")
	until(t, d, func(s State) bool {
		f, err := os.Open(path)
		if err != nil {
			return false
		}
		defer f.Close()
		return s.Phase == Measuring && unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
	})
	operator := opened(t, d.opt.Store)
	var err error
	for range 20 { // a busy host may be slower than a run is patient
		if _, err = operator.Tune(t.Context(), anyModel, tuner.Budget{Time: 10 * time.Second, Target: "cpu", Objective: tuner.ObjectiveDecode, Seed: 1}); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	s := until(t, d, func(s State) bool { return s.Aborted > 0 })
	if e, ok := said(s, "a step gave way"); !ok || e.Why != "another run wants the store" {
		t.Errorf("%+v", s.Events)
	}
	if tuner.Wanted(d.opt.Store) {
		t.Error("the store is still wanted")
	}
}

// The program's file is replaced, or gone, after an upgrade; the children are the daemon's own build all the same.
func TestChildrenAreOfTheDaemonsOwnBuild(t *testing.T) {
	dir := t.TempDir()
	program, store := filepath.Join(dir, "program"), filepath.Join(dir, "store")
	data, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(program, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, "daemon", store)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	for {
		s, err := history.Open(store, history.Options{ReadOnly: true})
		if err == nil {
			n := 0
			_ = s.Records(t.Context(), history.Filter{}, func(history.Record) error { n++; return nil })
			if n > 0 {
				break
			}
		}
		if text, _ := os.ReadFile(log.Name()); strings.Contains(string(text), "no such file") || t.Context().Err() != nil {
			t.Fatalf("the children do not start: %s", text)
		}
		time.Sleep(5 * time.Millisecond)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// A host that does not tell its memory puts no cap on the child, rather than one of nothing.
func TestUnknownMemoryIsNoCap(t *testing.T) {
	if got := memoryCap(probe.Memory{}); got < 1<<62 {
		t.Errorf("cap %d", got)
	}
	if got := memoryCap(probe.Memory{AvailableBytes: 100}); got != 50 {
		t.Errorf("cap %d, want 50", got)
	}
}

// On a host with a card the steps tune both and the better one answers; while others use the card the daemon stays away.
func TestStepsOnAHostWithACard(t *testing.T) {
	used := 0.9
	var mu sync.Mutex
	d, _ := begin(t, func(o *Options) {
		o.Child, o.Tuner = childCommand("gpu", o.Store), opened(t, o.Store, withCard)
		o.GPU = func() float64 { mu.Lock(); defer mu.Unlock(); return used }
	})
	s := until(t, d, func(s State) bool { return strings.Contains(s.Reason, "the GPU is used to 90 %") })
	if s.Steps != 0 {
		t.Errorf("%d steps while the card is busy", s.Steps)
	}
	mu.Lock()
	used = 0
	mu.Unlock()
	s = until(t, d, func(s State) bool { return s.Models[0].Plan.Source == tuner.Measured })
	if got := s.Models[0].Plan.Config.Strategy; got != tuner.GPUOnly {
		t.Errorf("%s answers, want %s: %s", got, tuner.GPUOnly, s.Models[0].Plan.Reason)
	}
}
