package device

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

var update = flag.Bool("update", false, "rewrite testdata/decisions.golden")

// R0.1, R0.36: every answer for every host and model, with its reason, for a reader to follow.
func TestDecisionsGolden(t *testing.T) {
	var b strings.Builder
	for _, m := range machines(t) {
		fmt.Fprintf(&b, "== %s: %s\n", m.name, m.what)
		for i, wanted := range models(t) {
			d := decide(t, m.host, m.gpus, Defaults.Require(wanted, Use{}), Options{})
			if i == 0 {
				writeFacts(&b, d.Facts)
			}
			writeDecision(&b, wanted.Name, d)
		}
		b.WriteByte('\n')
	}
	golden := filepath.Join("testdata", "decisions.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("decisions changed; where that is meant, run with -update (-want +got):\n%s", diff)
	}
}

func writeFacts(b *strings.Builder, f Facts) {
	fmt.Fprintf(b, "   %s, CPU load %.2f, memory %s available of %s, bandwidth %.0f GB/s (%s)\n", f.cores(), f.Load.CPU, size(f.AvailableBytes), size(f.TotalBytes), float64(f.SystemBandwidth.Value)/1e9, f.SystemBandwidth.Basis)
	for _, c := range f.GPUs {
		fmt.Fprintf(b, "   %s: %s available of %s; %s\n", c.ID, size(c.AvailableBytes), size(c.TotalBytes), c.Trouble)
	}
}

func writeDecision(b *strings.Builder, name string, d Decision) {
	if name == "" {
		name = "unknown model"
	}
	fmt.Fprintf(b, "-- %s: %s for the model, %s for a sequence\n", name, size(d.Requirements.ModelBytes.Value), size(d.Requirements.Working.Value))
	row := func(name, value, reason string, limit Limit, basis Basis) {
		fmt.Fprintf(b, "   %-9s %-9s %-9s %-16s %s\n", name, value, basis, limit, reason)
	}
	row("strategy", string(d.Strategy.Value), d.Strategy.Reason, d.Strategy.Limit, d.Strategy.Basis)
	if d.Device != nil {
		row("device", d.Device.Value, d.Device.Reason, d.Device.Limit, d.Device.Basis)
	}
	row("threads", fmt.Sprint(d.Threads.Value), d.Threads.Reason, d.Threads.Limit, d.Threads.Basis)
	row("batch", fmt.Sprint(d.Batch.Value), d.Batch.Reason, d.Batch.Limit, d.Batch.Basis)
	if f := d.GPUMemoryFraction; f != nil {
		row("fraction", fmt.Sprintf("%.3f", f.Value), f.Reason, f.Limit, f.Basis)
	}
	row("workspace", size(d.WorkspaceBytes.Value), d.WorkspaceBytes.Reason, d.WorkspaceBytes.Limit, d.WorkspaceBytes.Basis)
	if len(d.Defaulted) > 0 {
		fmt.Fprintf(b, "   defaulted %s\n", strings.Join(d.Defaulted, ", "))
	}
}

// R0.1, R0.14: whatever the host, the answer can be honoured and hangs together.
func TestAnswersAreWithinWhatIsThere(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	presets := append(model.Presets(), model.Model{})
	for range 2000 {
		h := plain(1+rnd.IntN(130), rnd.Uint64N(256*gib))
		h.CPU.UsablePhysical = 1 + rnd.IntN(h.CPU.UsablePhysical)
		h.Load.CPUUtilization = rnd.Float64()
		var sizes []uint64
		for range rnd.IntN(4) {
			sizes = append(sizes, rnd.Uint64N(100*gib))
		}
		s := cards(sizes...)
		for i := range s.GPUs {
			s.GPUs[i].FreeBytes = rnd.Uint64N(s.GPUs[i].TotalBytes + 1)
			if rnd.IntN(5) == 0 {
				s.GPUs[i].Trouble = "lost"
			}
		}
		r := Defaults.Require(presets[rnd.IntN(len(presets))], Use{Context: rnd.IntN(1 << 16), Batch: rnd.IntN(8)})
		d := decide(t, h, s, r, Options{})
		at := fmt.Sprintf("%d cores, load %.2f, %d bytes, GPUs %v: %+v", h.CPU.UsablePhysical, h.Load.CPUUtilization, h.Memory.AvailableBytes, s.GPUs, d)
		if d.Threads.Value < 1 || d.Threads.Value > h.CPU.UsablePhysical {
			t.Errorf("threads beyond the cores: %s", at)
		}
		if d.Batch.Value < 1 || d.Strategy.Reason == "" || d.Threads.Reason == "" || d.Batch.Reason == "" || d.WorkspaceBytes.Reason == "" {
			t.Errorf("no batch, or an answer without a reason: %s", at)
		}
		uses := d.Strategy.Value == GPUOnly || d.Strategy.Value == Hybrid
		if uses != (d.Device != nil) || uses != (d.GPUMemoryFraction != nil) {
			t.Errorf("device and fraction belong to strategies that use a GPU, and only to these: %s", at)
		}
		if f := d.GPUMemoryFraction; f != nil && !(f.Value >= 0.10 && f.Value <= 0.95) {
			t.Errorf("fraction out of bounds: %s", at)
		}
		if d.Device != nil {
			i := slices.IndexFunc(s.GPUs, func(g gpu.GPU) bool { return g.UUID == d.Device.Value })
			if i < 0 || s.GPUs[i].Trouble != "" {
				t.Errorf("a device that cannot be used: %s", at)
			}
			if d.WorkspaceBytes.Value > s.GPUs[i].FreeBytes {
				t.Errorf("workspace beyond the free memory: %s", at)
			}
		}
	}
}

// R0.30, R0.31: each analysis fails by itself, and the result names what was defaulted.
func TestUnknownPartsAreNamed(t *testing.T) {
	known, host := preset(t, "bitnet-b1.58-2b-4t"), plain(16, 64*gib)
	halves := known
	halves.Heads, halves.KVHeads, halves.HeadDim = 0, 0, 0
	noMemory := host
	noMemory.Memory = probe.Memory{}
	for name, c := range map[string]struct {
		host      probe.Host
		model     model.Model
		defaulted []string
		threads   int
		batch     int
	}{
		"all known":        {host, known, []string{}, 16, 16},
		"no host":          {probe.Host{}, known, []string{"cores", "memory"}, 1, 1},
		"no model":         {host, model.Model{}, []string{"model"}, 16, 16},
		"neither":          {probe.Host{}, model.Model{}, []string{"cores", "memory", "model"}, 1, 1},
		"no memory":        {noMemory, known, []string{"memory"}, 16, 1},
		"no heads":         {host, halves, []string{"heads"}, 16, 16},
		"layout of others": {host, preset(t, "bitnet-b1.58-3b"), []string{"layout"}, 16, 16}, // I2_S holds no rows of 8640
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			logger := zerolog.New(&log)
			d := decide(t, c.host, gpu.Survey{}, Defaults.Require(c.model, Use{}), Options{Log: &logger})
			if diff := cmp.Diff(c.defaulted, d.Defaulted); diff != "" {
				t.Errorf("defaulted (-want +got):\n%s", diff)
			}
			if d.Threads.Value != c.threads || d.Batch.Value != c.batch || d.Strategy.Value != CPUOnly {
				t.Errorf("%s with %d threads and batch %d, want cpu_only, %d, %d", d.Strategy.Value, d.Threads.Value, d.Batch.Value, c.threads, c.batch)
			}
			if got := strings.Count(log.String(), `"level":"warn"`); got != len(c.defaulted) {
				t.Errorf("%d warnings, want one for each of %v:\n%s", got, c.defaulted, log.String())
			}
		})
	}
}

// R0.30: what the probe could not read comes with the answer.
func TestWarningsOfTheProbeComeAlong(t *testing.T) {
	h, err := probe.Read(os.DirFS(t.TempDir()), probe.Inputs{Arch: "amd64"}) // neither /proc nor /sys
	if err != nil {
		t.Fatal(err)
	}
	d := decide(t, h, gpu.Survey{Note: "no cgo"}, Defaults.Require(preset(t, "falcon-e-1b"), Use{}), Options{})
	if d.Threads.Value != 1 || d.Batch.Value != 1 || !slices.Contains(d.Defaulted, "memory") {
		t.Errorf("%d threads, batch %d, defaulted %v: want the least answer that works", d.Threads.Value, d.Batch.Value, d.Defaulted)
	}
	if !slices.ContainsFunc(d.Facts.Unread, func(w string) bool { return strings.HasPrefix(w, "the load is unknown") }) {
		t.Errorf("%q does not say that the load is unknown", d.Facts.Unread)
	}
}

// R0.32, RX.3: every field can be overridden; the override wins over rules and measurements, and is shown as such.
func TestOverridesWin(t *testing.T) {
	r := Defaults.Require(preset(t, "llama3-8b-1.58"), Use{})
	s := cards(80*gib, 80*gib)
	opt := Options{Overrides: Overrides{Strategy: Hybrid, Device: "GPU-b", Threads: 3, GPUMemoryFraction: 0.5, Batch: 5, WorkspaceBytes: 77},
		Measured: Measurements{Curve: map[int]float64{7: 1}}}
	d := decide(t, plain(16, 64*gib), s, r, opt)
	if d.Strategy.Value != Hybrid || d.Device.Value != "GPU-b" || d.Threads.Value != 3 || d.GPUMemoryFraction.Value != 0.5 || d.Batch.Value != 5 || d.WorkspaceBytes.Value != 77 {
		t.Errorf("got %+v", d)
	}
	if !d.Strategy.Overridden || !d.Device.Overridden || !d.Threads.Overridden || !d.GPUMemoryFraction.Overridden || !d.Batch.Overridden || !d.WorkspaceBytes.Overridden {
		t.Errorf("an override is not shown as one: %+v", d)
	}
	if want := "overridden; else: GPU 1 (modelled)"; !strings.HasPrefix(d.Strategy.Reason, want) {
		t.Errorf("reason %q, want the rule's answer behind %q", d.Strategy.Reason, want)
	}
	plainly := decide(t, plain(16, 64*gib), s, r, Options{Measured: opt.Measured})
	if plainly.Strategy.Overridden || plainly.Threads.Overridden || plainly.Batch.Overridden {
		t.Errorf("without overrides some are shown: %+v", plainly)
	}
}

// R0.32: an override that cannot be honoured is a warning, not a silent change.
func TestOverridesThatCannotBeHonoured(t *testing.T) {
	r := Defaults.Require(preset(t, "falcon-e-1b"), Use{})
	for name, c := range map[string]struct {
		gpus gpu.Survey
		over Overrides
		want string
	}{
		"gpu_only without a GPU": {noGPU, Overrides{Strategy: GPUOnly}, "no GPU can be used here"},
		"a device that is not":   {cards(8 * gib), Overrides{Device: "GPU-z"}, "device GPU-z was asked for, and is not used"},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(t, plain(16, 64*gib), c.gpus, r, Options{Overrides: c.over})
			if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], c.want) || d.Device != nil {
				t.Errorf("device %v, warnings %q, want one about %q", d.Device, d.Warnings, c.want)
			}
		})
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	share := Defaults
	share.BatchMemory = 1.5
	for name, c := range map[string]struct {
		opt  Options
		want string
	}{
		"strategy": {Options{Overrides: Overrides{Strategy: "fast"}}, `device: override strategy "fast": one of [cpu_only gpu_only hybrid auto]`},
		"threads":  {Options{Overrides: Overrides{Threads: -1}}, "device: override threads -1: want at least 1, or 0 for none"},
		"batch":    {Options{Overrides: Overrides{Batch: -1}}, "device: override batch -1: want at least 1, or 0 for none"},
		"fraction": {Options{Overrides: Overrides{GPUMemoryFraction: 1.1}}, "device: override gpu_memory_fraction 1.1: want a share above 0 and up to 1, or 0 for none"},
		"constant": {Options{Constants: &share}, "device: constant batch_memory is 1.5: want a share above 0 and up to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decide(plain(4, gib), noGPU, Requirements{}, c.opt)
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// R0.34: off, the answer is the fixed one whatever host and model are, and an override still wins.
func TestOffIsTheFixedConfiguration(t *testing.T) {
	for _, h := range []probe.Host{{}, plain(2, 8*gib), plain(128, 1024*gib)} {
		d := decide(t, h, cards(80*gib), Defaults.Require(preset(t, "llama3-8b-1.58"), Use{}), Options{Off: true})
		if d.Strategy.Value != CPUOnly || d.Threads.Value != 4 || d.GPUMemoryFraction != nil || d.Device != nil || d.Batch.Value != 1 {
			t.Errorf("got %+v, want cpu_only, 4 threads, no GPU, batch 1", d)
		}
	}
	d := decide(t, plain(2, 8*gib), noGPU, Defaults.Require(model.Model{}, Use{}), Options{Off: true, Overrides: Overrides{Threads: 2}})
	if d.Threads.Value != 2 || !d.Threads.Overridden {
		t.Errorf("threads %+v, want the override", d.Threads)
	}
}

// R0.13, R0.23, R0.25, R0.28: what is logged, and at which level.
func TestLog(t *testing.T) {
	var log bytes.Buffer
	logger := zerolog.New(&log)
	h := plain(16, 64*gib)
	h.Load.CPUUtilization = 0.5
	r := Defaults.Require(preset(t, "llama3-8b-1.58"), Use{})
	decide(t, h, noGPU, r, Options{Log: &logger})
	decide(t, h, cards(24*gib), r, Options{Log: &logger})
	var got []string
	for line := range strings.Lines(log.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		delete(entry, "reason")
		canonical, _ := json.Marshal(entry)
		got = append(got, string(canonical))
	}
	want := []string{
		`{"level":"info","message":"device: strategy","model":"llama3-8b-1.58","strategy":"cpu_only"}`,
		`{"bandwidth_limited":16,"base":16,"final":8,"level":"debug","load_adjusted":8,"message":"device: threads"}`,
		fmt.Sprintf(`{"available_bytes":%d,"batch":16,"candidates":[1,2,4,8,16],"level":"debug","message":"device: batch","working_bytes":%d}`, h.Memory.AvailableBytes, r.Working.Value),
		`{"level":"info","message":"device: strategy","model":"llama3-8b-1.58","strategy":"gpu_only"}`,
	}
	if diff := cmp.Diff(want, got[:min(4, len(got))]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.Contains(log.String(), `"device: GPU memory fraction"`) || !strings.Contains(log.String(), `"total_bytes":25769803776`) {
		t.Errorf("the GPU's share is not logged with required and total memory:\n%s", log.String())
	}
}

// R0.33, R0.36: a decision stays cheap. Time is the benchmark's; what a test can hold on any machine is the garbage,
// of which it made 60 pieces when this was written.
func TestDecisionIsCheap(t *testing.T) {
	h, s, m := plain(128, 1024*gib), cards(80*gib, 80*gib, 80*gib, 80*gib), preset(t, "falcon3-10b-1.58")
	pieces := testing.AllocsPerRun(10, func() { decide(t, h, s, Defaults.Require(m, Use{}), Options{}) })
	if pieces > 300 {
		t.Errorf("%v allocations for a decision, want at most 300", pieces)
	}
}

// R0.33: cold, with the look at this host.
func BenchmarkDecideCold(b *testing.B) {
	m := preset(b, "falcon3-10b-1.58")
	for b.Loop() {
		h, err := probe.Local(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		decide(b, h, noGPU, Defaults.Require(m, Use{}), Options{})
	}
}

// R0.33: the rules alone.
func BenchmarkDecide(b *testing.B) {
	h, s, r := plain(128, 1024*gib), cards(80*gib), Defaults.Require(preset(b, "falcon3-10b-1.58"), Use{})
	for b.Loop() {
		decide(b, h, s, r, Options{})
	}
}
