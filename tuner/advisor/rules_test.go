package advisor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

// server is a host on which no rule of its own accord has anything to say: 16 cores with two threads each, one node.
func server() probe.Host {
	h := probe.Host{OS: "linux", Arch: "amd64", Governor: "performance", HugePages: "madvise"}
	h.CPU = probe.CPU{Model: "a CPU", PhysicalCores: 16, LogicalCores: 32, ThreadsPerCore: 2, NUMANodes: 1, UsableCores: 32, UsablePhysical: 16,
		Features: probe.AVX | probe.AVX2 | probe.AVX512 | probe.AVX512VNNI, L3: probe.Cache{Bytes: 32 << 20, Instances: 1}}
	h.Memory = probe.Memory{TotalBytes: 64 << 30, AvailableBytes: 60 << 30, LimitBytes: 64 << 30}
	return h
}

// edit is a change of a context.
type edit func(*Context)

func contextWith(edits ...edit) Context {
	c := Context{Host: server(), Current: Settings{}}
	for _, e := range edits {
		e(&c)
	}
	return c
}

func current(pairs ...string) edit {
	return func(c *Context) {
		for i := 0; i < len(pairs); i += 2 {
			c.Current[pairs[i]] = pairs[i+1]
		}
	}
}

func preset(name string) edit {
	return func(c *Context) {
		m, ok := model.Preset(name)
		if !ok {
			panic("test: no such preset")
		}
		c.Model = &m
	}
}

func floatGraph(weights uint64) edit {
	return func(c *Context) {
		c.Graph = &Graph{Operations: []Operation{{Name: "a", Kind: "matmul", Weights: weights, Type: "f16"}}}
	}
}

// smallOperations is a graph of so many operations, of which some are small.
func smallOperations(all, small int) edit {
	return func(c *Context) {
		c.Graph = &Graph{}
		for i := range all {
			o := Operation{Kind: "matmul", Weights: Defaults.FusionWeights, Type: "i2_s", Ternary: true}
			if i < small {
				o.Weights--
			}
			c.Graph.Operations = append(c.Graph.Operations, o)
		}
	}
}

func profiled(all, small int) edit {
	return func(c *Context) {
		c.Profile = &Profile{Operations: []ProfiledOperation{{"norm", small, Defaults.FusionMicroseconds - 0.1}, {"matmul", all - small, Defaults.FusionMicroseconds}}}
	}
}

func memory(current, peak uint64) edit {
	return func(c *Context) { c.Memory = &Memory{CurrentBytes: current, PeakBytes: peak} }
}

// card is a GPU of a capability, with free memory.
func card(major, minor int, free uint64, busy float64) edit {
	return func(c *Context) {
		c.GPUs = &gpu.Survey{GPUs: []gpu.GPU{{Name: "a GPU", ComputeCapability: gpu.Capability{Major: major, Minor: minor},
			Memory: gpu.Memory{TotalBytes: 80 << 30, FreeBytes: free}, Utilization: busy}}}
	}
}

func host(change func(*probe.Host)) edit { return func(c *Context) { change(&c.Host) } }

func quota(cpus float64) edit {
	return host(func(h *probe.Host) {
		h.Cgroup.QuotaCPUs = cpus
		h.CPU.UsableCores = max(1, int(cpus))
		h.CPU.UsablePhysical = min(h.CPU.UsablePhysical, h.CPU.UsableCores)
	})
}

func learned(l Learned) edit { return func(c *Context) { c.Learned = &l } }

func signals(s Signals) edit { return func(c *Context) { c.Signals = &s } }

func nodes(bytes map[int]uint64, own ...int) edit {
	return func(c *Context) {
		c.Host.CPU.NUMANodes = 2
		c.Signals = &Signals{NodeBytes: bytes, Nodes: own}
	}
}

func needs(bytes uint64) edit {
	return func(c *Context) { c.Needs = &Needs{ModelBytes: bytes, Source: "estimate"} }
}

// ruleCase is a rule at its border: one context in which it speaks, and those in which it only just does not.
type ruleCase struct {
	requirement string
	fires       []edit
	quiet       map[string][]edit
	missing     []edit // what must make it say that it lacks something; nil where nothing can be missing
	impact      Impact
	expected    Improvement
}

var ruleCases = map[string]ruleCase{
	"attention/long-sequence": {"R2.10", []edit{current("sequence_length", "513")}, map[string][]edit{
		"512 tokens":        {current("sequence_length", "512")},
		"linear attention":  {current("sequence_length", "4096", "attention", "linear")},
		"sliding attention": {current("sequence_length", "4096", "attention", "sliding")},
	}, []edit{}, High, Improvement{Latency: exactly(-30), Memory: exactly(-40)}},
	"memory/fragmentation": {"R2.11", []edit{memory(100, 201)}, map[string][]edit{
		"exactly twice": {memory(100, 200)},
	}, []edit{}, Medium, Improvement{Memory: exactly(-30)}},
	"quantization/ternary": {"R2.12 R2.21", []edit{floatGraph(100e6 + 1)}, map[string][]edit{
		"exactly 100 million":       {floatGraph(100e6)},
		"a ternary preset":          {preset("bitnet-b1.58-2b-4t"), current("quantization", "f16", "parameters", "2e9")},
		"ternary tensors":           {smallOperations(300, 0)},
		"quantised by its settings": {current("quantization", "int8")},
		"small by its settings":     {current("quantization", "none", "parameters", "1e8")},
	}, []edit{}, High, Improvement{Memory: exactly(-75), Speed: exactly(1.4)}},
	"threads/off": {"R2.13", []edit{current("threading", "off"), quota(5)}, map[string][]edit{
		"4 cores":     {current("threading", "off"), quota(4)},
		"threads on":  {current("threading", "on")},
		"two threads": {current("threads", "2")},
	}, []edit{}, High, Improvement{Latency: exactly(-50)}},
	"operators/fusion": {"R2.14 R2.20", []edit{smallOperations(201, 101)}, map[string][]edit{
		"200 operations":                  {smallOperations(200, 200)},
		"half of them small":              {smallOperations(202, 101)},
		"profile: 200 operations":         {profiled(200, 200)},
		"profile: half of them small":     {profiled(202, 101)},
		"a profile counts before a graph": {smallOperations(201, 101), profiled(202, 101)},
	}, []edit{}, Medium, Improvement{Latency: exactly(-20)}},
	"attention/kv-cache": {"R2.15 R2.40", []edit{current("mode", "inference", "kv_cache", "off")}, map[string][]edit{
		"cache on": {current("mode", "inference", "kv_cache", "on")},
		"training": {current("mode", "training", "kv_cache", "off")},
	}, []edit{current("mode", "inference")}, High, Improvement{Speed: &Range{3, 4, 5}, Of: "generation"}},
	"batch/one-on-gpu": {"R2.16 R2.40", []edit{current("batch_size", "1", "device", "gpu")}, map[string][]edit{
		"batch 2":    {current("batch_size", "2", "device", "gpu")},
		"on the CPU": {current("batch_size", "1", "device", "cpu")},
	}, []edit{current("batch_size", "1")}, High, Improvement{Throughput: exactly(3)}},
	"precision/mixed": {"R2.17 R2.41", []edit{card(8, 0, 0, 0), current("precision", "fp32")}, map[string][]edit{
		"Turing":             {card(7, 5, 0, 0), current("precision", "fp32")},
		"fp16":               {card(8, 0, 0, 0), current("precision", "fp16")},
		"unknown capability": {card(0, 0, 0, 0), current("precision", "fp32")},
		"a GPU in trouble":   {card(9, 0, 0, 0), current("precision", "fp32"), func(c *Context) { c.GPUs.GPUs[0].Trouble = "lost" }},
	}, []edit{card(8, 0, 0, 0)}, High, Improvement{Speed: exactly(2), Memory: exactly(-50)}},
	"attention/flash": {"R2.18 R2.20", []edit{card(8, 0, 0, 0), current("attention", "full")}, map[string][]edit{
		"Turing":        {card(7, 5, 0, 0), current("attention", "full")},
		"flash already": {card(8, 0, 0, 0), current("attention", "flash")},
	}, []edit{card(8, 0, 0, 0)}, High, Improvement{Speed: &Range{2, 3, 4}, Of: "attention"}},
	"training/checkpointing": {"R2.19 R2.20 R2.41", []edit{current("mode", "training", "device", "gpu"), card(8, 0, 0, 0), memory(1, 64<<30)}, map[string][]edit{
		"just below 80 %":     {current("mode", "training", "device", "gpu"), card(8, 0, 0, 0), memory(1, 64<<30-1)},
		"inference":           {current("mode", "inference", "device", "gpu"), card(8, 0, 0, 0), memory(1, 79<<30)},
		"checkpoints already": {current("mode", "training", "device", "gpu", "checkpointing", "on"), card(8, 0, 0, 0), memory(1, 79<<30)},
	}, []edit{current("mode", "training")}, High, Improvement{Memory: exactly(-50), Latency: exactly(20)}},
	"threads/above-quota": {"users 2", []edit{current("threads", "3"), quota(2)}, map[string][]edit{
		"at the quota":           {current("threads", "2"), quota(2)},
		"no quota":               {current("threads", "32")},
		"one thread":             {current("threads", "1"), quota(0.5)},
		"a quota above the CPUs": {current("threads", "100"), quota(64), host(func(h *probe.Host) { h.CPU.UsableCores = 32 })},
	}, []edit{}, Critical, Improvement{Speed: &Range{0.75, 4.1, 45}}},
	"threads/above-cpus": {"users 2", []edit{current("threads", "33")}, map[string][]edit{
		"as many as CPUs":  {current("threads", "32")},
		"the quota speaks": {current("threads", "33"), quota(2)},
	}, []edit{}, Critical, Improvement{Speed: &Range{1, 20, 400}}},
	"threads/smt-siblings": {"users 3", []edit{current("threads", "17")}, map[string][]edit{
		"one a core":           {current("threads", "16")},
		"SMT off":              {current("threads", "17"), host(func(h *probe.Host) { h.CPU.ThreadsPerCore = 1 })},
		"measured: they help":  {current("threads", "32"), learned(Learned{Source: "measured", Decode: Setting{Threads: 32}})},
		"the quota speaks":     {current("threads", "3"), quota(2)},
		"above all that there": {current("threads", "64")},
	}, []edit{}, Medium, Improvement{Speed: &Range{0.82, 1.1, 3.6}}},
	"layout/residency": {"", []edit{preset("bitnet-b1.58-2b-4t"), current("layout", "i2s")}, map[string][]edit{
		"dense already":       {preset("bitnet-b1.58-2b-4t"), current("layout", "t5f")},
		"no kernel for dense": {preset("bitnet-b1.58-2b-4t"), current("layout", "i2s"), host(func(h *probe.Host) { h.CPU.Features = probe.AVX | probe.AVX2 })},
		"cached":              {preset("bitnet-embedding-270m"), current("layout", "i2s"), host(func(h *probe.Host) { h.CPU.L3.Bytes = 1 << 30 })},
		"measured":            {preset("bitnet-b1.58-2b-4t"), current("layout", "i2s"), learned(Learned{Source: "measured", Layout: "i2s"})},
	}, []edit{current("layout", "i2s")}, Medium, Improvement{Speed: between(1.15, 1.33), Of: "decode"}},
	"batch/far-from-learned": {"", []edit{current("prefill_batch", "257"), learned(Learned{Source: "measured", Prefill: Setting{Batch: 128}})}, map[string][]edit{
		"twice as much":    {current("prefill_batch", "256"), learned(Learned{Source: "measured", Prefill: Setting{Batch: 128}})},
		"half":             {current("prefill_batch", "64"), learned(Learned{Source: "measured", Prefill: Setting{Batch: 128}})},
		"only a heuristic": nil, // missing, below
	}, []edit{current("prefill_batch", "1024"), learned(Learned{Source: "heuristic", Prefill: Setting{Batch: 128}})}, Low, Improvement{Of: "prefill"}},
	"memory/remote-node": {"", []edit{nodes(map[int]uint64{0: 69, 1: 31}, 0)}, map[string][]edit{
		"30 % remote":     {nodes(map[int]uint64{0: 70, 1: 30}, 0)},
		"even over both":  {nodes(map[int]uint64{0: 50, 1: 50}, 0, 1)},
		"a single node":   {signals(Signals{NodeBytes: map[int]uint64{0: 1}, Nodes: []int{0}})},
		"80:20 over both": {nodes(map[int]uint64{0: 80, 1: 20}, 0, 1)},
	}, []edit{host(func(h *probe.Host) { h.CPU.NUMANodes = 2 })}, High, Improvement{Speed: between(1.1, 2), Of: "decode"}},
	"memory/no-huge-pages": {"", []edit{host(func(h *probe.Host) { h.HugePages = "never" })}, map[string][]edit{
		"madvise": {},
		"always":  {host(func(h *probe.Host) { h.HugePages = "always" })},
	}, []edit{host(func(h *probe.Host) { h.HugePages = "" })}, Low, Improvement{Speed: between(1, 1.1), Of: "decode"}},
	"cpu/governor": {"", []edit{host(func(h *probe.Host) { h.Governor = "powersave" })}, map[string][]edit{
		"performance": {},
		"schedutil":   {host(func(h *probe.Host) { h.Governor = "schedutil" })},
	}, []edit{host(func(h *probe.Host) { h.Governor = "" })}, Low, Improvement{Speed: &Range{1, 1, 1.5}}},
	"cpu/throttled": {"", []edit{signals(Signals{Window: time.Second, Periods: 100, Throttled: 6})}, map[string][]edit{
		"5 %":     {signals(Signals{Periods: 100, Throttled: 5})},
		"nothing": {signals(Signals{})},
	}, []edit{}, High, Improvement{}},
	"gpu/idle": {"", []edit{card(9, 0, 112, 0.09), current("device", "cpu"), needs(100)}, map[string][]edit{
		"busy":          {card(9, 0, 112, 0.1), current("device", "cpu"), needs(100)},
		"does not fit":  {card(9, 0, 110, 0), current("device", "cpu"), needs(100)},
		"on it already": {card(9, 0, 112, 0), current("device", "gpu"), needs(100)},
		"no GPU":        {func(c *Context) { c.GPUs = &gpu.Survey{} }},
	}, []edit{card(9, 0, 112, 0), current("device", "cpu")}, Medium, Improvement{}},
	"kernel/known-bad": {"users 15", []edit{current("engine", "bitnet.cpp", "layout", "i2s"), host(func(h *probe.Host) { h.Arch = "arm64" })}, map[string][]edit{
		"on amd64":       {current("engine", "bitnet.cpp", "layout", "i2s")},
		"another engine": {current("engine", "llama.cpp", "layout", "i2s"), host(func(h *probe.Host) { h.Arch = "arm64" })},
	}, []edit{}, Critical, Improvement{}},
}

// adviseOne is what one rule says of a context.
func adviseOne(t *testing.T, id string, c Context) (s *Suggestion, skipped string) {
	t.Helper()
	a, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := a.Advise(c)
	if len(r.Failed) > 0 {
		t.Fatalf("failed: %v", r.Failed)
	}
	for _, left := range r.Skipped {
		if left.ID == id {
			skipped = left.Reason
		}
	}
	if found, ok := r.Find(id); ok {
		s = &found
	}
	return s, skipped
}

// Every rule has a case; every case a rule. R2.10 to R2.21.
func TestEveryRuleHasACase(t *testing.T) {
	if diff := cmp.Diff(slices.Sorted(maps.Keys(ruleCases)), IDs(false)); diff != "" {
		t.Errorf("cases and rules (-cases +rules):\n%s", diff)
	}
}

func TestRules(t *testing.T) {
	for id, test := range ruleCases {
		t.Run(fmt.Sprintf("%s %s", id, test.requirement), func(t *testing.T) { test.run(t, id) })
	}
}

func (test ruleCase) run(t *testing.T, id string) {
	s, skipped := adviseOne(t, id, contextWith(test.fires...))
	if s == nil {
		t.Fatalf("says nothing (%s), want a suggestion", skipped)
	}
	if s.Impact != test.impact || s.Basis != Estimate {
		t.Errorf("impact %s, %s; want %s, estimate", s.Impact, s.Basis, test.impact)
	}
	want := test.expected
	want.Source = s.Expected.Source
	if diff := cmp.Diff(want, s.Expected); diff != "" || want.Source == "" {
		t.Errorf("expected improvement (-want +got):\n%s", diff)
	}
	if len(s.Steps) == 0 || s.Title == "" || s.Description == "" || strings.Contains(s.Description, "%!") {
		t.Errorf("lacks steps, title or description: %+v", s)
	}
	for name, edits := range test.quiet {
		if s, _ := adviseOne(t, id, contextWith(edits...)); s != nil {
			t.Errorf("%s: %q, want silence", name, s.Title)
		}
	}
	if s, skipped := adviseOne(t, id, contextWith(test.missing...)); test.missing != nil && (s != nil || !strings.HasPrefix(skipped, "unknown: ")) {
		t.Errorf("%v, %q; want to hear what is missing", s, skipped)
	}
}

// The gain of a dense layout was measured from memory: it says nothing of the way back, for weights that stay in a cache.
func TestLayoutFromCacheHasNoFigure(t *testing.T) {
	s, skipped := adviseOne(t, "layout/residency", contextWith(preset("bitnet-embedding-270m"), current("layout", "t5f"), host(func(h *probe.Host) { h.CPU.L3.Bytes = 1 << 30 })))
	if s == nil || s.Change["layout"] != "i2s" || s.Expected.Speed != nil || s.Impact != Low {
		t.Errorf("%+v (%s); want i2s without a figure", s, skipped)
	}
}

// A count that is none is refused before any rule sees it.
func TestSettingsRefuseWhatIsNoCount(t *testing.T) {
	for _, wrong := range []Settings{{"threads": "abc"}, {"threads": "-3"}, {"batch_size": "0"}, {"prefill_batch": "1.5"}, {"sequence_length": ""}, {"parameters": "-7e9"}, {"parameters": "NaN"}} {
		if err := wrong.Validate(); err == nil {
			t.Errorf("%v: no error", wrong)
		}
	}
	if err := (Settings{"threads": "8", "parameters": "7e9", "layout": "i2s"}).Validate(); err != nil {
		t.Error(err)
	}
}

// What the rules suggest to change is what the host and the history say.
func TestChanges(t *testing.T) {
	proven := learned(Learned{Source: "measured", Layout: "t5f", Decode: Setting{Threads: 12}, Prefill: Setting{Batch: 128}})
	for _, test := range []struct {
		id    string
		edits []edit
		want  Settings
	}{
		{"threads/above-quota", []edit{current("threads", "8"), quota(2.5)}, Settings{"threads": "2"}},
		{"threads/above-cpus", []edit{current("threads", "64")}, Settings{"threads": "32"}},
		{"threads/above-cpus", []edit{current("threads", "100"), quota(64), host(func(h *probe.Host) { h.CPU.UsableCores = 32 })}, Settings{"threads": "32"}},
		{"threads/above-quota", []edit{current("threads", "2"), quota(0.5)}, Settings{"threads": "1"}},
		{"threads/smt-siblings", []edit{current("threads", "32")}, Settings{"threads": "16"}},
		{"threads/off", []edit{current("threads", "1")}, Settings{"threads": "16"}},
		{"threads/off", []edit{current("threads", "1"), proven}, Settings{"threads": "12"}},
		{"layout/residency", []edit{current("layout", "i2s"), proven}, Settings{"layout": "t5f"}},
		{"batch/far-from-learned", []edit{current("prefill_batch", "512"), proven}, Settings{"prefill_batch": "128"}},
	} {
		s, skipped := adviseOne(t, test.id, contextWith(append(test.edits, preset("bitnet-b1.58-large"))...))
		if s == nil {
			t.Errorf("%s: nothing (%s)", test.id, skipped)
			continue
		}
		if diff := cmp.Diff(test.want, s.Change); diff != "" {
			t.Errorf("%s: change (-want +got):\n%s", test.id, diff)
		}
		// R2.24: what our own knobs settle names the command that measures it; more threads than CPUs are none of them.
		if test.id == "threads/above-cpus" {
			if s.Measure != "" {
				t.Errorf("measure with %q, which has no CPUs for the original", s.Measure)
			}
		} else if !strings.HasPrefix(s.Measure, "bitnet-autotune advise --model bitnet-b1.58-large --current ") || !strings.HasSuffix(s.Measure, " --try "+test.id) {
			t.Errorf("%s: measure with %q", test.id, s.Measure)
		}
	}
}

// What is expected of no more threads than the quota depends on how far above it they are, and on how the engine waits.
func TestQuotaGains(t *testing.T) {
	for name, test := range map[string]struct {
		edits  []edit
		impact Impact
		want   Range
	}{
		"a part of a CPU":              {[]edit{current("threads", "2"), quota(1.5)}, Low, Range{0.5, 1, 45}},
		"half a CPU":                   {[]edit{current("threads", "2"), quota(0.5)}, Critical, Range{0.75, 4.1, 45}},
		"more threads than CPUs":       {[]edit{current("threads", "33"), quota(4)}, Critical, Range{1, 20, 400}},
		"an engine that parks":         {[]edit{current("threads", "4", "engine", "bitnet-autotune"), quota(2)}, Low, Range{0.75, 1, 1.5}},
		"an engine that spins":         {[]edit{current("threads", "4", "engine", "llama.cpp"), quota(2)}, Critical, Range{0.75, 4.1, 45}},
		"parks, more than CPUs":        {[]edit{current("threads", "33", "engine", "bitnet-autotune"), quota(2)}, Low, Range{0.75, 1, 1.5}},
		"parks, rounded down from 1.5": {[]edit{current("threads", "3", "engine", "bitnet-autotune"), quota(1.5)}, Low, Range{0.5, 1 / 1.5, 1.5}},
	} {
		s, skipped := adviseOne(t, "threads/above-quota", contextWith(test.edits...))
		if s == nil {
			t.Errorf("%s: nothing (%s)", name, skipped)
			continue
		}
		if diff := cmp.Diff(test.want, *s.Expected.Speed); diff != "" || s.Impact != test.impact {
			t.Errorf("%s: impact %s, want %s; speed (-want +got):\n%s", name, s.Impact, test.impact, diff)
		}
	}
}

// R2.24: advice about attention or training is outside of the tuner's reach, and names no command that would measure it.
func TestAdviceOutsideOurReachHasNoCommand(t *testing.T) {
	s, _ := adviseOne(t, "attention/long-sequence", contextWith(current("sequence_length", "4096"), preset("bitnet-b1.58-large")))
	if s == nil || s.Measure != "" || s.Change != nil {
		t.Errorf("%+v, want advice without a command", s)
	}
}

// R2.20: the profile decides by time.
func TestFusionByProfile(t *testing.T) {
	if s, _ := adviseOne(t, "operators/fusion", contextWith(profiled(201, 101))); s == nil {
		t.Error("101 of 201 operations are small, and nothing is said")
	}
}

func TestWrongOnThisHost(t *testing.T) {
	wrong := learned(Learned{Source: "measured", Wrong: []string{"mul/i2s/avx2"}})
	if s, _ := adviseOne(t, "kernel/known-bad", contextWith(current("kernel", "mul/i2s/avx2"), wrong)); s == nil || s.Impact != Critical {
		t.Errorf("%+v for a kernel that was wrong here, want a critical suggestion", s)
	}
	if s, _ := adviseOne(t, "kernel/known-bad", contextWith(current("kernel", "mul/i2s/avx512vnni"), wrong)); s != nil {
		t.Errorf("%q for a kernel that was right", s.Title)
	}
}

func TestHotCores(t *testing.T) {
	if s, _ := adviseOne(t, "cpu/throttled", contextWith(signals(Signals{Window: time.Second, Hot: true}))); s == nil {
		t.Error("nothing is said of hot cores")
	}
}

// Settings that are no numbers are failures that are told, and not guesses.
func TestBadSettings(t *testing.T) {
	for _, c := range []Context{
		contextWith(current("threads", "many")), contextWith(current("threads", "0")), contextWith(current("sequence_length", "-1")),
		contextWith(current("quantization", "none", "parameters", "NaN")),
	} {
		a, _ := New(Options{})
		if r := a.Advise(c); len(r.Failed) == 0 || !strings.Contains(r.Failed[0].Reason, "want a ") {
			t.Errorf("%s: failed %v", c.Current, r.Failed)
		}
	}
}

// R2.23: the advice without a figure covers its list, and is not given unless asked for.
func TestFurther(t *testing.T) {
	c := contextWith(current("mode", "inference"), nodes(map[int]uint64{0: 1, 1: 1}, 0, 1), card(9, 0, 0, 0))
	c.GPUs.GPUs = append(c.GPUs.GPUs, c.GPUs.GPUs[0])
	quiet, _ := New(Options{})
	if r := quiet.Advise(c); len(r.Suggestions) > 0 {
		t.Errorf("%d suggestions without being asked for those without a figure", len(r.Suggestions))
	}
	a, _ := New(Options{Further: true})
	var got []string
	for _, s := range a.Advise(c).Suggestions {
		got = append(got, s.ID)
		if s.Impact != Low || s.Expected.Source != "no figure: general advice" {
			t.Errorf("%s: impact %s, %s", s.ID, s.Impact, s.Expected.Source)
		}
	}
	want := []string{"further/data-parallel", "further/dynamic-batching", "further/dynamic-quantization", "further/io", "further/layer-fusion",
		"further/numa-allocation", "further/prefetching", "further/pruning", "further/simd", "further/tensor-cores"}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A graph is made of the tensors of a file: R2.1.
func TestNewGraph(t *testing.T) {
	g := NewGraph([]model.Tensor{
		{Name: "token_embd.weight", Dims: []uint64{64, 100}, Type: "f16"},
		{Name: "blk.0.attn_norm.weight", Dims: []uint64{64}, Type: "f32"},
		{Name: "blk.0.attn_q.weight", Dims: []uint64{64, 64}, Type: "i2_s", Ternary: true},
	})
	want := &Graph{Operations: []Operation{
		{"token_embd.weight", "embedding", 6400, "f16", false},
		{"blk.0.attn_norm.weight", "vector", 64, "f32", false},
		{"blk.0.attn_q.weight", "matmul", 4096, "i2_s", true},
	}}
	if diff := cmp.Diff(want, g); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if g.weights() != 10560 || g.unquantised() != 6464 || !g.ternary() {
		t.Errorf("%d weights, %d in floating point, ternary %v", g.weights(), g.unquantised(), g.ternary())
	}
}

// R2.22: a rule that fails or panics is told, and stops no other.
func TestCustomRules(t *testing.T) {
	a, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	add := func(id string, r ruleFunc) {
		if err := a.Add(id, r); err != nil {
			t.Fatal(err)
		}
	}
	add("custom/panics", func(*Context) (*Suggestion, error) { panic("out of my depth") })
	add("custom/fails", func(*Context) (*Suggestion, error) { return nil, errors.New("no idea") })
	add("custom/lacks", func(*Context) (*Suggestion, error) {
		return nil, fmt.Errorf("my rule: %w", &Missing{Part: "the weather"})
	})
	add("custom/greedy", func(c *Context) (*Suggestion, error) { c.Host = probe.Host{}; c.Current = nil; return nil, nil })
	add("custom/wrong", func(*Context) (*Suggestion, error) { return &Suggestion{Title: "x", Category: "magic"}, nil })
	add("custom/odd", func(*Context) (*Suggestion, error) {
		return &Suggestion{Title: "x", Category: Compute, Difficulty: Easy, Expected: Improvement{Source: "me", Speed: &Range{2, 1, 3}}}, nil
	})
	add("custom/works", func(c *Context) (*Suggestion, error) {
		return &Suggestion{Title: "Turn it off and on", Category: Compute, Difficulty: Easy, Expected: Improvement{Speed: exactly(1.2), Source: "experience"}}, nil
	})
	r := a.Advise(contextWith(current("sequence_length", "4096")))
	if _, ok := r.Find("attention/long-sequence"); !ok {
		t.Error("a built-in rule went under")
	}
	if s, ok := r.Find("custom/works"); !ok || s.Impact != Medium || s.ID != "custom/works" {
		t.Errorf("%+v, want the custom suggestion with its id and medium impact", s)
	}
	want := []Skipped{
		{"custom/fails", "no idea"},
		{"custom/odd", "speed_ratio {2 1 3}: want low <= estimate <= high, from 0 on"},
		{"custom/panics", "the rule panicked: out of my depth"},
		{"custom/wrong", fmt.Sprintf("category \"magic\": one of %v", Categories)},
	}
	if diff := cmp.Diff(want, r.Failed); diff != "" {
		t.Errorf("failed (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(r.Skipped, func(s Skipped) bool { return s == Skipped{"custom/lacks", "unknown: the weather"} }) {
		t.Errorf("skipped: %v", r.Skipped)
	}
	for _, id := range []string{"mine", "custom/", "custom/works", "threads/off"} {
		if err := a.Add(id, ruleFunc(nil)); err == nil {
			t.Errorf("rule %q was added", id)
		}
	}
}

// ruleFunc is a custom rule.
type ruleFunc func(*Context) (*Suggestion, error)

var _ Rule = ruleFunc(nil)

func (f ruleFunc) Check(c *Context) (*Suggestion, error) { return f(c) }

func TestSettingsValidate(t *testing.T) {
	for want, s := range map[string]Settings{
		"":                                      {"threads": "8", "mode": "training", "kv_cache": "off", "layout": "i2s"},
		`setting "thread": one of mode, device`: {"thread": "8"},
		"setting mode=infer: one of inference, training": {"mode": "infer"},
	} {
		err := s.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", s, err, want)
		}
	}
}
