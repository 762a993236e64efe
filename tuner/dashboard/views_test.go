package dashboard

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

var update = flag.Bool("update", false, "rewrite the examples of API.md with what the server answers")

func TestViewsOfAnEmptyStore(t *testing.T) {
	v := open(t, t.TempDir(), nil)
	for _, w := range views {
		path := strings.Replace(w.path, "{model}", anyModel, 1)
		status, header, body := v.ask("GET", path, "")
		if status != http.StatusOK || header.Get("Content-Type") != "application/json" || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v\n%s", path, status, header, body)
		}
		var doc map[string]any
		if err := json.Unmarshal(body, &doc); err != nil || doc["as_of"] == nil || (doc["none"] != nil) != strings.HasSuffix(path, "/certificate") {
			t.Errorf("%s: %v\n%s", path, err, body)
		}
	}
}

func TestViewsTellWhatWasLearned(t *testing.T) {
	store := t.TempDir()
	cert := learn(t, openSimulated(t, store))
	v := open(t, store, nil)
	var shown tuner.Certificate
	v.get(modelPath+"/certificate", &shown)
	if shown.Run != cert.Run || shown.Verdict != "ADOPT" {
		t.Fatalf("certificate of run %s: %s, want %s: ADOPT", shown.Run, shown.Verdict, cert.Run)
	}
	var list modelList
	v.get("/api/v1/models", &list)
	if want := (modelList{[]modelEntry{{Name: anyModel, Target: "cpu", Source: tuner.Measured, CanRollback: true}}}); cmp.Diff(want, list) != "" {
		t.Error(cmp.Diff(want, list))
	}
	t.Run("convergence", func(t *testing.T) {
		var c curves
		v.get(modelPath+"/convergence", &c)
		if len(c.Runs) != 1 || c.Runs[0].Run != cert.Run || c.Runs[0].Running || len(c.Runs[0].Regimes) != 3 {
			t.Fatalf("%+v", c)
		}
		for i, r := range c.Runs[0].Regimes {
			last := r.Points[len(r.Points)-1]
			if r.Regime != tuner.Regimes[i] || r.Reference != toDefault || last.Evaluation != cert.Regimes[i].Evaluations {
				t.Errorf("%s to the %s: %d evaluations, want %s and %d", r.Regime, r.Reference, last.Evaluation, tuner.Regimes[i], cert.Regimes[i].Evaluations)
			}
			for j := 1; j < len(r.Points); j++ {
				if p, before := r.Points[j], r.Points[j-1]; p.Best < before.Best || p.Best < p.Ratio || p.Evaluation < before.Evaluation {
					t.Errorf("%s: point %d is %+v after %+v", r.Regime, j, p, before)
				}
			}
			if best := last.Best; best < 1.04 || best > 1.07 { // truly 1.05
				t.Errorf("%s: the best is %.3f times the default", r.Regime, best)
			}
		}
	})
	t.Run("space", func(t *testing.T) {
		var s spaces
		v.get(modelPath+"/space", &s)
		if len(s.Regimes) != 3 {
			t.Fatalf("%+v", s)
		}
		for _, r := range s.Regimes {
			serving := slices.IndexFunc(r.Cells, func(m measured) bool { return m.Serving })
			if serving < 0 {
				t.Errorf("%s: what serves is not in it", r.Regime)
				continue
			}
			for _, m := range r.Cells {
				truth := 1.0
				if strings.Contains(m.Blocking, "chunks") {
					truth = 1.05
				}
				if m.Ratio < truth*0.98 || m.Ratio > truth*1.02 || m.Samples == 0 || m.Rate < 95*truth || m.Rate > 105*truth { // 100 tokens/s
					t.Errorf("%s %+v, want %.2f times the default", r.Regime, m, truth)
				}
			}
		}
	})
	t.Run("kernels", func(t *testing.T) {
		var k table
		v.get(modelPath+"/kernels", &k)
		seen := map[string]bool{}
		for _, r := range k.Rows {
			key := fmt.Sprint(r.Regime, r.Kernel)
			if seen[key] || r.Rate <= 0 || r.Bytes <= 0 || r.Ops <= 0 || r.Arms < 1 {
				t.Errorf("row %+v, once before: %t", r, seen[key])
			}
			seen[key] = true
			if r.Regime == target.Prefill && r.Bytes*float64(r.Batch) < r.Rate { // the weights are read once for a batch
				t.Errorf("prefill reads %g bytes/s at %g tokens/s", r.Bytes, r.Rate)
			}
		}
		if len(k.Rows) < 3 {
			t.Errorf("%d rows", len(k.Rows))
		}
	})
	t.Run("timeline", func(t *testing.T) {
		if status, answer := v.order("rollback", `{"by": "ada", "why": "p99 rose"}`); status != http.StatusOK {
			t.Fatalf("%d: %s", status, answer)
		}
		if status, answer := v.order("pin", `{"by": "ada"}`); status != http.StatusOK {
			t.Fatalf("%d: %s", status, answer)
		}
		var e entries
		v.get(modelPath+"/timeline", &e)
		got := map[string]entry{}
		for i, x := range e.Entries {
			got[x.Kind] = x
			if i > 0 && x.At.After(e.Entries[i-1].At) {
				t.Errorf("%+v comes after %+v", x, e.Entries[i-1])
			}
		}
		if got[kindTune].Run != cert.Run || got[kindRollback].Why != "p99 rose" || got[kindRollback].By != "ada" || !got[kindPin].Serving || got[kindPin].By != "ada" {
			t.Errorf("%+v", e)
		}
		if status, answer := v.order("unpin", `{"by": "bob"}`); status != http.StatusOK {
			t.Fatalf("%d: %s", status, answer)
		}
		v.get(modelPath+"/timeline", &e)
		if !slices.ContainsFunc(e.Entries, func(x entry) bool { return x.Kind == kindUnpin && x.By == "bob" }) || slices.ContainsFunc(e.Entries, func(x entry) bool { return x.Kind == kindPin }) {
			t.Errorf("after it was unpinned: %+v", e)
		}
	})
}

// example is a JSON block of API.md under the heading of its path.
var example = regexp.MustCompile("(?ms)^### GET (/\\S+)\n(.*?)```json\n(.*?)```")

// TestAPIDocument holds API.md against the server: every path is in it and no other, and each example has the fields that the
// server sends, with values of the same kind.
func TestAPIDocument(t *testing.T) {
	text, err := os.ReadFile("API.md")
	if err != nil {
		t.Fatal(err)
	}
	store := t.TempDir()
	learn(t, openSimulated(t, store))
	publishOthers(t, store)
	v := open(t, store, nil)
	var built table
	if v.get(modelPath+"/kernels", &built); !slices.ContainsFunc(built.Rows, func(r row) bool { return strings.HasSuffix(r.Kernel, "/avx2") }) {
		t.Skip("NOT TESTED: the examples are of a build with the kernels of amd64")
	}
	var documented []string
	fresh := example.ReplaceAllFunc(text, func(block []byte) []byte {
		part := example.FindSubmatch(block)
		path := string(part[1])
		documented = append(documented, path)
		status, _, body := v.ask("GET", strings.Replace(path, "{model}", anyModel, 1), "")
		if status != http.StatusOK {
			t.Fatalf("%s: %d: %s", path, status, body)
		}
		if !*update {
			same(t, path, part[3], body)
		}
		return fmt.Appendf(nil, "### GET %s\n%s```json\n%s\n```", path, part[2], indented(t, body))
	})
	if *update {
		if err := os.WriteFile("API.md", fresh, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var served []string
	for _, w := range views {
		served = append(served, w.path)
	}
	if diff := cmp.Diff(served, documented); diff != "" {
		t.Errorf("the views (-) and the examples of API.md (+), in order:\n%s", diff)
	}
	for _, path := range []string{"### GET /api/v1/events", "### GET /metrics", "### GET /healthz", "### GET /readyz"} {
		if !strings.Contains(string(text), path+"\n") {
			t.Errorf("API.md lacks %q", path)
		}
	}
	for what := range writes {
		if !strings.Contains(string(text), "### POST /api/v1/models/{model}/"+what+"\n") {
			t.Errorf("API.md lacks POST %s", what)
		}
	}
}

// publishOthers adds to what was learned what another program was, and what another host was.
func publishOthers(t *testing.T, dir string) {
	t.Helper()
	snapshot, err := history.ReadSnapshot(dir)
	if err != nil {
		t.Fatal(err)
	}
	received := snapshot.Learned[0]
	var proof tuner.Certificate
	if err := json.Unmarshal(received.Certificate, &proof); err != nil {
		t.Fatal(err)
	}
	proof.Received = &tuner.Received{Objective: "mixed", Hosts: 3, MeasuredAt: received.MeasuredAt, Evaluations: 76, Verdict: tuner.Confirmed, CheckedAt: received.MeasuredAt, Config: "c0ffee"}
	received.Envelope = maps.Clone(received.Envelope)
	received.Envelope["origin"] = "fleet"
	engines := snapshot.Learned[0]
	engines.Target, engines.Objective, engines.Signature, engines.ModelName = "engine:llama-bench", "p512+n128", "b11469", "model"
	plan := engine.Learned{Engine: "llama-bench", Build: "b11469", Command: "/opt/llama/llama-bench", Model: "/models/model.gguf",
		Plan: engine.Plan{engine.Decode: engine.Setting{"threads": "4"}, engine.Prefill: engine.Setting{"threads": "4"}}, Own: map[string]string{"threads": "8"}}
	cert := tuner.EngineCertificate{Verdict: "ADOPT", Model: "model", Ratio: engine.Ratio{Estimate: 1.4, Low: 1.3, High: 1.5, Confidence: 0.95},
		Default: tuner.EngineRated{Config: plan, Decode: 20, Prefill: 100}, Best: tuner.EngineRated{Config: plan, Decode: 28, Prefill: 140}}
	for at, v := range map[*json.RawMessage]any{&received.Certificate: proof, &engines.Certificate: cert, &engines.Config: plan} {
		if *at, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
	}
	store, err := history.Open(dir, history.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []history.Learned{received, engines} {
		if err := store.Publish(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
}

// same compares the fields and kinds of two documents.
func same(t *testing.T, path string, example, answer []byte) {
	t.Helper()
	var want, got any
	if err := json.Unmarshal(example, &want); err != nil {
		t.Errorf("%s: the example of API.md: %v", path, err)
		return
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(kinds(want), kinds(got), cmp.FilterValues(eitherEmpty, cmp.Ignore())); diff != "" {
		t.Errorf("%s: the example of API.md (-) and the answer (+) differ; -update rewrites it:\n%s", path, diff)
	}
}

// eitherEmpty reports whether one of two lists says nothing of its elements.
func eitherEmpty(x, y []any) bool { return len(x) == 0 || len(y) == 0 }

// indented is a document with one element of each list, and each value on a line of its own unless it is short.
func indented(t *testing.T, body []byte) string {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	return rendered(t, dec, "")
}

// longestLine is that of the examples.
const longestLine = 120

func rendered(t *testing.T, dec *json.Decoder, indent string) string {
	t.Helper()
	token, err := dec.Token()
	if err != nil {
		t.Fatal(err)
	}
	open, nested := token.(json.Delim)
	if !nested {
		text, err := json.Marshal(token)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var parts []string
	for dec.More() {
		part := ""
		if open == '{' {
			part = rendered(t, dec, "") + ": "
		}
		part += rendered(t, dec, indent+"  ")
		if open == '{' || len(parts) == 0 {
			parts = append(parts, part)
		}
	}
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	end := string(open + 2) // in ASCII, ] and } come two after [ and {
	if line := string(open) + strings.Join(parts, ", ") + end; len(indent)+len(line) < longestLine && !strings.Contains(line, "\n") {
		return line
	}
	return string(open) + "\n" + indent + "  " + strings.Join(parts, ",\n"+indent+"  ") + "\n" + indent + end
}

// kinds puts the kind of each value in its place, and cuts lists to their first element.
func kinds(doc any) any {
	switch x := doc.(type) {
	case map[string]any:
		for key := range x {
			x[key] = kinds(x[key])
		}
		return x
	case []any:
		x = x[:min(1, len(x))]
		for i := range x {
			x[i] = kinds(x[i])
		}
		return x
	}
	return fmt.Sprintf("%T", doc)
}
