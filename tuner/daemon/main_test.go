package daemon

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/sim"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/idle"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

var (
	chaos = flag.Int("chaos", 20, "how many times TestChaos kills something")
	quiet = flag.Int("quiet", 1000, "how many quiet checks TestFalseAlarmsInTenThousandQuietChecks and TestFalseAlarmsOfRatesOnInventedHosts make on each host, the first ten times as many on the ordinary one")
)

// The test binary is the daemon and its children, too: the first argument says which.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "child":
			os.Exit(childMain(os.Args[2], os.Args[3:]))
		case "daemon":
			os.Exit(daemonMain(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

const anyModel = "bitnet-embedding-270m"

// childCommand makes a child behave in one way: "step STORE" does what a step does, on a simulated host.
func childCommand(kind, store string) []string { return []string{os.Args[0], "child", kind, store} }

// eaten is what the child "eat" holds.
var eaten [][]byte

func childMain(kind string, args []string) int {
	switch kind {
	case "step":
		return stepMain(args, "cpu")
	case "gpu": // a step on a host with a card
		return stepMain(args, "auto", withCard)
	case "crash":
		fmt.Fprintln(os.Stderr, "some trouble")
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // as the kernel does when there is no memory left
		select {}
	case "panic":
		panic("some trouble")
	case "hang":
		select {}
	case "bursts":
		return burstsMain()
	case "flood":
		return floodMain()
	case "hold": // the store, as a long step does
		f, err := os.OpenFile(filepath.Join(args[0], "tune.lock"), os.O_CREATE|os.O_RDWR, 0o600)
		if err == nil {
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		}
		if err != nil {
			return 1
		}
		for {
			time.Sleep(time.Hour)
		}
	case "babble":
		fmt.Println("this is no certificate")
		return 0
	case "work":
		for {
			continue
		}
	case "eat":
		for {
			piece := make([]byte, 8<<20)
			for i := range piece {
				piece[i] = 1
			}
			eaten = append(eaten, piece)
		}
	case "tell": // its priority and limits
		nice, _ := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		stat, _ := os.ReadFile("/proc/self/stat")
		score, _ := os.ReadFile("/proc/self/oom_score_adj")
		limits, _ := os.ReadFile("/proc/self/limits")
		fmt.Printf(`{"nice":%d,"policy":%s,"oom":%s,"data":%q}`, 20-nice, statFields(stat)[38], strings.TrimSpace(string(score)), limits)
		return 0
	}
	return 2
}

// simulated is a target on a virtual clock, on which chunked arms are truly 5 % faster than the default.
type simulated struct {
	host  *measuretest.Simulator
	pause time.Duration // that preparing takes, on the real clock
}

func (s simulated) Name() string { return "simulated" }
func (s simulated) Close() error { return nil }

func (s simulated) Prepare(ctx context.Context, r target.Regime, a target.Arm) (measure.Subject, error) {
	time.Sleep(s.pause)
	took := 10 * time.Millisecond
	if a.Blocking.ChunkRows > 0 {
		took = took * 100 / 105
	}
	if a.Threads == 0 { // on a GPU
		took /= 5
	}
	return s.host.Arm(fmt.Sprintf("%s %+v", r, a), took), ctx.Err()
}

// openSimulated returns a tuner on a simulated host with four cores.
func openSimulated(store string, seed uint64, pause time.Duration, change ...func(*tuner.Options)) (*tuner.Tuner, error) {
	s := simulated{host: measuretest.New(seed, measuretest.Jitter(0.005)), pause: pause}
	begin := time.Now()
	opt := tuner.Options{
		Store: store,
		Host: &probe.Host{OS: "linux", Arch: "amd64", CPU: probe.CPU{
			Model: "Simulated CPU", Vendor: "None", PhysicalCores: 4, LogicalCores: 4, UsableCores: 4, UsablePhysical: 4,
			CPUs: []int{0, 1, 2, 3}, ThreadsPerCore: 1, NUMANodes: 1, Features: probe.SSE42 | probe.AVX | probe.AVX2 | probe.NEON,
		}, Memory: probe.Memory{TotalBytes: 16 << 30, AvailableBytes: 8 << 30, LimitBytes: 16 << 30}},
		CUDA: func() (*driver.Driver, error) { return nil, &driver.Error{Op: "dlopen", Kind: driver.ErrNoDriver} },
		Now:  func() time.Time { return begin.Add(s.host.Now()) },
		Rig: func(context.Context, tuner.Problem, uint64) (tuner.Rig, error) {
			return tuner.Rig{Target: s, Timer: s.host.Timer(seed)}, nil
		},
	}
	for _, f := range change {
		f(&opt)
	}
	return tuner.Open(opt)
}

// withCard gives a simulated host a GPU.
func withCard(o *tuner.Options) {
	o.CUDA = func() (*driver.Driver, error) {
		m, err := sim.New(sim.Config{Devices: []sim.DeviceSpec{{Name: "Simulated GPU", TotalBytes: 24 << 30}}})
		if err != nil {
			return nil, err
		}
		return driver.Open(m.Table())
	}
}

func stepMain(args []string, target string, change ...func(*tuner.Options)) int {
	f := flag.NewFlagSet("step", flag.ContinueOnError)
	name, budget, check := f.String("model", "", ""), f.Duration("budget", 0, ""), f.Bool("check", false, "")
	f.Bool("paced", false, "")
	if err := f.Parse(args[1:]); err != nil {
		return 2
	}
	t, err := openSimulated(args[0], uint64(os.Getpid()), time.Millisecond, change...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var result any
	if *check {
		result, err = t.Verify(context.Background(), *name, *budget)
	} else {
		result, err = t.Tune(context.Background(), *name, tuner.Budget{Time: *budget, Target: target, Objective: tuner.ObjectiveDecode, Seed: uint64(os.Getpid())})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = json.NewEncoder(os.Stdout).Encode(result)
	return 0
}

// machine is one whose load the test sets. Each look at it is 20 ms after the one before at the least.
type machine struct {
	at   time.Time
	busy time.Duration
	cpus func() float64 // that others use; nil = none
	last time.Time
}

func (m *machine) read() idle.Reading {
	now := time.Now()
	step := max(20*time.Millisecond, now.Sub(m.last))
	if m.last.IsZero() {
		m.at, step = now, 0
	}
	m.last, m.at = now, m.at.Add(step)
	if m.cpus != nil {
		m.busy += time.Duration(m.cpus() * float64(step))
	}
	return idle.Reading{At: m.at, CPUs: 4, Busy: m.busy, Runnable: 1}
}

// quick are options with which a daemon does in milliseconds what it else does in minutes.
func quick(store string) Options {
	rules := idle.DefaultRules
	rules.Quiet = 40 * time.Millisecond
	idler, watcher := &machine{}, &machine{}
	return Options{
		Store: store, Models: []string{anyModel}, Child: childCommand("step", store), Rules: rules, Look: 10 * time.Millisecond,
		Lock: filepath.Join(store, "host.lock"), Log: zerolog.Nop(), Read: idler.read, Watch: watcher.read, PerDay: time.Hour,
		Conditions: func(context.Context) (map[string]string, error) { return nil, nil },
	}
}

// daemonMain is a daemon over a store that is told by files in it what the load and the clock are.
func daemonMain(store string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	t, err := openSimulated(store, 1, 0)
	if err != nil {
		return 1
	}
	told := func(name string) float64 {
		text, _ := os.ReadFile(filepath.Join(filepath.Dir(store), name))
		v, _ := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		return v
	}
	opt := quick(store)
	opt.Tuner, opt.Every, opt.Check, opt.Lock = t, 100*time.Millisecond, 2*time.Second, filepath.Join(filepath.Dir(store), "host.lock")
	load := func() float64 { return told("load") }
	opt.Read, opt.Watch = (&machine{cpus: load}).read, (&machine{cpus: load}).read
	opt.Now = func() time.Time { return time.Now().Add(time.Duration(told("clock") * float64(time.Hour))) }
	opt.PerDay, opt.Models = 24*time.Hour, nil
	for _, m := range model.Presets() { // enough of them that something is left to be learned
		opt.Models = append(opt.Models, m.Name)
	}
	opt.Log = zerolog.New(os.Stderr).With().Timestamp().Logger()
	d, err := New(opt)
	if err == nil {
		err = d.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
