package advisor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

// Context is what the rules judge: facts, measurements and the configuration in use. Host and Current are always there;
// every other part may be missing, which silences the rules that need it and is told in the report.
type Context struct {
	Host    probe.Host
	Current Settings

	Model      *model.Model
	Graph      *Graph
	Profile    *Profile
	Latency    *Latency
	Memory     *Memory
	Throughput *Throughput
	GPUs       *gpu.Survey // nil: nobody looked; an empty one: there is none
	Signals    *Signals
	Learned    *Learned
	Needs      *Needs

	// Evidence is what this host measured of changes that were suggested before, by the suggestion's id.
	Evidence map[string]Evidence
	// Constants are the figures that rules go by. If nil, Defaults; Advisor.Advise sets its own.
	Constants *Constants
}

// Settings is a configuration as names and values in text; Keys lists the names that the built-in rules know.
type Settings map[string]string

// Key is a setting that built-in rules ask for.
type Key struct {
	Name   string
	Values []string // that it can have; nil: what Meaning says
	// Meaning is what the value is.
	Meaning string
	check   func(Settings, string) error // of values that are numbers; nil = any text
}

// Keys are the settings that the built-in rules know.
var Keys = []Key{
	{"mode", []string{"inference", "training"}, "what the model is run for", nil},
	{"device", []string{"cpu", "gpu", "hybrid"}, "where it runs", nil},
	{"engine", nil, "name of the engine, such as bitnet.cpp; bitnet-autotune for this program's own kernels", nil},
	{"threads", nil, "number of threads", isCount},
	{"threading", []string{"on", "off"}, "whether there is more than one thread", nil},
	{"batch_size", nil, "sequences or samples at once", isCount},
	{"prefill_batch", nil, "tokens of a prompt at once (n_ubatch)", isCount},
	{"layout", nil, "of the ternary weights, such as i2s", nil},
	{"kernel", nil, "name of the kernel", nil},
	{"quantization", nil, "none, f32, f16, bf16, int8, ternary or another", nil},
	{"parameters", nil, "number of weights, where no model is given", isParameters},
	{"precision", []string{"fp32", "tf32", "fp16", "bf16", "int8"}, "of the arithmetic", nil},
	{"sequence_length", nil, "tokens of the longest context", isCount},
	{"attention", []string{"full", "flash", "sparse", "sliding", "linear"}, "kind of attention", nil},
	{"kv_cache", []string{"on", "off"}, "whether keys and values are kept", nil},
	{"checkpointing", []string{"on", "off"}, "whether gradients are checkpointed", nil},
}

// Validate reports the first setting that no built-in rule knows, or knows with other values: it would be passed over in
// silence. Settings for custom rules need not pass.
func (s Settings) Validate() error {
	for _, name := range s.keys() {
		i := slices.IndexFunc(Keys, func(k Key) bool { return k.Name == name })
		if i < 0 {
			var names []string
			for _, k := range Keys {
				names = append(names, k.Name)
			}
			return fmt.Errorf("setting %q: one of %s", name, strings.Join(names, ", "))
		}
		if values := Keys[i].Values; values != nil && !slices.Contains(values, s[name]) {
			return fmt.Errorf("setting %s=%s: one of %s", name, s[name], strings.Join(values, ", "))
		}
		if check := Keys[i].check; check != nil {
			if err := check(s, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Is reports whether the setting is one of values, whatever their case.
func (s Settings) Is(key string, values ...string) bool {
	for _, v := range values {
		if strings.EqualFold(s[key], v) {
			return true
		}
	}
	return false
}

// text returns a setting, or why it is missing.
func (s Settings) text(key string) (string, error) {
	if s[key] == "" {
		return "", &Missing{Part: "current " + key}
	}
	return s[key], nil
}

// number returns a setting that is a count, or why there is none.
func (s Settings) number(key string) (int, error) {
	text, err := s.text(key)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("current %s %q: want a whole number above 0", key, text)
	}
	return n, nil
}

// parameters returns the number of weights that the settings state, or why there is none.
func (s Settings) parameters() (uint64, error) {
	text, err := s.text("parameters")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseFloat(text, 64) // 7e9 is how people write it
	if err != nil || !(n >= 1 && n <= 1e15) {
		return 0, fmt.Errorf("current parameters %q: want a number of weights such as 7e9", text)
	}
	return uint64(n), nil
}

func isCount(s Settings, key string) error { _, err := s.number(key); return err }

func isParameters(s Settings, _ string) error { _, err := s.parameters(); return err }

// Missing is the error of a rule for which the context lacks something: no failure, but a reason in the report.
type Missing struct {
	Part string // "latency", "current threads" …
}

func (m *Missing) Error() string { return "unknown: " + m.Part }

// Profile is where the time of one pass goes.
type Profile struct {
	Operations []ProfiledOperation `json:"operations"`
}

// ProfiledOperation is one operation of a pass.
type ProfiledOperation struct {
	Name             string  `json:"name"`
	Count            int     `json:"count"`
	MeanMicroseconds float64 `json:"mean_us"`
}

// Latency is how long a request or a token takes; 0 is unknown.
type Latency struct {
	MeanMs float64 `json:"mean_ms"`
	P50Ms  float64 `json:"p50_ms"`
	P99Ms  float64 `json:"p99_ms"`
}

// Memory is what the workload takes.
type Memory struct {
	CurrentBytes uint64 `json:"current_bytes"`
	PeakBytes    uint64 `json:"peak_bytes"`
}

// Throughput is how much gets done; 0 is unknown.
type Throughput struct {
	Decode  float64 `json:"decode_tokens_per_second"`
	Prefill float64 `json:"prefill_tokens_per_second"`
}

// Signals are what the running workload and its control group show.
type Signals struct {
	Window time.Duration // over which the counters were watched; 0: since the group began
	// Periods and Throttled count the scheduling periods of the control group and those in which its quota ran out.
	Periods, Throttled uint64
	// Hot says that a core of this machine was slowed for its temperature within Window.
	Hot bool
	// NodeBytes is where the memory of the watched process lies, by NUMA node, and Nodes are those whose CPUs it may use;
	// nil without a process.
	NodeBytes map[int]uint64
	Nodes     []int
}

// Learned is what a tune found for this host, or what is taken instead.
type Learned struct {
	Source  string // "pinned", "measured" … as tuner.Plan says
	Layout  string
	Decode  Setting
	Prefill Setting
	// Wrong are kernels that gave wrong results on this host.
	Wrong []string
}

// proven reports whether the settings rest on measurements or an operator's word, and not on facts alone.
func (l Learned) proven() bool { return l.Source == "measured" || l.Source == "pinned" }

// Setting is the part of Learned that belongs to one regime.
type Setting struct {
	Kernel  string
	Threads int
	Batch   int
}

// Needs is the memory that the model takes.
type Needs struct {
	ModelBytes, WorkingBytes uint64
	Source                   string // "estimate", "probe" or "measured"
}

// Evidence is a gain that this host measured, base cost over changed cost.
type Evidence struct {
	Ratio, Low, High float64
	Confidence       float64
	Regime           string
	Records          []string // runs that hold the samples
	Warnings         []string // what the change costs elsewhere
}

// constants are the figures in force.
func (c *Context) constants() *Constants {
	if c.Constants == nil {
		return &Defaults
	}
	return c.Constants
}

// usableGPUs are the devices that can be used now, or why nothing is known of them.
func (c *Context) usableGPUs() ([]gpu.GPU, error) {
	if c.GPUs == nil {
		return nil, &Missing{Part: "GPUs"}
	}
	if len(c.GPUs.GPUs) == 0 && c.GPUs.Note != "" {
		return nil, &Missing{Part: "GPUs: " + c.GPUs.Note}
	}
	var list []gpu.GPU
	for _, g := range c.GPUs.GPUs {
		if g.Trouble == "" {
			list = append(list, g)
		}
	}
	return list, nil
}

// usable is how many threads the host lets run at once.
func (c *Context) usable() (int, error) {
	if c.Host.CPU.UsableCores < 1 {
		return 0, &Missing{Part: "usable cores of the host"}
	}
	return c.Host.CPU.UsableCores, nil
}

// constrained reports whether memory is short: R2.42.
func (c *Context) constrained() bool {
	k, limit := c.constants(), c.Host.Memory.LimitBytes
	if limit == 0 {
		return false
	}
	return limit <= k.ConstrainedBytes || c.Memory != nil && float64(c.Memory.PeakBytes) >= k.ConstrainedShare*float64(limit)
}
