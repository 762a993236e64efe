package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model/modeltest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/advisor"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

func TestSettingsOf(t *testing.T) {
	for line, want := range map[string]struct {
		settings advisor.Settings
		model    string
	}{
		"/usr/bin/llama-server -m /models/a.gguf -t 8 -c 4096 -ngl 0 -fa off -np 4 -ub 512": {advisor.Settings{"mode": "inference", "engine": "llama.cpp",
			"threads": "8", "sequence_length": "4096", "device": "cpu", "attention": "full", "batch_size": "4", "prefill_batch": "512"}, "/models/a.gguf"},
		"llama-cli --threads=16 --n-gpu-layers 99 --flash-attn on": {advisor.Settings{"mode": "inference", "engine": "llama.cpp", "threads": "16", "device": "gpu", "attention": "flash"}, ""},
		"llama-server -t -1 -c 0 -t":                               {advisor.Settings{"mode": "inference", "engine": "llama.cpp"}, ""},
		"llama-cli -ngl -1":                                        {advisor.Settings{"mode": "inference", "engine": "llama.cpp"}, ""},
		"sleep -t 8":                                               {advisor.Settings{}, ""},
	} {
		got, path := settingsOf(strings.Fields(line))
		if diff := cmp.Diff(want.settings, got); diff != "" || path != want.model {
			t.Errorf("%s: model %q; settings (-want +got):\n%s", line, path, diff)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if s, path := settingsOf(nil); len(s) > 0 || path != "" {
		t.Errorf("%v, %q of no command line", s, path)
	}
}

// A model that an engine names is looked for where the engine is; one that cannot be read is a note and no end of the advice.
func TestModelOfAProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: there is no /proc here")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	if err := modeltest.WriteI2S("model.gguf", modeltest.Small(), 1); err != nil {
		t.Fatal(err)
	}
	var s survey
	if got := s.openable(os.Getpid(), "model.gguf"); filepath.Base(got) != "model.gguf" || !filepath.IsAbs(got) || len(s.notes) > 0 {
		t.Errorf("%q, notes %q; want the file in %s", got, s.notes, dir)
	}
	if got := s.openable(os.Getpid(), "gone.gguf"); got != "" || len(s.notes) != 1 {
		t.Errorf("%q, notes %q; want a note", got, s.notes)
	}
}

// Metrics that no rule could judge are refused, and not passed over.
func TestMetricsAreChecked(t *testing.T) {
	for doc, want := range map[string]string{
		`{"profile":{"operations":[{"name":"norm","mean_us":3}]}}`: "profile.operations[0]: count 0",
		`{"memory":{"peak_bytes":1}} {"latency":{}}`:               "more follows the object",
	} {
		path := filepath.Join(t.TempDir(), "metrics.json")
		if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := new(survey).readMetrics(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", doc, err, want)
		}
	}
}

// R2.1: every part that a rule may ask for is found where there is a model, and what the file of metrics tells is in it.
func TestSurveyFillsTheContext(t *testing.T) {
	metrics := t.TempDir() + "/metrics.json"
	const doc = `{"latency": {"mean_ms": 12, "p99_ms": 30}, "memory": {"current_bytes": 1, "peak_bytes": 3}, "throughput": {"decode_tokens_per_second": 80}}`
	if err := os.WriteFile(metrics, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &app{store: t.TempDir(), err: &strings.Builder{}}
	s, err := a.survey(t.Context(), os.DirFS("/"), adviceRequest{constants: defaultConstants(), model: anyPreset, metrics: metrics, current: map[string]string{"threads": "3"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	c := s.context
	if c.Model == nil || c.Learned == nil || c.Needs == nil || c.Needs.ModelBytes == 0 || c.Needs.Source == "" || c.GPUs == nil || c.Signals == nil {
		t.Errorf("parts are missing: %+v", c)
	}
	if c.Learned.Source != "heuristic" || c.Learned.Layout == "" || c.Learned.Decode.Threads < 1 || c.Learned.Prefill.Batch < 1 {
		t.Errorf("learned %+v", c.Learned)
	}
	// R2.50: what a benchmark measured is in the context as it is.
	if diff := cmp.Diff(&advisor.Latency{MeanMs: 12, P99Ms: 30}, c.Latency); diff != "" {
		t.Errorf("latency (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&advisor.Throughput{Decode: 80}, c.Throughput); diff != "" {
		t.Errorf("throughput (-want +got):\n%s", diff)
	}
	if c.Memory == nil || c.Memory.PeakBytes != 3 || c.Current["threads"] != "3" {
		t.Errorf("memory %+v, current %v", c.Memory, c.Current)
	}
}

const anyPreset = "bitnet-embedding-270m"

// R2.50: without a file, the rates are those that a tune on this host measured; kernels that were wrong here are known.
func TestSurveyTakesWhatATuneMeasured(t *testing.T) {
	a := &app{store: t.TempDir(), err: &strings.Builder{}}
	h, err := probe.Local(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m, _ := model.Preset(anyPreset)
	store, err := history.Open(a.store, history.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.survey(t.Context(), os.DirFS("/"), adviceRequest{constants: defaultConstants(), model: anyPreset})
	if err != nil {
		t.Fatal(err)
	}
	config := planJSON(t, a)
	wrong := kernels.All()[0].Name
	certificate := `{"verdict":"ADOPT","best":{"config":` + config + `},"wrong":[{"kernel":"` + wrong + `"}],
		"regimes":[{"regime":"decode","verdict":"ADOPT","best_ns_per_token":2e6}]}`
	s.close()
	err = store.Publish(t.Context(), history.Learned{Host: h.Fingerprint(), Model: m.Fingerprint(), Target: "cpu", Objective: "mixed", Signature: kernels.Signature(),
		Identity: factsOf(h.Identity()), Envelope: factsOf(h.Envelope()), Condition: factsOf(h.Condition()), Config: []byte(config), Certificate: []byte(certificate), Run: 1})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = a.survey(t.Context(), os.DirFS("/"), adviceRequest{constants: defaultConstants(), model: anyPreset}); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if diff := cmp.Diff(&advisor.Latency{MeanMs: 2}, s.context.Latency); diff != "" {
		t.Errorf("latency (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&advisor.Throughput{Decode: 500}, s.context.Throughput); diff != "" {
		t.Errorf("throughput (-want +got):\n%s", diff)
	}
	if s.context.Learned.Source != "measured" || !cmp.Equal(s.context.Learned.Wrong, []string{wrong}) {
		t.Errorf("learned %+v, want measured, and that %s was wrong", s.context.Learned, wrong)
	}
}

func TestAdviseRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"--current thread=8":                     `--current: setting "thread": one of mode, device`,
		"--current mode=fast":                    "--current: setting mode=fast: one of inference, training",
		"--min-impact huge":                      `--min-impact "huge": critical, high, medium or low`,
		"--category magic":                       `--category "magic": architecture, `,
		"--silence nobody":                       `silence "nobody": no rule of that id`,
		"--try threads/off":                      "--try: name the --model to measure",
		"--try threads/off --pid 1":              "--try measures under the limits of this very process",
		"--try threads/off --model " + anyPreset: `--try "threads/off": not suggested here`,
		"--pid 1 --host x":                       "--pid 1: the id of a process of this host",
		"--current threads=abc":                  `--current: current threads "abc": want a whole number above 0`,
		"--observe 1s --host x":                  "--observe 1s: want 0 or more, and no --host",
		"--observe -1s":                          "--observe -1s: want 0 or more",
		"--host nowhere.json":                    "--host: open nowhere.json",
		"--model nonsense":                       `unknown preset or file "nonsense"`,
		"--constant advisor.nothing=1":           "--constant advisor.nothing=1: no such constant",
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"--store", t.TempDir(), "advise"}, strings.Fields(line)...), &out, &errs)
		if code != exitUsage || !strings.Contains(errs.String(), want) || out.Len() > 0 || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("advise %s: code %d, %q; want code 2 and one line with %q", line, code, errs.String(), want)
		}
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"advise", "--pid", "999999999"}, &out, &errs); code != exitError || !strings.Contains(errs.String(), "want a process that runs") {
		t.Errorf("a process that is not there: code %d, %q", code, errs.String())
	}
}

func TestAdviseFurtherAndSchema(t *testing.T) {
	for flag, want := range map[string]string{"--further": "further/pruning", "--schema": advisor.Schema} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{"--store", t.TempDir(), "advise", flag}, &out, &errs); code != exitDone || !strings.Contains(out.String(), want) {
			t.Errorf("advise %s: code %d, %q", flag, code, errs.String())
		}
	}
}

// R2.2: another machine is described by what the probe verb printed there, and nothing of this one is mixed in.
func TestSurveyOfAnotherMachine(t *testing.T) {
	var doc, errs bytes.Buffer
	if code := run(t.Context(), []string{"--store", t.TempDir(), "--format", "json", "probe"}, &doc, &errs); code != exitDone {
		t.Fatalf("probe: code %d: %s", code, errs.String())
	}
	other := map[string]any{}
	if err := json.Unmarshal(doc.Bytes(), &other); err != nil {
		t.Fatal(err)
	}
	cpu := other["cpu"].(map[string]any)
	cpu["usable_cores"], cpu["model"] = 48, "production"
	other["gpus"] = []any{map[string]any{"name": "NVIDIA H200", "compute_capability": "9.0", "memory_total_bytes": 150e9}}
	data, err := json.Marshal(other)
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/production.json"
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	a := &app{store: t.TempDir(), err: &strings.Builder{}}
	s, err := a.survey(t.Context(), os.DirFS("/"), adviceRequest{constants: defaultConstants(), host: path, model: anyPreset})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	c := s.context
	if c.Host.CPU.UsableCores != 48 || c.Host.CPU.Model != "production" || c.Signals != nil || c.Model == nil {
		t.Errorf("host %+v, signals %v; want the facts of the file and no signals of this host", c.Host.CPU, c.Signals)
	}
	if c.GPUs == nil || len(c.GPUs.GPUs) != 1 || c.GPUs.GPUs[0].ComputeCapability.Major != 9 || c.GPUs.GPUs[0].TotalBytes != 150e9 {
		t.Errorf("GPUs %+v, want the H200 of the file", c.GPUs)
	}
}

// R2.43: from the context to a report, the easy suggestions one at a time, and the outcome of each is kept; then the report
// names the runs. The comparison itself is tested in package tuner.
func TestEvidenceReachesTheReport(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/model.gguf"
	if err := modeltest.WriteI2S(path, modeltest.Small(), 1); err != nil {
		t.Fatal(err)
	}
	a := &app{store: dir + "/store", err: &strings.Builder{}}
	q := adviceRequest{constants: defaultConstants(), model: path, current: map[string]string{"threads": "2"}}
	s, err := a.survey(t.Context(), os.DirFS("/"), q)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	change := advisor.Settings{"threads": "1"}
	h := s.context.Host
	if len(h.CPU.CPUs) < 2 {
		t.Skip("NOT TESTED: two threads on a host of one CPU")
	}
	suggestion := advisor.Suggestion{ID: "threads/above-quota", Change: change}
	if s.prove(t.Context(), advisor.Report{Suggestions: []advisor.Suggestion{suggestion}}) {
		t.Fatal("evidence of what was never measured")
	}
	original, _ := changeOf(s.context.Current)
	changed, _ := changeOf(change)
	c, err := s.tuner.Compare(t.Context(), path, original, changed, 3*time.Second, suggestion.ID)
	if err != nil {
		t.Fatal(err)
	}
	if c.Regimes[0].Ratio.High == 0 {
		t.Skipf("NOT TESTED: this machine was too busy for an interval: %+v", c.Regimes[0])
	}
	if !s.prove(t.Context(), advisor.Report{Suggestions: []advisor.Suggestion{suggestion}}) {
		t.Fatal("what was measured is not known")
	}
	e := s.context.Evidence[suggestion.ID]
	if !cmp.Equal(e.Records, []string{"run " + c.Run}) || e.Low > e.Ratio || e.High < e.Ratio || e.Regime != "decode" {
		t.Errorf("evidence %+v of %+v", e, c.Regimes[0])
	}
}

// R2.45: a gain in one regime is told with what it costs in another.
func TestEvidenceTellsTheCost(t *testing.T) {
	known := map[target.Regime]tuner.Known{
		target.Decode:  {Ratio: tuner.Ratio{Estimate: 1.2, Low: 1.19, High: 1.21, Confidence: 0.95}, Runs: []string{"1"}},
		target.Prefill: {Ratio: tuner.Ratio{Estimate: 0.7, Low: 0.6, High: 0.8, Confidence: 0.95}, Runs: []string{"1"}},
	}
	e, ok := evidenceOf(known, target.Decode)
	if !ok || e.Ratio != 1.2 || len(e.Warnings) != 1 || !strings.Contains(e.Warnings[0], "prefill gets slower by it, measured here: 0.700x") {
		t.Errorf("%+v, %v; want 1.2 and the cost in prefill", e, ok)
	}
	if e, ok := evidenceOf(nil, target.Decode); ok || len(e.Warnings) > 0 {
		t.Errorf("%+v of nothing", e)
	}
}

// planJSON is the config that is known for the model, as the config verb prints it.
func planJSON(t *testing.T, a *app) string {
	t.Helper()
	s, err := a.survey(t.Context(), os.DirFS("/"), adviceRequest{constants: defaultConstants(), model: anyPreset})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	plan, err := s.tuner.Plan(t.Context(), anyPreset)
	if err != nil {
		t.Fatal(err)
	}
	data, err := history.Marshal(plan.Config)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func factsOf(list []probe.Field) map[string]string {
	facts := map[string]string{}
	for _, f := range list {
		facts[f.Name] = f.Value
	}
	return facts
}
