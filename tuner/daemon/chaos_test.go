package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/idle"
)

// arena is a daemon process over a store, and what a test does to them.
type arena struct {
	t      *testing.T
	dir    string // its files tell the daemon the load and the clock
	store  string
	disk   bool // the store is on a small disk of its own
	random *rand.Rand
	daemon *exec.Cmd
	gone   chan error // its end
	log    *os.File
}

// TestChaos kills the daemon, its children or both at random moments, also in the middle of load bursts, of a clock jump, with the
// store locked and the disk full, while an operator pins and rolls back and a service asks for its plan all the time. No record that was once there is lost, no child stays, nothing
// is left in the store that does not belong there, and the service is always answered.
func TestChaos(t *testing.T) {
	a := &arena{t: t, dir: t.TempDir(), random: rand.New(rand.NewPCG(1, uint64(*chaos)))}
	a.store = filepath.Join(a.dir, "store")
	a.mount()
	var err error
	if a.log, err = os.Create(filepath.Join(a.dir, "log")); err != nil {
		t.Fatal(err)
	}
	defer a.log.Close()
	served := a.serve()
	before := systemState(t)
	counts, records := map[string]int{}, 0
	for kills := 0; kills < *chaos; {
		a.ensure()
		a.pause(300)
		name, kill, act := a.any()
		act()
		counts[name]++
		if kill {
			kills++
		}
		now := a.records()
		if now < records {
			t.Fatalf("after %s: %d records, %d before", name, now, records)
		}
		records = now
	}
	a.ensure()
	a.set("load", "0")
	a.newChild() // it still works
	_ = a.daemon.Process.Signal(syscall.SIGTERM)
	if err := <-a.gone; err != nil {
		t.Errorf("the daemon, asked to end: %v", err)
	}
	plans := served()
	a.childless()
	a.check()
	if now := systemState(t); now != before {
		t.Errorf("the system's state was\n%s\nand is\n%s", before, now)
	}
	t.Logf("%d records kept, %d plans served, %v", records, plans, counts)
}

// newChild waits until the daemon runs a child that it did not run before.
func (a *arena) newChild() {
	path := filepath.Join(a.store, journalName)
	before, _ := os.ReadFile(path)
	for {
		if now, err := os.ReadFile(path); err == nil && !bytes.Equal(now, before) {
			return
		}
		if a.t.Context().Err() != nil {
			a.t.Fatal("the daemon starts no more children")
		}
		a.ensure()
		time.Sleep(time.Millisecond)
	}
}

// mount puts the store on a disk of 64 MiB, where this test may.
func (a *arena) mount() {
	if err := os.Mkdir(a.store, 0o755); err != nil {
		a.t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", a.store, "tmpfs", 0, "size=64m"); err != nil {
		a.t.Logf("NOT TESTED: a full disk: %v", err)
		return
	}
	a.disk = true
	a.t.Cleanup(func() { _ = syscall.Unmount(a.store, syscall.MNT_DETACH) })
}

// serve asks for the plan until it is told to stop, and returns how often it was answered.
func (a *arena) serve() (stop func() int64) {
	service, err := openSimulated(a.store, 1, 0)
	if err != nil {
		a.t.Fatal(err)
	}
	var plans atomic.Int64
	var wait sync.WaitGroup
	done := make(chan struct{})
	wait.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
			plan, err := service.Plan(a.t.Context(), anyModel)
			if err != nil || plan.Config.Decode.Threads == 0 || strings.Contains(plan.Reason, "could not be read") {
				a.t.Errorf("the service was answered with %v, %s", err, plan.Reason)
				return
			}
			plans.Add(1)
		}
	})
	return func() int64 {
		close(done)
		wait.Wait()
		service.Close()
		return plans.Load()
	}
}

// ensure starts the daemon where none runs.
func (a *arena) ensure() {
	select {
	case err := <-a.gone: // by itself: with the disk full there is nothing to begin with
		a.gone = nil
		a.t.Logf("the daemon ended: %v", err)
	default:
	}
	if a.gone != nil {
		return
	}
	a.daemon = exec.Command(os.Args[0], "daemon", a.store)
	a.daemon.Stdout, a.daemon.Stderr = a.log, a.log
	a.daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := a.daemon.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.gone = make(chan error, 1)
	go func(cmd *exec.Cmd, gone chan<- error) { gone <- cmd.Wait() }(a.daemon, a.gone)
}

func (a *arena) pause(most int) { time.Sleep(time.Duration(a.random.IntN(most)) * time.Millisecond) }

// set tells the daemon of a load or a clock.
func (a *arena) set(name, value string) {
	if err := idle.WriteFile(filepath.Join(a.dir, name), []byte(value)); err != nil {
		a.t.Fatal(err)
	}
}

// any is something to do; kill says whether it kills.
func (a *arena) any() (name string, kill bool, act func()) {
	kills := []struct {
		name string
		act  func()
	}{
		{"daemon killed", a.killDaemon}, {"child killed", a.killChild}, {"both killed", func() { a.killChild(); a.killDaemon() }}, {"", func() {}},
	}
	troubles := []struct {
		name string
		act  func(meanwhile func())
	}{
		{"load burst", func(meanwhile func()) { a.set("load", "3"); a.pause(200); meanwhile(); a.set("load", "0") }},
		{"clock jump", func(meanwhile func()) { a.set("clock", strconv.Itoa(a.random.IntN(200)-100)); meanwhile() }},
		{"store locked", func(meanwhile func()) { a.lock("history.lock", meanwhile) }},
		{"measuring locked", func(meanwhile func()) { a.lock("tune.lock", meanwhile) }},
		{"disk full", a.fill},
		{"operator's pin", func(meanwhile func()) { a.operate(); meanwhile() }},
		{"", func(meanwhile func()) { meanwhile() }},
	}
	k, trouble := kills[a.random.IntN(len(kills))], troubles[a.random.IntN(len(troubles))]
	return strings.TrimSpace(trouble.name + " " + k.name), k.name != "", func() { trouble.act(k.act) }
}

// operate pins a knob, takes something back, or gives the knob back, as an operator may at any time. That it cannot be done now is
// told, and no loss.
func (a *arena) operate() {
	operator, err := openSimulated(a.store, 1, 0)
	if err != nil {
		a.t.Error(err)
		return
	}
	defer operator.Close()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Second)
	defer cancel()
	switch a.random.IntN(3) {
	case 0:
		_ = operator.PinKnobs(ctx, anyModel, []string{"decode.threads=3"}, "chaos")
	case 1:
		_ = operator.UnpinKnobs(ctx, anyModel, []string{"decode.threads"})
	case 2:
		_, _ = operator.Rollback(ctx, anyModel, "chaos", "for the test")
	}
}

func (a *arena) killDaemon() {
	_ = a.daemon.Process.Kill()
	<-a.gone
	a.gone = nil
}

// killChild kills the child that the journal names, if it still is that one.
func (a *arena) killChild() {
	data, err := os.ReadFile(filepath.Join(a.store, journalName))
	var was process
	if err != nil || json.Unmarshal(data, &was) != nil {
		return
	}
	if now, err := identify(was.PID); err == nil && now == was {
		_ = unix.Kill(was.PID, unix.SIGKILL)
	}
}

// lock holds one of the store's locks for a while.
func (a *arena) lock(name string, meanwhile func()) {
	f, err := os.OpenFile(filepath.Join(a.store, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return // no room
	}
	defer f.Close()
	_ = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) // where somebody else has it, it is locked as well
	a.pause(150)
	meanwhile()
	a.pause(150)
}

// fill takes all of the disk for a while.
func (a *arena) fill(meanwhile func()) {
	if !a.disk {
		meanwhile()
		return
	}
	path := filepath.Join(a.store, "filler")
	f, err := os.Create(path)
	if err == nil {
		for err == nil {
			_, err = f.Write(make([]byte, 1<<20))
		}
		_ = f.Close()
	}
	a.pause(150)
	meanwhile()
	a.pause(150)
	_ = os.Remove(path)
}

// records counts what is in the store and in its spool.
func (a *arena) records() int {
	s, err := history.Open(a.store, history.Options{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil {
		a.t.Fatal(err)
	}
	n := 0
	if err := s.Records(a.t.Context(), history.Filter{}, func(history.Record) error { n++; return nil }); err != nil {
		a.t.Fatal(err)
	}
	return n
}

// childless waits until no process has the store on its command line.
func (a *arena) childless() {
	for {
		left := 0
		list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range list {
			if line, err := os.ReadFile(file); err == nil && bytes.Contains(line, []byte(a.store)) {
				left++
			}
		}
		if left == 0 {
			return
		}
		if a.t.Context().Err() != nil {
			a.t.Fatalf("%d children are left", left)
		}
		time.Sleep(time.Millisecond)
	}
}

// check opens the store once more, as any program would, and looks at everything in it.
func (a *arena) check() {
	s, err := history.Open(a.store, history.Options{})
	if err != nil {
		a.t.Fatal(err)
	}
	report, err := s.Check(a.t.Context())
	if err != nil || !report.OK {
		a.t.Errorf("check of the store: %+v, %v", report, err)
	}
	ours := []string{"history.*", "current.cfg", "tune.lock", "tune.wanted", "snapshot*", "spool*", "backup*", tuner.LedgerName, tuner.LedgerName + ".new", "sentinel-*.json", "sentinel-*.json.new", journalName + ".new"}
	entries, err := os.ReadDir(a.store)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.ContainsFunc(ours, func(p string) bool { ok, _ := filepath.Match(p, e.Name()); return ok }) {
			a.t.Errorf("%s is left in the store", e.Name())
		}
	}
}

// systemState is what a tuner could change of the system.
func systemState(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range []string{"/sys/devices/system/cpu/cpu*/cpufreq/scaling_*", "/sys/devices/system/cpu/cpu*/online", "/sys/devices/system/cpu/smt/control",
		"/proc/sys/vm/nr_hugepages", "/sys/kernel/mm/transparent_hugepage/enabled", "/proc/sys/kernel/numa_balancing", "/proc/sys/vm/drop_caches"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if strings.HasSuffix(file, "scaling_cur_freq") {
				continue
			}
			text, _ := os.ReadFile(file)
			fmt.Fprintf(&all, "%s %s\n", file, bytes.TrimSpace(text))
		}
	}
	return all.String()
}
