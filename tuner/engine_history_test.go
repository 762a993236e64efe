package tuner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// squares is a command that is fastest with four threads, and writes down what it was started with.
const squares = `{
  "command": ["sh", "-c", "echo $1 >> STARTS; d=$(( ${1:-8} - 4 )); echo took $(( 100 + d * d * 10 )) ms", "sh", ["{threads}"]],
  "knobs": [
    {"name": "threads", "kind": "threads", "values": ["1", "2", "3", "4", "5", "6", "7", "8"], "default": "8"},
    {"name": "tone", "kind": "categorical", "values": ["a", "b", "c"], "default": "a"}
  ],
  "figure": {"regexp": "took (\\d+) ms", "unit": "ms", "better": "lower"}
}`

// squaresSpec is the file of the spec, and that of what was started.
func squaresSpec(t *testing.T) (spec, starts string) {
	t.Helper()
	spec, starts = filepath.Join(t.TempDir(), "squares.json"), filepath.Join(t.TempDir(), "starts")
	if err := os.WriteFile(spec, []byte(strings.ReplaceAll(squares, "STARTS", starts)), 0o600); err != nil {
		t.Fatal(err)
	}
	return spec, starts
}

func started(t *testing.T, starts string) []string {
	t.Helper()
	text, err := os.ReadFile(starts)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func tuneSquares(t *testing.T, store, spec string, fresh bool) *EngineCertificate {
	t.Helper()
	tuner, err := Open(Options{Store: store, Host: fourCores()})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tuner.TuneEngine(context.Background(), spec, EngineBudget{Time: time.Hour, Engine: Exec, Fresh: fresh})
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// The environment of the child that TestKilledBetweenTwoProcesses kills: it tunes until so many processes ended.
const killStore, killSpec, killAfter = "AUTOTUNE_TEST_STORE", "AUTOTUNE_TEST_SPEC", 7

func TestTheChildThatIsKilled(t *testing.T) {
	if os.Getenv(killStore) == "" {
		t.Skip("only as a child of TestKilledBetweenTwoProcesses")
	}
	ended := 0
	tuner, err := Open(Options{Store: os.Getenv(killStore), Host: fourCores(), Progress: func(Event) {
		if ended++; ended == killAfter {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = tuner.TuneEngine(context.Background(), os.Getenv(killSpec), EngineBudget{Time: time.Hour, Engine: Exec})
	t.Fatalf("nobody killed it: %v", err)
}

func TestKilledBetweenTwoProcessesNothingIsLost(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	store := t.TempDir()
	spec, starts := squaresSpec(t)
	child := exec.Command(self, "-test.run=^TestTheChildThatIsKilled$")
	child.Env = append(os.Environ(), killStore+"="+store, killSpec+"="+spec)
	var failure *exec.ExitError
	out, err := child.CombinedOutput()
	if !errors.As(err, &failure) || !failure.Sys().(syscall.WaitStatus).Signaled() {
		t.Fatalf("it was not killed: %v\n%s", err, out)
	}
	before := started(t, starts)
	if len(before) != killAfter {
		t.Fatalf("it started %q, want %d", before, killAfter)
	}
	cert := tuneSquares(t, store, spec, false)
	if cert.Search.Known != killAfter-1 {
		t.Errorf("%d processes were taken over, want %d, all but the cold one", cert.Search.Known, killAfter-1)
	}
	for _, m := range cert.Search.Runs {
		if threads := m.Setting["threads"]; m.Phase == "threads" && threads != "" && slices.Contains(before, threads) {
			t.Errorf("%s ran again", m.Setting)
		}
	}
	if cert.Verdict != measure.Adopt || cert.Best.Config.Plan[engine.FigureRegime]["threads"] != "4" {
		t.Errorf("%s %v, want 4 threads", cert.Verdict, cert.Best.Config.Plan)
	}
}

func TestARepeatedRunTakesOverWhatHoldsStill(t *testing.T) {
	store := t.TempDir()
	spec, _ := squaresSpec(t)
	first := tuneSquares(t, store, spec, false)
	if first.Search.Known != 0 {
		t.Fatalf("the first knew %d", first.Search.Known)
	}
	if second := tuneSquares(t, store, spec, false); second.Search.Known != first.Search.Searches-1 {
		t.Errorf("the second took over %d of %d processes", second.Search.Known, first.Search.Searches)
	}
	if third := tuneSquares(t, store, spec, true); third.Search.Known != 0 || third.Search.Searches < first.Search.Searches/2 {
		t.Errorf("afresh: %d taken over, %d started before the duel; want none, and about %d", third.Search.Known, third.Search.Searches, first.Search.Searches)
	}
	for name, change := range map[string]func(*probe.Host){
		"fewer cores":      func(h *probe.Host) { h.CPU.UsableCores = 2 },
		"another governor": func(h *probe.Host) { h.Governor = "powersave" },
		"another kernel":   func(h *probe.Host) { h.Kernel = "9.9.9" },
	} {
		host := *fourCores()
		host.Governor, host.Kernel = "performance", "6.1.0"
		here := t.TempDir()
		for i := range 2 {
			tuner, err := Open(Options{Store: here, Host: &host})
			if err != nil {
				t.Fatal(err)
			}
			cert, err := tuner.TuneEngine(context.Background(), spec, EngineBudget{Time: time.Hour, Engine: Exec})
			if err != nil || cert.Search.Known > 0 {
				t.Errorf("%s: run %d took over %d processes (%v)", name, i+1, cert.Search.Known, err)
			}
			change(&host)
		}
	}
}

func TestAStoppedRunKeepsWhatItMeasured(t *testing.T) {
	store := t.TempDir()
	spec, _ := squaresSpec(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := 0
	tuner, err := Open(Options{Store: store, Host: fourCores(), Progress: func(Event) {
		if ended++; ended == 5 {
			cancel()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tuner.TuneEngine(ctx, spec, EngineBudget{Time: time.Hour, Engine: Exec})
	if err != nil || cert.Verdict != measure.Inconclusive || cert.Search.Stopped != "interrupted" {
		t.Fatalf("%+v, %v", cert, err)
	}
	if again := tuneSquares(t, store, spec, false); again.Search.Known != 4 {
		t.Errorf("%d processes were taken over, want 4, all but the cold one", again.Search.Known)
	}
}

func TestAStoreThatTakesNothingIsNoReasonToStop(t *testing.T) {
	spec, _ := squaresSpec(t)
	tuner, err := Open(Options{Host: fourCores()})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tuner.TuneEngine(context.Background(), spec, EngineBudget{Time: time.Hour, Engine: Exec})
	if err != nil || cert.Verdict != measure.Adopt || cert.Search.Known != 0 {
		t.Errorf("without a store: %v", err)
	}
}

func TestAPlanUnderOtherLimits(t *testing.T) {
	dir, model := t.TempDir(), filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(model, []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := readEngineModel(model)
	if err != nil {
		t.Fatal(err)
	}
	host := *fourCores()
	host.CPU.UsableCores, host.CPU.CPUs, host.Memory.LimitBytes = 8, []int{0, 1, 2, 3, 4, 5, 6, 7}, 1<<30
	store, err := history.Open(dir, history.Options{})
	if err != nil {
		t.Fatal(err)
	}
	certificate := `{"verdict":"ADOPT","search":{"knobs":[{"name":"threads","stage":1}],"curves":[
		{"knob":"threads","regime":"decode","points":[{"value":"2","ratio":1.5},{"value":"3","ratio":1.4},{"value":"6","ratio":2}]}]}}`
	config := `{"engine":"llama-bench","build":"b/1","own":{"threads":"8"},"plan":{
		"decode":{"threads":"6","cpu-mask":"0xff","mmap":"0","flash-attn":"1"},"prefill":{"cpu-mask":"0xff","mmap":"0","flash-attn":"1"}}}`
	err = store.Publish(context.Background(), history.Learned{
		Host: host.Fingerprint(), Model: m.fingerprint, Target: EngineTarget + LlamaBench, Objective: "p512+n128", Signature: "b/1", Identity: fields(host.Identity()),
		Envelope: fields(host.Envelope()), Config: []byte(config), Certificate: []byte(certificate), MeasuredAt: time.Unix(1e9, 0), Run: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*probe.Host)
		source Source
		flags  string
	}{
		"the same":       {func(*probe.Host) {}, Measured, "--threads 6 --threads-batch 8 --flash-attn on --no-mmap --cpu-mask 0xff --cpu-strict 1"},
		"three cores":    {func(h *probe.Host) { h.CPU.UsableCores = 3 }, Derived, "--threads 2 --threads-batch 3 --flash-attn on --no-mmap --cpu-mask 0xff --cpu-strict 1"},
		"other CPUs":     {func(h *probe.Host) { h.CPU.CPUs = []int{8, 9, 10, 11, 12, 13, 14, 15} }, Derived, "--threads 6 --threads-batch 8 --flash-attn on --no-mmap"},
		"more cores":     {func(h *probe.Host) { h.CPU.UsableCores = 16 }, Derived, "--flash-attn on --no-mmap --cpu-mask 0xff --cpu-strict 1"},
		"little memory":  {func(h *probe.Host) { h.Memory.LimitBytes = 3 }, Derived, "--threads 6 --threads-batch 8 --flash-attn on --cpu-mask 0xff --cpu-strict 1"},
		"a quota, 7.5":   {func(h *probe.Host) { h.Cgroup.QuotaCPUs, h.CPU.UsableCores = 7.5, 7 }, Derived, "--threads 6 --threads-batch 7 --flash-attn on --no-mmap --cpu-mask 0xff --cpu-strict 1"},
		"one core alone": {func(h *probe.Host) { h.CPU.UsableCores = 1 }, Derived, "--threads 1 --threads-batch 1 --flash-attn on --no-mmap --cpu-mask 0xff --cpu-strict 1"},
	} {
		here := host
		c.change(&here)
		tuner, err := Open(Options{Store: dir, Host: &here})
		if err != nil {
			t.Fatal(err)
		}
		p, err := tuner.PlanEngine(context.Background(), model, LlamaBench)
		if err != nil {
			t.Fatal(err)
		}
		if got := words(p.Flags); p.Source != c.source || got != words(strings.Fields(c.flags)) {
			t.Errorf("%s: %s %s (%s), want %s %s", name, p.Source, got, p.Reason, c.source, c.flags)
		}
		if derived := c.source == Derived; derived != strings.Contains(p.Reason, "re-bounded because") || derived != (p.Evaluations+int(p.Ratio.Estimate) == 0 && p.MeasuredAt.IsZero()) {
			t.Errorf("%s: %q, measured at %v", name, p.Reason, p.MeasuredAt)
		}
	}
}

// words are flags in an order of their own, each with its value.
func words(flags []string) string {
	var list []string
	for _, f := range flags {
		if strings.HasPrefix(f, "--") {
			list = append(list, f)
		} else {
			list[len(list)-1] += " " + f
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func TestTheBandwidthBoundsDecoding(t *testing.T) {
	b := EngineBounds{ReadBandwidth: map[int]float64{1: 8e9, 2: 12e9, 8: 20e9}, WeightBytes: 1e9}
	for threads, want := range map[int]float64{1: 10, 2: 15, 3: 25, 8: 25, 9: 0} {
		if got := b.ceiling(engine.Decode, "threads", fmt.Sprint(threads)); got != want {
			t.Errorf("%d threads: at most %g tokens/s, want %g", threads, got, want)
		}
	}
	for _, c := range [][3]string{{engine.Prefill, "threads", "1"}, {engine.Decode, "poll", "50"}, {engine.Decode, "threads", "many"}} {
		if got := b.ceiling(c[0], c[1], c[2]); got != 0 {
			t.Errorf("%q: %g, want unknown", c, got)
		}
	}
	if (EngineBounds{}).Decode(1) != 0 {
		t.Error("a bound without a measurement")
	}
}

func TestAnEngineRunThatMayNotUseAllIsNotPublished(t *testing.T) {
	store := t.TempDir()
	spec, _ := squaresSpec(t)
	tuner, err := Open(Options{Store: store, Host: fourCores()})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tuner.TuneEngine(context.Background(), spec, EngineBudget{Time: time.Hour, Engine: Exec, MaxThreads: 2})
	if err != nil || !strings.Contains(strings.Join(cert.Warnings, " "), "not published: it holds for at most 2 of 4 threads") {
		t.Errorf("warnings %q, %v", cert.Warnings, err)
	}
	if p, err := tuner.PlanEngine(context.Background(), spec, Exec); err != nil || p.Source != Heuristic {
		t.Errorf("%s, %v", p.Source, err)
	}
}

func TestNegativeBoundsOfAnEngineRun(t *testing.T) {
	tuner, err := Open(Options{Host: fourCores()})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []EngineBudget{{Repeat: -1}, {Runs: -1}} {
		b.Time, b.Engine = time.Minute, LlamaBench
		if _, err := tuner.TuneEngine(context.Background(), "m.gguf", b); !errors.Is(err, ErrBadBudget) || !bytes.Contains([]byte(err.Error()), []byte("-1")) {
			t.Errorf("%+v: %v", b, err)
		}
	}
}

func TestAProgramCompiledAnewTakesNothingOver(t *testing.T) {
	store := t.TempDir()
	r := engineRun{tune: &tune{tuner: &Tuner{}, run: 2}, host: *fourCores(), program: "new"}
	var err error
	if r.store, err = history.Open(store, history.Options{}); err != nil {
		t.Fatal(err)
	}
	for id, program := range map[uint64]string{3: "old", 4: "new"} {
		earlier := r
		earlier.tune = &tune{tuner: r.tuner, run: id}
		earlier.program = program
		if err := r.store.PutRun(context.Background(), earlier.entry(nil, nil)); err != nil {
			t.Fatal(err)
		}
	}
	alike, err := r.runsAlike()
	if err != nil || alike[3] || !alike[4] {
		t.Errorf("%v, %v: want only the run with the same program", alike, err)
	}
}
