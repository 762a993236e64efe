package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"go.etcd.io/bbolt"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model/modeltest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine/enginetest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

var update = flag.Bool("update", false, "rewrite the expected output of the scripts")

// TestMain lets the test binary stand in for the command, so that scripts run the real thing in a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bitnet-autotune": main, "llama-server": spinningEngine, "llama-bench": enginetest.Main})
}

func TestScripts(t *testing.T) { scripts(t, "testdata/script") }

// scripts runs the scripts in a directory.
func scripts(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir: dir, UpdateScripts: *update, RequireExplicitExec: true,
		Setup: isolate, Condition: condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":     code,
			"json":     jsonField,
			"foreign":  foreign,
			"gguf":     writeGGUF,
			"tune":     tuneSmall,
			"truncate": truncate,
			"scribble": scribble,
			"flip":     flip,
			"field":    setField,
			"learn":    learn,
			"etcd":     startEtcd,
			"await":    await,
			"address":  address,
			"ask":      ask,

			"grep-tree":    grepTree,
			"corrupt-tree": corruptTree,
		},
	})
}

// condition knows [cgo]: whether this test binary was built with it.
func condition(name string) (bool, error) {
	if name != "cgo" {
		return false, fmt.Errorf("unknown condition %q: cgo is known", name)
	}
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "1"}), nil
}

// isolate gives a script a store and a home of its own.
func isolate(env *testscript.Env) error {
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
	env.Setenv("BITNET_AUTOTUNE_LISTEN", "off")        // the port may be somebody else's
	env.Setenv("BITNET_AUTOTUNE_FLEET_TIMEOUT", "20s") // a disk may be busy
	sources, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	env.Setenv("SOURCES", sources)
	env.Setenv("STORE", filepath.Join(env.WorkDir, "state", "bitnet-autotune"))
	return nil
}

// code runs the command and wants an exit code: code N args…
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: code N args...")
	}
	err := ts.Exec("bitnet-autotune", args[1:]...)
	got := 0
	if err != nil {
		got = -1
		fmt.Sscanf(err.Error(), "exit status %d", &got)
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit code %d (%v), want %s", got, err, args[0])
	}
}

// await waits until a file is there: await FILE
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await file")
	}
	for {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// address puts a HOST:PORT on which nobody listens into a variable: address VARIABLE.
func address(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: address variable")
	}
	ts.Setenv(args[0], freePort(ts))
}

// ask asks a server, which may have to begin first, and wants a status; what it answers goes into the file "answer": ask STATUS
// URL, or with a token, with which an empty order is posted: ask STATUS URL TOKENFILE.
func ask(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: ask status url [tokenfile]")
	}
	r, err := http.NewRequest("GET", args[1], nil)
	if len(args) == 3 {
		r, err = http.NewRequest("POST", args[1], strings.NewReader("{}"))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + strings.TrimSpace(ts.ReadFile(args[2]))}}
	}
	ts.Check(err)
	for {
		reply, err := http.DefaultClient.Do(r)
		if errors.Is(err, syscall.ECONNREFUSED) {
			time.Sleep(time.Millisecond)
			continue
		}
		ts.Check(err)
		body, err := io.ReadAll(reply.Body)
		reply.Body.Close()
		ts.Check(err)
		if got := fmt.Sprint(reply.StatusCode); got != args[0] {
			ts.Fatalf("%s: %s, want %s: %s", args[1], got, args[0], body)
		}
		ts.Check(os.WriteFile(ts.MkAbs("answer"), body, 0o600))
		return
	}
}

// jsonField looks into the last stdout, which must be exactly one JSON document: json PATH [WANT], or ! json
// PATH UNWANTED. PATH is dotted.
func jsonField(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 || len(args) > 2 || neg && len(args) != 2 {
		ts.Fatalf("usage: json path [want]")
	}
	doc := lookUp(ts, args[0])
	if len(args) == 2 && (fmt.Sprint(doc) == args[1]) == neg {
		ts.Fatalf("%s is %v", args[0], doc)
	}
}

// setField puts a field of the last stdout into a variable: field VARIABLE PATH.
func setField(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: field variable path")
	}
	ts.Setenv(args[0], fmt.Sprint(lookUp(ts, args[1])))
}

// lookUp returns what lies at a dotted path of the one JSON document on the last stdout.
func lookUp(ts *testscript.TestScript, path string) any {
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	var doc any
	ts.Check(dec.Decode(&doc))
	if dec.More() {
		ts.Fatalf("stdout holds more than one JSON document")
	}
	for _, name := range strings.Split(path, ".") {
		var found bool
		switch at := doc.(type) {
		case map[string]any:
			doc, found = at[name]
		case []any:
			var i int
			if n, _ := fmt.Sscanf(name, "%d", &i); n == 1 && i < len(at) {
				doc, found = at[i], true
			}
		}
		if !found {
			ts.Fatalf("%s: there is no %s", path, name)
		}
	}
	return doc
}

// writeGGUF writes a small real file, of I2_S unless another layout is given: gguf FILE [LAYOUT].
func writeGGUF(ts *testscript.TestScript, neg bool, args []string) {
	layout := "i2_s"
	if len(args) > 1 {
		layout = args[1]
	}
	ts.Check(modeltest.Write(ts.MkAbs(args[0]), modeltest.Small(), layout, 1, func(int, int) model.TileParameters {
		return model.TileParameters{BM: 128, BK: map[string]int{"tl1": 128, "tl2": 96}[layout], Bm: 32}
	}))
}

// foreign makes a sound database that is not a history: foreign FILE.
func foreign(ts *testscript.TestScript, neg bool, args []string) {
	db, err := bbolt.Open(ts.MkAbs(args[0]), 0o600, nil)
	ts.Check(err)
	ts.Check(db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("songs"))
		return err
	}))
	ts.Check(db.Close())
}

// tuneSmall tunes and wants a verdict, whichever the machine allows: tune BUDGET MODEL [whole]. The certificate is on stdout.
// A whole one has measured all that there is to measure; a machine too busy for that in the budget is given more, in a new
// store.
func tuneSmall(ts *testscript.TestScript, neg bool, args []string) {
	budget, err := time.ParseDuration(args[0])
	ts.Check(err)
	cert := tuneOnce(ts, budget, args[1])
	for tries := 1; len(args) > 2 && missing(cert) != ""; tries++ {
		if tries == 3 {
			ts.Fatalf("a budget of %v: %s", budget, missing(cert))
		}
		ts.Check(os.RemoveAll(ts.Getenv("STORE")))
		budget *= 2
		cert = tuneOnce(ts, budget, args[1])
	}
}

func tuneOnce(ts *testscript.TestScript, budget time.Duration, model string) *tuner.Certificate {
	err := ts.Exec("bitnet-autotune", "tune", "--format", "json", "--budget", budget.String(), "--model", model)
	if err != nil && err.Error() != fmt.Sprintf("exit status %d", exitInconclusive) {
		ts.Fatalf("tune: %v", err)
	}
	var cert tuner.Certificate
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &cert))
	if cert.Elapsed > 1.05*cert.Budget+0.5 { // half a second for a machine that is shared
		ts.Fatalf("%.2f s of a budget of %.2f s", cert.Elapsed, cert.Budget)
	}
	if (cert.Verdict == measure.Inconclusive) != (err != nil) {
		ts.Fatalf("verdict %s and exit %v", cert.Verdict, err)
	}
	return &cert
}

// missing names what a run found no time to measure, of which its certificate must warn; "" is nothing.
func missing(cert *tuner.Certificate) string {
	for _, r := range cert.Regimes {
		if r.Ratio.Estimate == 0 {
			return fmt.Sprintf("%s was compared with nothing: %q", r.Regime, r.Warnings)
		}
	}
	if f := cert.Roofline; cert.NoiseFloor == 0 || f.ReadBandwidth == 0 || f.DecodeFraction == 0 || f.WeightBytes == 0 {
		return fmt.Sprintf("noise floor %v, roofline %+v: %q", cert.NoiseFloor, f, cert.Warnings)
	}
	return ""
}

// truncate cuts a file to half its size: truncate FILE.
func truncate(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	info, err := os.Stat(path)
	ts.Check(err)
	ts.Check(os.Truncate(path, info.Size()/2))
}

// scribble overwrites the middle of a file: scribble FILE.
func scribble(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	for i := len(data) / 4; i < len(data)*3/4; i++ {
		data[i] ^= 0xa5
	}
	ts.Check(os.WriteFile(path, data, 0o600))
}

// flip damages one bit of every occurrence of a text in a file: flip FILE TEXT.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	damaged := append([]byte{args[1][0] ^ 1}, args[1][1:]...)
	ts.Check(os.WriteFile(path, bytes.ReplaceAll(data, []byte(args[1]), damaged), 0o600))
}

// TestEveryVerbHasHelpWithExamples keeps the manual complete.
func TestEveryVerbHasHelpWithExamples(t *testing.T) {
	for _, verb := range verbs((&app{}).root()) {
		if verb.Short == "" || verb.Example == "" {
			t.Errorf("%s: Short %q, Example %q: want both", verb.CommandPath(), verb.Short, verb.Example)
		}
	}
}

// BITNET_AUTOTUNE_CONFIG names the config file, BITNET_AUTOTUNE_DISABLE hides instruction sets, and
// BITNET_AUTOTUNE_FLEET_PASSWORD is a secret: a flag of that name would be filled from it.
func TestNoFlagHasTheNameOfAVariable(t *testing.T) {
	for _, verb := range verbs((&app{}).root()) {
		for _, name := range []string{"config", "disable", "require", "fleet-password"} {
			if verb.Flags().Lookup(name) != nil {
				t.Errorf("%s: --%s would be filled from BITNET_AUTOTUNE_%s", verb.CommandPath(), name, strings.ToUpper(name))
			}
		}
	}
}

// verbs are all commands under cmd, except those that cobra makes itself.
func verbs(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, verb := range cmd.Commands() {
		if verb.Name() != "completion" {
			all = append(append(all, verb), verbs(verb)...)
		}
	}
	return all
}

func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{history.ErrBusy, exitBusy},
		{tuner.ErrBusy, exitBusy},
		{tuner.ErrNoBudget, exitBusy},
		{tuner.ErrBadBudget, exitUsage},
		{tuner.ErrNothingLearned, exitInconclusive},
		{tuner.ErrNothingShared, exitInconclusive},
		{model.ErrUnknown, exitUsage},
		{context.Canceled, exitError},
		{history.ErrCorrupt, exitError},
	} {
		if got := exitCode(fmt.Errorf("verb: %w", test.err)); got != test.want {
			t.Errorf("%v: code %d, want %d", test.err, got, test.want)
		}
	}
}

func TestParseRunID(t *testing.T) {
	const id = 0x6c9f1a2b3c4d5e6f
	for _, spelled := range []string{runID(id), fmt.Sprint(uint64(id))} {
		if got, err := parseRunID(spelled); got != id || err != nil {
			t.Errorf("%s: %x, %v; want %x", spelled, got, err, uint64(id))
		}
	}
	for _, wrong := range []string{"", "xyz", "6c9f1a2b3c4d5e6f7", "99999999999999999999999"} {
		if got, err := parseRunID(wrong); err == nil {
			t.Errorf("%q: %x, want an error", wrong, got)
		}
	}
}

// A host may tell of fewer CPUs to pin to than it lets threads run.
func TestReadBandwidthWithFewerCPUsThanCores(t *testing.T) {
	h, err := probe.Local(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.CPU.UsableCores, h.CPU.CPUs, h.Memory.AvailableBytes = 4, h.CPU.CPUs[:1], 32<<20
	found, err := readBandwidth(t.Context(), h)
	if len(found) != 1 || !(found[1] > 0) || err != nil {
		t.Errorf("%v, %v; want the bandwidth of 1 thread", found, err)
	}
	h.CPU.CPUs = nil
	if found, err := readBandwidth(t.Context(), h); err == nil {
		t.Errorf("%v without CPUs to pin to, want an error", found)
	}
}

func TestRunEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs strings.Builder
	if got := run(ctx, []string{"--store", t.TempDir(), "probe"}, &out, &errs); got != exitError || strings.Count(errs.String(), "\n") != 1 {
		t.Errorf("cancelled probe: code %d, stderr %q, want 1 and one line", got, errs.String())
	}
}
