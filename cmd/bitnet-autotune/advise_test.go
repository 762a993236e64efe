package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/advisor"
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
