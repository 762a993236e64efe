package tuner

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/history"
)

// One list has what was learned with our own kernels and of engines, here and elsewhere, in use and not.
func TestEverythingLearnedIsInOneList(t *testing.T) {
	dir, model := t.TempDir(), filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(model, []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	host := *fourCores()
	elsewhere, fewer := host, host
	elsewhere.CPU.Model, fewer.CPU.UsableCores = "Another CPU", 2
	day := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	publishEngine(t, dir, model, host, "57a4d1/9999", "3", day)
	publishEngine(t, dir, model, fewer, "57a4d1/9998", "2", day.Add(-time.Hour))
	store, err := history.Open(dir, history.Options{})
	if err != nil {
		t.Fatal(err)
	}
	here, there, old := learnedOn(t, host), learnedOn(t, elsewhere), learnedOn(t, host)
	old.Signature, old.Objective = "of another table", "prefill"
	refused := here
	refused.Envelope = originated(host, Received{Verdict: Failed})
	var proof map[string]any
	if err := json.Unmarshal(here.Certificate, &proof); err != nil {
		t.Fatal(err)
	}
	proof["received"] = Received{Verdict: Failed, Config: "c", CheckedAt: day}
	if refused.Certificate, err = json.Marshal(proof); err != nil {
		t.Fatal(err)
	}
	before := here // that it was refused it was accepted
	before.Envelope = originated(host, Received{Verdict: Confirmed})
	proof["received"] = Received{Verdict: Confirmed, Config: "c", CheckedAt: day.Add(-time.Hour)}
	if before.Certificate, err = json.Marshal(proof); err != nil {
		t.Fatal(err)
	}
	for i, l := range []history.Learned{here, there, old, refused, before} {
		l.MeasuredAt = day.Add(time.Duration(i+1) * time.Hour)
		if err := store.Publish(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	tuner, err := Open(Options{Store: dir, Host: &host})
	if err != nil {
		t.Fatal(err)
	}
	defer tuner.Close()
	list, err := tuner.LearnedConfigs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range list {
		if c.Build == "57a4d1/9998" { // under other limits
			if c.Source == Measured || c.CommandLine != "" {
				t.Errorf("under other limits: %s, %q: want neither measured nor a command", c.Source, c.CommandLine)
			}
			continue
		}
		got = append(got, fmt.Sprintf("%s %s here=%v source=%q build=%s", c.Target, c.Objective, c.Here, c.Source, c.Build))
	}
	table := here.Signature
	want := []string{
		`cpu mixed here=true source="" build=` + table,
		`cpu mixed here=true source="" build=` + table,
		`cpu prefill here=true source="" build=of another table`,
		`cpu mixed here=false source="near_host" build=` + table,
		`cpu mixed here=true source="measured" build=` + table,
		`engine:llama-bench p512+n128 here=true source="measured" build=57a4d1/9999`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if i := slices.IndexFunc(list, func(c LearnedConfig) bool { return c.CommandLine != "" }); i != 5 {
		t.Errorf("a command line at %d, want one for the engine's config that answers", i)
	}
	if nothing, err := (&Tuner{opt: Options{}, host: &host}).LearnedConfigs(t.Context()); err != nil || nothing == nil || len(nothing) > 0 {
		t.Errorf("without a store: %v, %v: want an empty list", nothing, err)
	}
}
