package tuner

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// threadsOf are the threads of decode, small batch and prefill.
func threadsOf(c Config) [3]int {
	return [3]int{c.Decode.Threads, c.SmallBatch.Threads, c.Prefill.Threads}
}

// R0.21, R0.32, R0.34: what the moment and the caller say about threads, on a host of four cores.
func TestThreadsOfAPlanFromFacts(t *testing.T) {
	for name, c := range map[string]struct {
		load   float64
		bound  int
		cores  int // if 0, four
		device device.Options
		want   [3]int
	}{
		"idle":                  {want: [3]int{4, 4, 4}},
		"half busy":             {load: 0.5, want: [3]int{2, 2, 4}},
		"busy":                  {load: 1, want: [3]int{1, 1, 4}},
		"bounded":               {bound: 3, want: [3]int{3, 3, 3}},
		"overridden":            {load: 1, device: device.Options{Overrides: device.Overrides{Threads: 3}}, want: [3]int{3, 3, 3}},
		"overridden beyond":     {device: device.Options{Overrides: device.Overrides{Threads: 64}}, want: [3]int{4, 4, 4}},
		"off, on two cores":     {cores: 2, device: device.Options{Off: true}, want: [3]int{2, 2, 2}},
		"off":                   {load: 1, device: device.Options{Off: true}, want: [3]int{4, 4, 4}},
		"off, within the bound": {bound: 2, device: device.Options{Off: true}, want: [3]int{2, 2, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			host := *fourCores()
			host.Load.CPUUtilization = c.load
			if c.cores > 0 {
				host.CPU.UsableCores, host.CPU.UsablePhysical = c.cores, c.cores
			}
			p := problemOn(host)
			p.MaxThreads, p.device = c.bound, c.device
			before := p.Heuristic()
			plan := p.plan(nil)
			if diff := cmp.Diff(c.want, threadsOf(plan.Config)); diff != "" {
				t.Errorf("threads (-want +got):\n%s", diff)
			}
			if err := p.validate(plan.Config); err != nil {
				t.Error(err)
			}
			if got := plan.Device.Threads; got.Value != plan.Config.Decode.Threads {
				t.Errorf("the answer says %d threads (%s), the config has %d", got.Value, got.Reason, plan.Config.Decode.Threads)
			}
			host.Load.CPUUtilization = 0
			idle := problemOn(host)
			idle.MaxThreads = c.bound
			if diff := cmp.Diff(idle.Heuristic(), before); diff != "" {
				t.Errorf("the yardstick follows the moment (-idle +now):\n%s", diff)
			}
		})
	}
}

// Every answer from facts has a reason, a limit and a basis, and what is not from facts has none.
func TestAPlanFromFactsSaysWhy(t *testing.T) {
	p := problemOn(*fourCores())
	plan := p.plan(nil)
	d := plan.Device
	if d == nil || d.Threads.Reason == "" || d.Threads.Limit != device.LimitCores || d.Threads.Basis != device.Probe || d.Strategy.Value != device.CPUOnly {
		t.Fatalf("got %+v", d)
	}
	if d.WorkspaceBytes.Value != uint64(plan.Config.WorkspaceBytes) || d.WorkspaceTokens != plan.Config.Prefill.Batch {
		t.Errorf("workspace %+v for %d tokens, config has %d for %d", d.WorkspaceBytes, d.WorkspaceTokens, plan.Config.WorkspaceBytes, plan.Config.Prefill.Batch)
	}
	if want := uint64(p.LayoutBytes(plan.Config.Layout)); d.Requirements.Weights.Value != want {
		t.Errorf("%d bytes of weights, the layout has %d", d.Requirements.Weights.Value, want)
	}
	// R0.35: what was measured beats the rules, and they are not asked.
	plan = p.plan(&history.Snapshot{Learned: []history.Learned{learnedOn(t, p.Host)}})
	if plan.Source != Measured || plan.Device != nil {
		t.Errorf("source %s with device %+v, want measured without", plan.Source, plan.Device)
	}
}

// R0.5: a longer context takes more memory for each sequence, and leaves room for fewer.
func TestContextOfAPlanFromFacts(t *testing.T) {
	host := *fourCores()
	host.Memory.AvailableBytes = 8 << 30
	p := problemOn(host)
	short := p.plan(nil).Device
	p.context = 64 << 10
	long := p.plan(nil).Device
	if long.Requirements.Context != 64<<10 || long.Requirements.KVCache.Value <= short.Requirements.KVCache.Value || long.Batch.Value >= short.Batch.Value {
		t.Errorf("batch %d with %+v, want less than %d with %+v", long.Batch.Value, long.Requirements.KVCache, short.Batch.Value, short.Requirements.KVCache)
	}
}

// R0.10: a plan from facts does not claim a GPU that it could not use, and says that the model would fit.
func TestAPlanFromFactsDoesNotClaimTheGPU(t *testing.T) {
	p := problemOn(*fourCores())
	p.gpus = gpu.Survey{GPUs: []gpu.GPU{{UUID: "GPU-1", Memory: gpu.Memory{TotalBytes: 24 << 30, FreeBytes: 24 << 30}}}}
	plan := p.plan(nil)
	if plan.Config.Strategy != CPUOnly || plan.Device.Strategy.Limit != device.LimitBuild || !strings.Contains(plan.Device.Strategy.Reason, missingGPU) {
		t.Errorf("strategy %s because %+v", plan.Config.Strategy, plan.Device.Strategy)
	}
}

// anotherModel is what another model taught about a host: a curve for decoding and prefill, and the read bandwidth.
func anotherModel(t *testing.T, p Problem, curve Curve) history.Learned {
	t.Helper()
	l := learnedOn(t, p.Host)
	l.Model, l.ModelName = strings.Repeat("7", 32), "another"
	var err error
	if l.Curve, err = json.Marshal(curve); err != nil {
		t.Fatal(err)
	}
	proof := Certificate{Roofline: Roofline{ReadBandwidth: 33e9, ReadThreads: 4, Residency: "memory"}}
	if l.Certificate, err = json.Marshal(proof); err != nil {
		t.Fatal(err)
	}
	return l
}

// R0.22, R0.35: the thread curve and the read bandwidth that another model taught replace rules and estimates.
func TestWhatAnotherModelTaughtCounts(t *testing.T) {
	host := *fourCores()
	host.Load.CPUUtilization = 1
	p := problemOn(host)
	curve := Curve{target.Decode: {1: 2, 2: 1, 4: 1.5}, target.Prefill: {1: 3, 3: 1, 4: 1.1}}
	plan := p.plan(&history.Snapshot{Learned: []history.Learned{anotherModel(t, p, curve)}})
	if diff := cmp.Diff([3]int{2, 2, 3}, threadsOf(plan.Config)); plan.Source != Heuristic || diff != "" {
		t.Errorf("source %s, threads (-want +got):\n%s", plan.Source, diff)
	}
	if d := plan.Device; d.Threads.Basis != device.Measured || !strings.Contains(d.Threads.Reason, "another") || d.Facts.SystemBandwidth.Value != 33e9 || d.Facts.SystemBandwidth.Basis != device.Measured {
		t.Errorf("threads %+v, bandwidth %+v", d.Threads, d.Facts.SystemBandwidth)
	}
	elsewhere := anotherModel(t, p, curve)
	elsewhere.Envelope["usable_cores"] = "2"
	otherTable := anotherModel(t, p, curve)
	otherTable.Signature = "another"
	flat := anotherModel(t, p, Curve{target.Decode: {3: 1}})
	for name, l := range map[string]history.Learned{"other limits": elsewhere, "other kernels": otherTable, "a curve of one point": flat} {
		if plan := p.plan(&history.Snapshot{Learned: []history.Learned{l}}); plan.Device.Threads.Basis != device.Probe {
			t.Errorf("%s: threads %+v, want the rule's", name, plan.Device.Threads)
		}
	}
}

// A number of threads with which a kernel gave wrong results is not taken from facts either.
func TestFactsDoNotChooseWhatWasWrong(t *testing.T) {
	host := *fourCores()
	host.Load.CPUUtilization = 0.5
	p := problemOn(host)
	bad := p.plan(nil).Config.Arm(target.Decode)
	if got := p.decide([]target.Arm{bad}, nil).Config.Arm(target.Decode); got == bad {
		t.Errorf("got %v, which gave wrong results", got)
	}
}

func TestOpenRefusesDeviceOptionsThatMakeNoSense(t *testing.T) {
	_, err := Open(Options{Device: device.Options{Overrides: device.Overrides{Threads: -2}}})
	if want := "device: override threads -2: want at least 1, or 0 for none"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// R0.31: GPUs are looked for where somebody can, and the answer says where nobody did.
func TestGPUsAreLookedForOnlyWhereAsked(t *testing.T) {
	look := func(context.Context) gpu.Survey { return gpu.Survey{Note: "none today"} }
	for want, look := range map[string]func(context.Context) gpu.Survey{"nobody looked for one": nil, "none today": look} {
		tuner, err := Open(Options{Host: fourCores(), GPUs: look})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := tuner.Plan(t.Context(), anyModel)
		if err != nil || !strings.Contains(plan.Device.Strategy.Reason, want) {
			t.Errorf("%v, reason %q, want one with %q", err, plan.Device.Strategy.Reason, want)
		}
	}
}

// R0.13: the strategy is logged where facts are the answer, and only there.
func TestFactsAreNewsOnlyWhereTheyAnswer(t *testing.T) {
	store := t.TempDir()
	logged := func() string {
		var out strings.Builder
		log := zerolog.New(&out)
		tuner, err := Open(Options{Store: store, Host: fourCores(), Device: device.Options{Log: &log}})
		if err != nil {
			t.Fatal(err)
		}
		defer tuner.Close()
		if _, err := tuner.Plan(t.Context(), anyModel); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if text := logged(); !strings.Contains(text, "device: strategy") {
		t.Errorf("logged %q for a plan from facts: want its strategy", text)
	}
	tuned(t, quiet(fastest), store, Budget{Objective: ObjectiveDecode})
	if text := logged(); text != "" {
		t.Errorf("logged %q for a measured plan: want nothing", text)
	}
}
