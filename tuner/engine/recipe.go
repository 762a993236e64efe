package engine

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Learned is what a search came to, as the history keeps it: enough to write the flags of a server without the engine.
type Learned struct {
	Engine  string            `json:"engine"` // "llama-bench", "bitnet.cpp", "exec"
	Build   string            `json:"build"`
	Command string            `json:"command"` // path of the program that was measured
	Program string            `json:"program"` // what stands for it and the libraries of its build (engine.Program); "" unknown
	Model   string            `json:"model"`   // path of its model
	Plan    Plan              `json:"plan"`    // the engine's own where a setting is empty
	Own     map[string]string `json:"own"`     // the engine's own value of knobs, where it tells
	Bare    []string          `json:"bare"`    // knobs that the server takes without a value
	// Arguments and Variables complete the Command of engine exec.
	Arguments []string `json:"arguments,omitempty"`
	Variables []string `json:"variables,omitempty"` // NAME=value
}

// Fill completes what was learned of a command of one's own with the command for its plan.
func (l *Learned) Fill(e *Exec) {
	command := e.Command(l.Plan[FigureRegime])
	l.Command, l.Arguments, l.Variables = command.Path, command.Args, e.Variables(l.Plan[FigureRegime])
}

// flashWithValue is the build of llama.cpp from which on --flash-attn of the server takes on, off or auto (pull request
// 15434); before, it is a switch.
const flashWithValue = 6325

// bareFlags are the knobs that the server of a build takes without a value.
func bareFlags(facts map[string]string, help Help) []string {
	bare := []string{"run-time-repack", "transparent-huge-pages"}
	number, err := strconv.Atoi(facts["build_number"])
	if err != nil || number <= 1 { // built of a clone without history; the option came within the month after
		if help.Has("list-devices") {
			number = flashWithValue
		}
	}
	if !slices.Contains(help["flash-attn"].Choices(), "on") && number < flashWithValue {
		bare = append(bare, "flash-attn")
	}
	return bare
}

// Server are the flags with which llama-server, or another program of the family that serves, runs a plan. Only what
// differs from the engine's own is given, and with it what else would follow it: a server's threads of a prompt are those
// of decoding unless it is told.
func (l Learned) Server() []string {
	decode, prefill := l.Plan[Decode], l.Plan[Prefill]
	var flags []string
	threads, batch := decode["threads"], prefill["threads"]
	if _, measured := l.Plan[Prefill]; threads != "" && batch == "" && measured {
		batch = l.Own["threads"]
	}
	if threads != "" {
		flags = append(flags, "--threads", threads)
	}
	if batch != "" {
		flags = append(flags, "--threads-batch", batch)
	}
	for _, k := range knownFlags {
		value := orDefault(prefill[k.name], decode[k.name])
		if value == "" && !l.Plan.isDefault() {
			value = l.differing(k.name)
		}
		if value == "" || k.name == "threads" {
			continue
		}
		flags = append(flags, l.flag(k.name, value)...)
	}
	return flags
}

// differing is the engine's own value of a knob where the server's own is another in some releases: llama-bench measured
// without flash attention, without mapping the model and with all layers on a GPU.
func (l Learned) differing(name string) string {
	own := l.Own[name]
	if number, err := strconv.Atoi(own); err != nil || number < 0 || slices.Contains(l.Bare, name) {
		return ""
	}
	if name == "flash-attn" || name == "mmap" || name == "n-gpu-layers" {
		return own
	}
	return ""
}

// flag is one knob as the server takes it.
func (l Learned) flag(name, value string) []string {
	on := value == "1" || value == "on"
	switch {
	case name == "mmap" && !on:
		return []string{"--no-mmap"}
	case name == "mmap":
		return nil
	case slices.Contains(l.Bare, name) && on:
		return []string{"--" + name}
	case slices.Contains(l.Bare, name):
		return nil
	case name == "flash-attn" && on:
		return []string{"--flash-attn", "on"}
	case name == "flash-attn":
		return []string{"--flash-attn", "off"}
	case name == "cpu-mask":
		return append([]string{"--cpu-mask", value}, strictly...)
	}
	return []string{"--" + name, value}
}

// environment are the variables that llama-server reads instead of flags.
var environment = map[string]string{
	"--threads": "LLAMA_ARG_THREADS", "--threads-batch": "LLAMA_ARG_THREADS_BATCH", "--batch-size": "LLAMA_ARG_BATCH",
	"--ubatch-size": "LLAMA_ARG_UBATCH", "--flash-attn": "LLAMA_ARG_FLASH_ATTN", "--no-mmap": "LLAMA_ARG_NO_MMAP", "--load-mode": "LLAMA_ARG_LOAD_MODE",
	"--n-gpu-layers": "LLAMA_ARG_N_GPU_LAYERS", "--numa": "LLAMA_ARG_NUMA", "--cache-type-k": "LLAMA_ARG_CACHE_TYPE_K",
	"--cache-type-v": "LLAMA_ARG_CACHE_TYPE_V",
}

// pairs are the server's flags with their values; a switch has the value 1.
func (l Learned) pairs() (list [][2]string) {
	flags := l.Server()
	for i := 0; i < len(flags); i++ {
		if i+1 < len(flags) && !strings.HasPrefix(flags[i+1], "--") {
			list = append(list, [2]string{flags[i], flags[i+1]})
			i++
			continue
		}
		list = append(list, [2]string{flags[i], "1"})
	}
	return list
}

// Env are lines for a shell or a systemd EnvironmentFile. What has no variable is a comment, so that nobody misses it.
func (l Learned) Env() string {
	var b strings.Builder
	for _, v := range l.Variables {
		b.WriteString(v + "\n")
	}
	for _, d := range l.Plan.Defines() {
		fmt.Fprintf(&b, "# built with gemm-config.h: %s\n", d)
	}
	for _, p := range l.pairs() {
		if name := environment[p[0]]; name != "" {
			fmt.Fprintf(&b, "%s=%s\n", name, p[1])
		} else {
			fmt.Fprintf(&b, "# no variable for: %s %s\n", p[0], p[1])
		}
	}
	return b.String()
}

// ServerCommand is the command line that serves the model: llama-server from where the measured program lies. Of engine
// exec it is the command itself.
func (l Learned) ServerCommand() Command {
	if len(l.Arguments) > 0 {
		return Command{Path: l.Command, Args: l.Arguments}
	}
	return Command{Path: filepath.Join(filepath.Dir(l.Command), "llama-server"), Args: append([]string{"--model", l.Model}, l.Server()...)}
}

// Systemd is a drop-in for a service that runs llama-server.
func (l Learned) Systemd() string {
	c := l.ServerCommand()
	words := []string{unit(c.Path)}
	for _, a := range c.Args {
		words = append(words, unit(a))
	}
	return "# llama-server.service.d/autotune.conf; add the service's own options, such as --port, to the line\n[Service]\nExecStart=\nExecStart=" + strings.Join(words, " ") + "\n"
}

// unit is a word of ExecStart: systemd expands $ and %, and reads quotes and backslashes (systemd.service(5)).
func unit(word string) string {
	word = strings.NewReplacer(`%`, `%%`, `$`, `$$`).Replace(word)
	if plainWord.MatchString(strings.NewReplacer(`$`, ``).Replace(word)) {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}

// Preset is a section for the file of llama-server --models-preset: its options without dashes.
func (l Learned) Preset() string {
	name := strings.TrimSuffix(filepath.Base(l.Model), filepath.Ext(l.Model))
	var b strings.Builder
	fmt.Fprintf(&b, "[%s]\nmodel = %s\n", name, l.Model)
	for _, p := range l.pairs() {
		fmt.Fprintf(&b, "%s = %s\n", strings.TrimPrefix(p[0], "--"), p[1])
	}
	return b.String()
}
