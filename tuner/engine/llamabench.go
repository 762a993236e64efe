package engine

import (
	"context"
	"debug/elf"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// LlamaBench is the llama-bench of llama.cpp, ik_llama.cpp or bitnet.cpp with a model.
type LlamaBench struct {
	Path  string
	Model string
	// Prompt and Generate are the tokens of a request; one of them may be 0. Repetitions is how often one process
	// measures each; if 0, 5, which is llama-bench's own.
	Prompt, Generate, Repetitions int
	Env                           []string // of the process; nil = this process's own
	Limits                        Limits

	help Help
}

// helpLimit is how long a binary may take to print its help: it may initialise a GPU first.
const helpLimit = 30 * time.Second

// outputNote is what a benchmark without output leaves open.
const outputNote = "llama-bench prints no text, so that results were not compared: no setting was tried that changes the quality of an answer unless it was asked for by name; those marked rounding sum in another order"

// Describe implements Engine: it reads the binary's own help.
func (e *LlamaBench) Describe(ctx context.Context) (Description, error) {
	if e.Prompt < 0 || e.Generate < 0 || e.Prompt+e.Generate == 0 {
		return Description{}, fmt.Errorf("engine: prompt %d and generate %d tokens: want at least one of them above 0", e.Prompt, e.Generate)
	}
	r := Run(ctx, Command{Path: e.Path, Args: []string{"--help"}, Env: e.Env}, helpLimit)
	e.help = ParseHelp(string(r.Stdout))
	for _, must := range []string{"model", "n-prompt", "n-gen", "threads", "repetitions", "output"} {
		if !e.help.Has(must) {
			return Description{}, fmt.Errorf("engine: %s --help: no option --%s: want the llama-bench of llama.cpp, ik_llama.cpp or bitnet.cpp%s", e.Path, must, because(r))
		}
	}
	if strings.Contains(e.Model, ",") {
		return Description{}, fmt.Errorf("engine: model %s: llama-bench takes a comma for the end of a name: want a path without one, such as that of a link", e.Model)
	}
	limits := e.Limits
	limits.Prompt, limits.gpus, limits.openMP = e.Prompt, e.gpus(ctx), openMP(e.Path)
	knobs, left, err := Knobs(e.help, limits)
	if err != nil {
		return Description{}, err
	}
	d := Description{Left: left, Note: outputNote, Bare: func(facts map[string]string) []string { return bareFlags(facts, e.help) }}
	if e.Generate > 0 {
		d.Regimes = append(d.Regimes, Regime{Name: Decode, Units: float64(e.Generate), Unit: perToken})
	}
	if e.Prompt > 0 {
		d.Regimes = append(d.Regimes, Regime{Name: Prefill, Units: float64(e.Prompt), Unit: perToken})
	}
	for _, k := range knobs {
		if len(k.Regimes) == 0 || slices.ContainsFunc(d.Regimes, func(r Regime) bool { return slices.Contains(k.Regimes, r.Name) }) {
			d.Knobs = append(d.Knobs, k)
		}
	}
	return d, nil
}

// gpuLine is a device of --list-devices, which leaves out the CPU: "  CUDA0: NVIDIA H200 (143156 MiB, 142604 MiB free)".
var gpuLine = regexp.MustCompile(`(?m)^ +\w+: .*MiB`)

// gpus is how many GPUs the program can use. Programs that have no --list-devices are taken to have none.
func (e *LlamaBench) gpus(ctx context.Context) int {
	if !e.help.Has("list-devices") {
		return 0
	}
	return len(gpuLine.FindAll(Run(ctx, Command{Path: e.Path, Args: []string{"--list-devices"}, Env: e.Env}, helpLimit).Stdout, -1))
}

// openMPLibrary is the run time of OpenMP, of GCC, LLVM or Intel.
var openMPLibrary = regexp.MustCompile(`^lib(g|i)?omp5?\.so`)

// openMP reports whether a program, or a library of ggml beside it, was built with OpenMP, as llama.cpp is where there is one.
func openMP(path string) bool {
	if file, err := exec.LookPath(path); err == nil {
		path = file
	}
	if file, err := filepath.EvalSymlinks(path); err == nil {
		path = file
	}
	libraries, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "libggml*.so*")) // the pattern is sound
	return slices.ContainsFunc(append(libraries, path), func(name string) bool {
		file, err := elf.Open(name)
		if err != nil {
			return false // a script
		}
		defer file.Close()
		needed, err := file.ImportedLibraries()
		return err == nil && slices.ContainsFunc(needed, openMPLibrary.MatchString)
	})
}

func because(r Result) string {
	if r.Status == OK {
		return ""
	}
	return " (" + r.Note + ")"
}

// Command is the process that measures a setting in some regimes.
func (e *LlamaBench) Command(s Setting, regimes []string) Command {
	tokens := func(regime string, n int) string {
		if !slices.Contains(regimes, regime) {
			n = 0
		}
		return strconv.Itoa(n)
	}
	output := "json"
	if slices.Contains(e.help["output"].Choices(), "jsonl") {
		output = "jsonl" // what was measured before a crash is kept
	}
	args := []string{"--model", e.Model, "--n-prompt", tokens(Prefill, e.Prompt), "--n-gen", tokens(Decode, e.Generate),
		"--repetitions", strconv.Itoa(e.repetitions()), "--output", output}
	if d := e.help["pg"].Default; d != "" && d != " " {
		args = append(args, "-pg", "0,0") // ik_llama.cpp measures both in turn besides, unless told not to
	}
	for _, name := range sortedKnobs(s) {
		args = append(args, "--"+name, s[name])
	}
	if s["cpu-mask"] != "" {
		args = append(args, strictly...)
	}
	return Command{Path: e.Path, Args: args, Env: e.Env}
}

// strictly goes with a CPU mask: a thread for each CPU of it. Without a mask llama.cpp ignores it, and without it the mask
// leaves to the kernel what a mask is there to decide.
var strictly = []string{"--cpu-strict", "1"}

// sortedKnobs are the names of a setting in the order of the known flags.
func sortedKnobs(s Setting) (names []string) {
	for _, k := range knownFlags {
		if _, ok := s[k.name]; ok {
			names = append(names, k.name)
		}
	}
	return names
}

func (e *LlamaBench) repetitions() int {
	if e.Repetitions > 0 {
		return e.Repetitions
	}
	return 5
}

// Run implements Engine.
func (e *LlamaBench) Run(ctx context.Context, s Setting, regimes []string, limit time.Duration) Outcome {
	c := e.Command(s, regimes)
	r := Run(ctx, c, limit)
	o := Outcome{Status: r.Status, Note: r.Note, Elapsed: r.Elapsed}
	if r.Status == ExitStatus && e.help.Has("verbose") {
		o = e.reason(ctx, c, limit, o)
	}
	if r.Status != OK {
		return o
	}
	rows, err := ParseOutput(r.Stdout)
	if err == nil {
		o.Samples, o.Facts, err = e.figures(rows, s, regimes)
	}
	if err != nil {
		o.Status, o.Note, o.Samples = Garbage, err.Error(), nil
	}
	return o
}

// reason starts a command once more that ended with an error: llama-bench keeps to itself why, an end of memory too, unless it
// is told to be verbose.
func (e *LlamaBench) reason(ctx context.Context, c Command, limit time.Duration, o Outcome) Outcome {
	c.Args = append(c.Args, "--verbose")
	r := Run(ctx, c, limit)
	o.Elapsed += r.Elapsed
	if r.Status == ExitStatus || r.Status == OutOfMemory || r.Status == Stopped {
		o.Status, o.Note = r.Status, r.Note
	}
	return o
}

// figures finds the regimes among the rows, and checks that the engine took the settings.
func (e *LlamaBench) figures(rows []Row, s Setting, regimes []string) (map[string][]float64, map[string]string, error) {
	samples := map[string][]float64{}
	facts := map[string]string{}
	for _, row := range rows {
		regime := Decode
		switch {
		case row.Depth > 0 || row.Prompt > 0 && row.Generate > 0:
			continue
		case row.Prompt > 0:
			regime = Prefill
		}
		if file := row.Facts["model_filename"]; file != "" && filepath.Base(file) != filepath.Base(e.Model) { // a container has other directories
			return nil, nil, fmt.Errorf("%w: it says model_filename %s and was told %s", ErrGarbage, file, e.Model)
		}
		if want := e.tokens(regime); row.Tokens() != want {
			return nil, nil, fmt.Errorf("%w: %s of %d tokens: asked for %d", ErrGarbage, regime, row.Tokens(), want)
		}
		if len(row.Samples) != e.repetitions() {
			return nil, nil, fmt.Errorf("%w: %d repetitions of %s: asked for %d", ErrGarbage, len(row.Samples), regime, e.repetitions())
		}
		for _, ns := range row.Samples {
			samples[regime] = append(samples[regime], ns/float64(row.Tokens()))
		}
		for name, value := range row.Facts {
			facts[name] = value
		}
	}
	for _, regime := range regimes {
		if len(samples[regime]) == 0 {
			return nil, nil, fmt.Errorf("%w: no test of %s in it", ErrGarbage, regime)
		}
	}
	if threads, ok := s["threads"]; ok && facts["n_threads"] != threads {
		return nil, nil, fmt.Errorf("%w: it says n_threads %s and was told %s", ErrGarbage, facts["n_threads"], threads)
	}
	return samples, facts, nil
}

func (e *LlamaBench) tokens(regime string) int {
	if regime == Prefill {
		return e.Prompt
	}
	return e.Generate
}

// Build names the program that printed some facts: what was learned of another is not of this one.
func Build(facts map[string]string) string {
	if facts["build_commit"] == "" {
		return "unknown"
	}
	return strings.TrimSuffix(facts["build_commit"]+"/"+facts["build_number"], "/")
}
