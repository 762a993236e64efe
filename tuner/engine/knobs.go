package engine

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Limits are what is known of the host and the task before anything is measured.
type Limits struct {
	Cores     int      // usable threads
	Masks     []string // CPU masks worth trying, hexadecimal; nil = none
	NUMANodes int
	Layers    int // of the model; 0 unknown
	// ModelBytes and MemoryBytes say whether the model fits without being mapped; 0 unknown.
	ModelBytes, MemoryBytes uint64
	Prompt                  int // tokens: a larger batch than the prompt changes nothing
	// Allow names knobs for which somebody has to ask: cache-type-k and cache-type-v, which change what the model answers, and
	// prio, which takes the CPU from everything else.
	Allow []string

	gpus   int  // that the program can use, by its own word
	openMP bool // its threads wait in OpenMP
}

// known is a flag of the llama.cpp family that is worth trying.
type known struct {
	name   string
	knob   Knob   // what is the same everywhere
	asked  string // why it is tried only if it is allowed by name
	values func(Flag, Limits) []string
	why    string // why there are no values
}

// Why somebody has to ask for a knob.
const (
	changesAnswers = "it changes what the model answers"
	// From 1 on llama.cpp runs its threads under SCHED_FIFO: on all cores, nothing else gets a turn.
	realTime = "it takes the CPU from everything else, under real-time scheduling"
)

// knownFlags is the one list of flags, in the order in which they are tried.
var knownFlags = []known{
	{name: "threads", knob: Knob{Stage: Threads, Ordered: true, Fact: "n_threads"}, values: threadCounts, why: "only one thread may be used"},
	{name: "ubatch-size", knob: Knob{Stage: Batch, Ordered: true, Fact: "n_ubatch", Regimes: []string{Prefill}, Beside: "batch-size"}, values: microBatches, why: "the prompt is one batch whatever it is"},
	{name: "batch-size", knob: Knob{Stage: Batch, Ordered: true, Fact: "n_batch", Regimes: []string{Prefill}}, values: logicalBatches, why: "the engine's own holds the prompt, and a smaller one only cuts ubatch-size"},
	{name: "flash-attn", knob: Knob{Stage: Others, Fact: "flash_attn", Rounding: true}, values: flashAttention, why: "its values are not known"},
	{name: "run-time-repack", knob: Knob{Stage: Others, Fact: "repack", Rounding: true}, values: choices("0", "1"), why: "its values are not known"},
	{name: "n-gpu-layers", knob: Knob{Stage: Others, Ordered: true, Fact: "n_gpu_layers", Rounding: true}, values: gpuLayers, why: "the program lists no GPU"},
	{name: "mmap", knob: Knob{Stage: Others, Fact: "use_mmap"}, values: unmapped("0", "1"), why: "the model does not fit into memory without it"},
	{name: "load-mode", knob: Knob{Stage: Others, Fact: "load_mode"}, values: unmapped("none"), why: "the model does not fit into memory without mmap"},
	{name: "transparent-huge-pages", knob: Knob{Stage: Others}, values: choices("0", "1"), why: "its values are not known"},
	{name: "poll", knob: Knob{Stage: Others, Ordered: true, Fact: "poll", Regimes: []string{Decode}}, values: polls, why: "the program's threads wait in OpenMP, which does not heed it"},
	{name: "cpu-mask", knob: Knob{Stage: Others, Fact: "cpu_mask"}, values: func(_ Flag, l Limits) []string { return l.Masks }, why: "no set of cores is worth trying here"},
	{name: "prio", knob: Knob{Stage: Others, Ordered: true}, asked: realTime, values: choices("0", "1"), why: "its values are not known"},
	{name: "numa", knob: Knob{Stage: Others}, values: numaModes, why: "one NUMA node"},
	{name: "cache-type-k", knob: Knob{Stage: Others, Fact: "type_k"}, asked: changesAnswers, values: fixed("f16", "q8_0")},
	{name: "cache-type-v", knob: Knob{Stage: Others, Fact: "type_v"}, asked: changesAnswers, values: fixed("f16", "q8_0")},
}

// Knobs are the flags of a help text that may be tried within limits, and why others are left out. An Allow that names no
// flag of the help is an error: nobody should believe that something was tried which was not.
func Knobs(h Help, l Limits) (knobs []Knob, left []string, err error) {
	for _, name := range l.Allow {
		if !slices.Contains(askedFlags(), name) || !h.Has(name) {
			return nil, nil, fmt.Errorf("engine: allow %q: one of %v that the engine's help lists", name, askedFlags())
		}
	}
	for _, k := range knownFlags {
		if !h.Has(k.name) {
			continue
		}
		if k.asked != "" && !slices.Contains(l.Allow, k.name) {
			left = append(left, k.name+": "+k.asked+" and was not asked for")
			continue
		}
		knob := k.knob
		knob.Name, knob.Values, knob.Own = k.name, k.values(h[k.name], l), h[k.name].Default
		if !slices.ContainsFunc(knob.Values, func(v string) bool { return v != knob.Own }) {
			left = append(left, k.name+": "+k.why)
			continue
		}
		knobs = append(knobs, knob)
	}
	return knobs, left, nil
}

func askedFlags() (names []string) {
	for _, k := range knownFlags {
		if k.asked != "" {
			names = append(names, k.name)
		}
	}
	return names
}

// plainValue is a value that a shell, an editor and a reader take for what it is.
var plainValue = regexp.MustCompile(`^-?[0-9a-z_]{1,20}$`)

// Foreign reports what in a plan for an engine of the llama.cpp family nobody should be shown as a proposal: a knob that is not
// known or that is tried only if asked for, a value that is no plain word. What is possible on a host is for Check to say.
func (p Plan) Foreign() error {
	for _, regime := range slices.Sorted(maps.Keys(p)) {
		if regime != Decode && regime != Prefill {
			return fmt.Errorf("%w: %q: want %s or %s", ErrUnfit, regime, Decode, Prefill)
		}
		for _, name := range slices.Sorted(maps.Keys(p[regime])) {
			i := slices.IndexFunc(knownFlags, func(k known) bool { return k.name == name && k.asked == "" })
			if _, compiled := compiledKnobs[name]; i < 0 && !compiled {
				return fmt.Errorf("%w: %s: %q: no knob that is known, or one that somebody has to ask for", ErrUnfit, regime, name)
			}
			if value := p[regime][name]; !plainValue.MatchString(value) {
				return fmt.Errorf("%w: %s: %s %q: want %s", ErrUnfit, regime, name, value, plainValue)
			}
		}
	}
	return nil
}

func threadCounts(_ Flag, l Limits) (values []string) {
	for n := 1; n <= l.Cores; n++ {
		values = append(values, strconv.Itoa(n))
	}
	return values
}

// microBatches are powers of two up to what holds the prompt, 2048 at the most: above it llama.cpp's compute buffers grow
// and nothing else.
func microBatches(_ Flag, l Limits) []string {
	if l.Prompt <= 64 {
		return nil // one batch, whatever it is
	}
	return powers(64, 2048, l.Prompt)
}

// logicalBatches are those above 2048 that a long prompt fills; each piece of a batch is ubatch-size tokens.
func logicalBatches(_ Flag, l Limits) []string {
	if l.Prompt <= 2048 {
		return nil
	}
	return powers(2048, 8192, l.Prompt)
}

// powers are the powers of two from low to high, up to the first that holds so many tokens.
func powers(low, high, tokens int) (values []string) {
	for n := low; n <= high; n *= 2 {
		values = append(values, strconv.Itoa(n))
		if n >= tokens {
			break
		}
	}
	return values
}

// choices are those of wanted that the help lists.
func choices(wanted ...string) func(Flag, Limits) []string {
	return func(f Flag, _ Limits) (values []string) {
		for _, v := range wanted {
			if slices.Contains(f.Choices(), v) {
				values = append(values, v)
			}
		}
		return values
	}
}

// flashAttention is off, and on where that is not what the engine's own choice comes to.
func flashAttention(f Flag, l Limits) []string {
	if slices.Contains(f.Choices(), "auto") {
		return choices("off")(f, l)
	}
	return choices("0", "1", "off", "on")(f, l)
}

// unmapped are choices of which one reads the whole model into memory, if that has room for it and a tenth more.
func unmapped(wanted ...string) func(Flag, Limits) []string {
	return func(f Flag, l Limits) []string {
		if l.MemoryBytes > 0 && l.ModelBytes+l.ModelBytes/10 > l.MemoryBytes {
			return nil
		}
		return choices(wanted...)(f, l)
	}
}

func polls(_ Flag, l Limits) []string {
	if l.openMP {
		return nil
	}
	return []string{"0", "50", "100"}
}

func fixed(values ...string) func(Flag, Limits) []string {
	return func(Flag, Limits) []string { return values }
}

// gpuLayers are none, quarters and all.
func gpuLayers(f Flag, l Limits) (values []string) {
	if l.gpus == 0 {
		return nil
	}
	all := "99" // more than there are: the output head too
	if f.Default == "-1" {
		all = f.Default
	}
	if l.Layers == 0 {
		return []string{"0", all}
	}
	for quarter := range 4 {
		values = append(values, strconv.Itoa(l.Layers*quarter/4))
	}
	return append(values, all)
}

func numaModes(f Flag, l Limits) (values []string) {
	if l.NUMANodes < 2 {
		return nil
	}
	return choices("distribute", "isolate")(f, l) // numactl only follows what numactl set
}

// factValue is the value of a knob in the words of its flag, from the field in which the engine reports it.
func (k Knob) factValue(facts map[string]string) (string, bool) {
	v, ok := facts[k.Fact]
	if !ok || k.Fact == "" {
		return "", false
	}
	if slices.Contains(k.Values, v) {
		return v, true
	}
	for _, words := range [][]string{{"false", "0", "off"}, {"true", "1", "on"}} {
		if slices.Contains(words, strings.ToLower(v)) {
			for _, w := range words {
				if slices.Contains(k.Values, w) {
					return w, true
				}
			}
		}
	}
	return v, false
}
