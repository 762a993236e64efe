package advisor

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// busy is a context in which many rules speak, with something for every part of a report.
func busy() Context {
	c := contextWith(quota(2.5), preset("bitnet-b1.58-2b-4t"),
		current("threads", "8", "layout", "i2s", "mode", "inference", "kv_cache", "off", "sequence_length", "4096", "batch_size", "1", "device", "gpu"),
		memory(4<<30, 10<<30))
	c.Host.Governor = "powersave"
	c.Evidence = map[string]Evidence{
		"threads/above-quota": {Ratio: 1.62, Low: 1.5, High: 1.75, Confidence: 0.95, Regime: "decode", Records: []string{"run 0199aa00bb11cc22"}},
		"layout/residency":    {Ratio: 0.97, Low: 0.95, High: 0.99, Confidence: 0.95, Regime: "decode", Records: []string{"run 0199aa00bb11cc23"}},
	}
	return c
}

func report(t *testing.T, opt Options, c Context) Report {
	t.Helper()
	a, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return a.Advise(c)
}

func ids(list []Suggestion) []string {
	names := []string{}
	for _, s := range list {
		names = append(names, s.ID)
	}
	return names
}

// golden compares what write writes with a file.
func golden(t *testing.T, file string, write func(io.Writer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s (-want +got), -update accepts it:\n%s", path, diff)
	}
}

// R2.31
func TestWriters(t *testing.T) {
	r := report(t, Options{Silence: []string{"cpu/governor"}}, busy())
	golden(t, "report.txt", r.WriteText)
	golden(t, "report.md", r.WriteMarkdown)
	golden(t, "report.json", r.WriteJSON)

	empty := report(t, Options{}, contextWith())
	golden(t, "empty.txt", empty.WriteText)
	if !strings.Contains(textOf(t, empty), "unknown: current threads (threads/above-cpus, threads/above-quota, threads/off, threads/smt-siblings)") {
		t.Error("R2.3: an empty report does not say what it lacks")
	}
}

func textOf(t *testing.T, r Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// R2.31: JSON reads back to the same report.
func TestJSONReadsBack(t *testing.T) {
	for _, want := range []Report{report(t, Options{Further: true}, busy()), report(t, Options{}, contextWith()), report(t, Options{}, busy()).Filter(Filter{Easy: true})} {
		var b bytes.Buffer
		if err := want.WriteJSON(&b); err != nil {
			t.Fatal(err)
		}
		got, err := ReadJSON(&b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if _, err := ReadJSON(strings.NewReader("{")); err == nil {
		t.Error("half a document was read")
	}
}

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("report.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("report.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// R2.31, and R2.4: the schema wants every field of a suggestion.
func TestReportsFollowTheSchema(t *testing.T) {
	s := schema(t)
	contexts := []Context{busy(), contextWith()}
	for _, test := range ruleCases {
		contexts = append(contexts, contextWith(test.fires...))
	}
	for _, c := range contexts {
		var b bytes.Buffer
		if err := report(t, Options{Further: true}, c).WriteJSON(&b); err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(&b)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(doc); err != nil {
			t.Errorf("%s: %v", c.Current, err)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	s := schema(t)
	var b bytes.Buffer
	if err := report(t, Options{}, busy()).WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(map[string]any){
		"no digest":                func(m map[string]any) { delete(m, "digest") },
		"an impact of its own":     func(m map[string]any) { m["impact"] = "huge" },
		"measured by nobody":       func(m map[string]any) { delete(m["expected_improvement"].(map[string]any), "records") },
		"a field nobody described": func(m map[string]any) { m["colour"] = "red" },
	} {
		var doc map[string]any
		if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		for _, one := range doc["suggestions"].([]any) {
			if m := one.(map[string]any); m["evidence"] == "measured" {
				change(m)
			}
		}
		if s.Validate(doc) == nil {
			t.Errorf("%s: the schema allows it", name)
		}
	}
}

// R2.30: filters.
func TestFilters(t *testing.T) {
	all := report(t, Options{}, busy())
	for name, test := range map[string]struct {
		filter Filter
		takes  func(Suggestion) bool
	}{
		"high":          {Filter{MinImpact: High}, func(s Suggestion) bool { return s.Impact == High || s.Impact == Critical }},
		"easy":          {Filter{Easy: true}, func(s Suggestion) bool { return s.Difficulty == Easy }},
		"category":      {Filter{Categories: []Category{Architecture}}, func(s Suggestion) bool { return s.Category == Architecture }},
		"easy and high": {Filter{Easy: true, MinImpact: High}, func(s Suggestion) bool { return s.Difficulty == Easy && s.Impact != Low && s.Impact != Medium }},
	} {
		want := []string{}
		for _, s := range all.Suggestions {
			if test.takes(s) {
				want = append(want, s.ID)
			}
		}
		got := all.Filter(test.filter)
		if diff := cmp.Diff(want, ids(got.Suggestions)); diff != "" || len(want) == 0 || len(want) == len(all.Suggestions) {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got.Filtered != len(all.Suggestions)-len(want) {
			t.Errorf("%s: %d left out of %d, %d remain", name, got.Filtered, len(all.Suggestions), len(want))
		}
	}
}

// R2.30: order by impact, difficulty, id, and the same every time.
func TestOrder(t *testing.T) {
	r := report(t, Options{Further: true}, busy())
	if !slices.IsSortedFunc(r.Suggestions, Suggestion.compare) {
		t.Errorf("order: %v", ids(r.Suggestions))
	}
	list := []Suggestion{
		{ID: "c", Impact: Critical, Difficulty: Hard}, {ID: "a", Impact: High, Difficulty: Easy}, {ID: "b", Impact: High, Difficulty: Easy},
		{ID: "0", Impact: High, Difficulty: Coding}, {ID: "1", Impact: Low, Difficulty: Easy},
	}
	shuffled := []Suggestion{list[4], list[2], list[3], list[0], list[1]}
	got := Report{Suggestions: shuffled}
	got.sort()
	if diff := cmp.Diff(ids(list), ids(got.Suggestions)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for range 20 {
		if diff := cmp.Diff(r, report(t, Options{Further: true}, busy())); diff != "" {
			t.Fatalf("another report of the same context (-first +now):\n%s", diff)
		}
	}
}

// R2.6: exactly 10 % and 30 % are medium.
func TestImpacts(t *testing.T) {
	for percent, want := range map[float64]Impact{0: Low, 9.999: Low, 10: Medium, 30: Medium, 30.001: High, 4400: High} {
		if got := Defaults.impactOf(percent); got != want {
			t.Errorf("%v %%: %s, want %s", percent, got, want)
		}
	}
	for _, ratio := range []float64{1.1, 1.3} { // whose last bits make 10.000000000000009 and 30.000000000000004 %
		if got := Defaults.impactOf(Improvement{Speed: exactly(ratio)}.gainPercent()); got != Medium {
			t.Errorf("%vx: %s, want medium", ratio, got)
		}
	}
}

// R2.8: figures can be one number or a range, and a cost shows as such.
func TestSentences(t *testing.T) {
	for want, i := range map[string]Improvement{
		"2x speed, 50 % less memory (estimate: R2.17)":    {Speed: exactly(2), Memory: exactly(-50), Source: "R2.17"},
		"4x speed (3x to 5x) of generation (estimate: R)": {Speed: between(3, 5), Of: "generation", Source: "R"},
		"20 % more time, 50 % less memory (estimate: R)":  {Latency: exactly(20), Memory: exactly(-50), Source: "R"},
		"10 % to 30 % less time (estimate: R)":            {Latency: between(-30, -10), Source: "R"},
		"nobody knows":                                    {Source: "nobody knows"},
	} {
		if got := i.sentence(Estimate); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// R2.8: what was measured takes the place of an estimate, with its interval and its runs, and grades the impact.
func TestEvidence(t *testing.T) {
	c := contextWith(current("threads", "8"), quota(2))
	c.Evidence = map[string]Evidence{}
	for name, test := range map[string]struct {
		e    Evidence
		want Impact
	}{
		"a large gain":   {Evidence{Ratio: 1.62, Low: 1.5, High: 1.75, Confidence: 0.95, Records: []string{"r"}}, High},
		"a medium gain":  {Evidence{Ratio: 1.2, Low: 1.1, High: 1.3, Confidence: 0.95, Records: []string{"r"}}, Medium},
		"perhaps a gain": {Evidence{Ratio: 1.5, Low: 1, High: 2.2, Confidence: 0.95, Records: []string{"r"}}, Low},
	} {
		c.Evidence["threads/above-quota"] = test.e
		s, ok := report(t, Options{}, c).Find("threads/above-quota")
		if !ok || s.Basis != Measured || s.Impact != test.want {
			t.Errorf("%s: %s, %s; want %s, measured", name, s.Impact, s.Basis, test.want)
			continue
		}
		want := Improvement{Speed: &Range{test.e.Low, test.e.Ratio, test.e.High}, Source: "on this host", Confidence: 0.95, Records: []string{"r"}}
		if diff := cmp.Diff(want, s.Expected); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	// R2.45: what the change costs elsewhere is told in advance.
	c.Evidence["threads/above-quota"] = Evidence{Ratio: 1.2, Low: 1.1, High: 1.3, Confidence: 0.95, Records: []string{"r"}, Warnings: []string{"prefill gets slower"}}
	if s, _ := report(t, Options{}, c).Find("threads/above-quota"); !slices.Contains(s.Warnings, "prefill gets slower") {
		t.Errorf("warnings %q, want that prefill gets slower", s.Warnings)
	}
	c.Evidence["threads/above-quota"] = Evidence{Ratio: 0.9, Low: 0.8, High: 1, Confidence: 0.95, Records: []string{"r"}}
	r := report(t, Options{}, c)
	if _, ok := r.Find("threads/above-quota"); ok || !strings.Contains(textOf(t, r), "measured here: no gain, 0.900x") {
		t.Error("what brought nothing here is suggested again, or not told")
	}
}

// What was measured with this program's own kernels is told beside the estimate for another engine, and replaces nothing.
func TestEvidenceOfAnotherEngine(t *testing.T) {
	c := contextWith(current("threads", "8", "engine", "llama.cpp"), quota(2))
	c.Evidence = map[string]Evidence{"threads/above-quota": {Ratio: 0.83, Low: 0.77, High: 0.92, Confidence: 0.95, Regime: "decode", Records: []string{"run 1"}}}
	s, ok := report(t, Options{}, c).Find("threads/above-quota")
	if !ok || s.Basis != Estimate || s.Impact != Critical {
		t.Fatalf("%+v, want the estimate", s)
	}
	if want := "measured here: 0.830x, 95 % interval 0.770-0.920 of decode (run 1); engine llama.cpp may do otherwise"; !strings.Contains(strings.Join(s.Warnings, "; "), want) {
		t.Errorf("warnings %q, want %q", s.Warnings, want)
	}
}

// R2.32: repeats keep their id, so that they can be silenced.
func TestSilence(t *testing.T) {
	loud := report(t, Options{}, busy())
	s, ok := loud.Find("cpu/governor")
	if !ok {
		t.Fatal("nothing to silence")
	}
	for entry, silent := range map[string]bool{"cpu/governor": true, "cpu/governor@" + s.Digest: true, "cpu/governor@00000000": false} {
		r := report(t, Options{Silence: []string{entry}}, busy())
		_, there := r.Find("cpu/governor")
		if there == silent || slices.Contains(r.Silenced, "cpu/governor") != silent {
			t.Errorf("%s: suggested %v, silenced %v", entry, there, r.Silenced)
		}
	}
	if _, err := New(Options{Silence: []string{"cpu/govenor"}}); err == nil {
		t.Error("a misspelt id was taken")
	}
	// Another change is another digest: what was silenced comes back when it says something else.
	first, _ := report(t, Options{}, contextWith(current("threads", "8"), quota(2))).Find("threads/above-quota")
	same, _ := report(t, Options{}, contextWith(current("threads", "9"), quota(2))).Find("threads/above-quota")
	other, _ := report(t, Options{}, contextWith(current("threads", "8"), quota(3))).Find("threads/above-quota")
	if first.Digest != same.Digest || first.Digest == other.Digest {
		t.Errorf("digests %s, %s for the same advice, %s for another", first.Digest, same.Digest, other.Digest)
	}
}

// R2.40
func TestInferenceWorkflow(t *testing.T) {
	r := report(t, Options{}, contextWith(current("mode", "inference", "kv_cache", "off", "batch_size", "1", "device", "gpu"), floatGraph(7e9)))
	for _, id := range []string{"attention/kv-cache", "quantization/ternary", "batch/one-on-gpu"} {
		if _, ok := r.Find(id); !ok {
			t.Errorf("%s is not suggested: %v", id, ids(r.Suggestions))
		}
	}
}

// R2.41
func TestTrainingWorkflow(t *testing.T) {
	r := report(t, Options{}, contextWith(current("mode", "training", "precision", "fp32", "device", "gpu"), card(8, 0, 1<<30, 1), memory(70<<30, 79<<30)))
	for _, id := range []string{"precision/mixed", "training/checkpointing"} {
		if _, ok := r.Find(id); !ok {
			t.Errorf("%s is not suggested: %v", id, ids(r.Suggestions))
		}
	}
}

// R2.42: memory advice comes first where memory is short.
func TestConstrainedMemory(t *testing.T) {
	edits := []edit{current("threads", "8", "mode", "inference", "kv_cache", "off"), quota(2), memory(1<<30, 3<<30)}
	small := contextWith(append(edits, host8GiB)...)
	for name, c := range map[string]struct {
		context Context
		first   string
	}{
		"8 GiB":              {small, "memory/fragmentation"},
		"a byte more":        {contextWith(append(edits, host8GiB, moreMemory)...), "threads/above-quota"},
		"much of it is used": {contextWith(append(edits, memory(20<<30, 52<<30))...), "memory/fragmentation"},
	} {
		r := report(t, Options{}, c.context)
		if got := ids(r.Suggestions); got[0] != c.first || r.Constrained != (c.first == "memory/fragmentation") {
			t.Errorf("%s: %v, constrained %v; want %s first", name, got, r.Constrained, c.first)
		}
	}
}

func host8GiB(c *Context)   { c.Host.Memory.LimitBytes = 8 << 30 }
func moreMemory(c *Context) { c.Host.Memory.LimitBytes++ }

// R2.44: less than 0.01 for others, nothing at all for ours.
func TestAccuracyHolds(t *testing.T) {
	for _, test := range []struct {
		before, after float64
		exact, want   bool
	}{
		{0.8, 0.7901, false, true}, {0.8, 0.79, false, false}, {0.8, 0.8099, false, true}, {0.8, 0.7, false, false},
		{0.8, 0.8, true, true}, {0.8, 0.8000001, true, false}, {0.8, math.NaN(), false, false}, {math.NaN(), math.NaN(), true, false},
	} {
		if got := Defaults.AccuracyHolds(test.before, test.after, test.exact); got != test.want {
			t.Errorf("%v -> %v, exact %v: %v", test.before, test.after, test.exact, got)
		}
	}
}

// R2.8, RX.2: every figure has a name, a source, a unit and a meaning, and a value other than 0.
func TestConstantsAreDocumented(t *testing.T) {
	kind, values := reflect.TypeFor[Constants](), reflect.ValueOf(Defaults)
	for i := range kind.NumField() {
		f := kind.Field(i)
		for _, tag := range []string{"json", "source", "unit", "doc"} {
			if f.Tag.Get(tag) == "" {
				t.Errorf("%s has no tag %s", f.Name, tag)
			}
		}
		if values.Field(i).IsZero() {
			t.Errorf("%s has no default", f.Name)
		}
	}
}

// RX.3: an override wins.
func TestConstantsCanBeSet(t *testing.T) {
	k := Defaults
	k.SequenceLength, k.AttentionLatency, k.AttentionMemory = 100, -11, 0
	s, ok := report(t, Options{Constants: &k}, contextWith(current("sequence_length", "101"))).Find("attention/long-sequence")
	if !ok || s.Impact != Medium || s.Expected.Latency.Estimate != -11 {
		t.Errorf("%+v, want the figures that were set", s)
	}
}

// R2.52: a caller asks for an id.
func TestFind(t *testing.T) {
	r := report(t, Options{}, busy())
	if s, ok := r.Find("attention/kv-cache"); !ok || s.ID != "attention/kv-cache" {
		t.Error("a suggestion that is there was not found")
	}
	if _, ok := r.Find("quantization/ternary"); ok {
		t.Error("R2.21: a ternary model is advised to be quantised")
	}
}

// R2.5, R2.7: every rule is of one of the seven categories and one of the three difficulties, and no id is taken twice.
func TestRowsAreOfTheVocabulary(t *testing.T) {
	want := []Category{"architecture", "memory", "compute", "quantization", "parallelization", "hardware", "data_pipeline"}
	if diff := cmp.Diff(want, Categories); diff != "" {
		t.Errorf("categories (-want +got):\n%s", diff)
	}
	seen, used := map[string]bool{}, map[Category]bool{}
	for _, r := range slices.Concat(builtins, further) {
		if !slices.Contains(Categories, r.category) || !slices.Contains([]Difficulty{"easy", "medium", "hard"}, r.difficulty) || seen[r.id] {
			t.Errorf("%s: category %q, difficulty %q, seen before %v", r.id, r.category, r.difficulty, seen[r.id])
		}
		seen[r.id], used[r.category] = true, true
	}
	if len(used) != len(Categories) {
		t.Errorf("categories that some rule is of: %v, want all", used)
	}
}
