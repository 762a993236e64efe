package enginetest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
)

// Help is what the stand-in prints when asked for help.
func Help(s Surface) string {
	return fmt.Sprintf(`usage: llama-bench [options]

options:
  -h, --help
  -r, --repetitions <n>                     number of times to repeat each test (default: 5)
  --prio <0|1|2|3>                          process/thread priority (default: 0)
  -o, --output <csv|json|jsonl|md|sql>      output format printed to stdout (default: md)

test parameters:
  -m, --model <filename>                    (default: models/7B/ggml-model-q4_0.gguf)
  -p, --n-prompt <n>                        (default: 512)
  -n, --n-gen <n>                           (default: 128)
  -pg <pp,tg>                               (default: )
  -b, --batch-size <n>                      (default: 2048)
  -ub, --ubatch-size <n>                    (default: 512)
  -ctk, --cache-type-k <t>                  (default: f16)
  -t, --threads <n>                         (default: %d)
  --poll <0...100>                          (default: 50)
  -ngl, --n-gpu-layers <n>                  (default: 99)
  -fa, --flash-attn <0|1>                   (default: 0)
`, s.Threads())
}

// The environment of the stand-in.
const (
	SurfaceSeed = "STANDIN_SEED"  // of Draw; unset = 1
	Fault       = "STANDIN_FAULT" // "KIND knob=value": what happens where a setting has that value, or always without one
	Gain        = "STANDIN_GAIN"  // how many times as fast everything is; unset = 1
	Quiet       = "STANDIN_QUIET" // set: no noise
)

// hurry is by how much the stand-in is faster than its surface, so that tests are short.
const hurry = 1000

// Main is the stand-in for llama-bench.
func Main() {
	seed, err := strconv.ParseUint(os.Getenv(SurfaceSeed), 10, 64)
	if err != nil {
		seed = 1
	}
	s := Draw(seed)
	set, model, prompt, generate, repetitions := engine.Setting{}, "", 512, 128, 5
	args := os.Args[1:]
	for len(args) > 0 {
		name := strings.TrimLeft(args[0], "-")
		if name == "help" || name == "h" {
			fmt.Print(Help(s))
			return
		}
		if len(args) < 2 {
			fail("missing value of %s", args[0])
		}
		switch number, _ := strconv.Atoi(args[1]); name {
		case "model":
			model = args[1]
		case "n-prompt":
			prompt = number
		case "n-gen":
			generate = number
		case "repetitions":
			repetitions = number
		case "output", "pg":
		default:
			set[name] = args[1]
		}
		args = args[2:]
	}
	if _, err := os.Stat(model); err != nil {
		fail("failed to load model '%s'", model)
	}
	fault(set)
	noise := NewNoise(uint64(time.Now().UnixNano()))
	if os.Getenv(Quiet) != "" {
		noise = Noise{}
	}
	process := noise.Process() / hurry
	if gain, err := strconv.ParseFloat(os.Getenv(Gain), 64); err == nil && gain > 0 {
		process /= gain
	}
	for _, test := range []struct {
		regime           string
		prompt, generate int
	}{{engine.Prefill, prompt, 0}, {engine.Decode, 0, generate}} {
		tokens := test.prompt + test.generate
		if tokens == 0 {
			continue
		}
		row := map[string]any{"n_prompt": test.prompt, "n_gen": test.generate, "n_depth": 0}
		for name, value := range s.facts(set) {
			row[name] = value
		}
		var ns []int64
		var rates []float64
		for range repetitions {
			took := s.Cost(set, test.regime) * process * noise.Repetition() * float64(tokens)
			time.Sleep(time.Duration(took))
			ns, rates = append(ns, int64(took)), append(rates, float64(tokens)*1e9/took)
		}
		row["samples_ns"], row["samples_ts"] = ns, rates
		if err := json.NewEncoder(os.Stdout).Encode(row); err != nil {
			os.Exit(1)
		}
	}
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "error: "+format+"\n", args...)
	os.Exit(1)
}

// fault does what the environment asks for, if the setting is the one that it names.
func fault(set engine.Setting) {
	kind, where, some := strings.Cut(os.Getenv(Fault), " ")
	knob, value, _ := strings.Cut(where, "=")
	if some && set[knob] != value {
		return
	}
	switch kind {
	case "crash":
		_ = syscall.Exec("/bin/sh", []string{"sh", "-c", "echo 'GGML_ASSERT(n_threads > 0) failed' >&2; kill -ABRT $$"}, os.Environ()) // Go would print stacks
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "oom":
		fail("ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 1187801280")
	case "exit":
		fail("invalid parameter for argument: --something")
	case "garbage":
		fmt.Println(`| model | size | t/s |`)
		os.Exit(0)
	case "nan":
		fmt.Println(`{"n_prompt":512,"n_gen":0,"samples_ns":[nan],"samples_ts":[inf]}`)
		os.Exit(0)
	case "hang": // with a child that holds the pipe, as an engine with helpers does
		child := exec.Command("sleep", "600")
		child.Stdout = os.Stdout
		_ = child.Start()
		fmt.Fprintf(os.Stderr, "child %d\n", child.Process.Pid)
		time.Sleep(10 * time.Minute)
	}
}
