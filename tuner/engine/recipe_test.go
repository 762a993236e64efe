package engine

import (
	"strings"
	"testing"
)

func TestRecipes(t *testing.T) {
	for name, c := range map[string]struct {
		learned            Learned
		flags, env, preset string
	}{
		"the engine's own": {
			Learned{Model: "/m/a.gguf", Plan: Plan{Decode: nil, Prefill: nil}, Own: map[string]string{"threads": "16"}},
			"", "", "[a]\nmodel = /m/a.gguf\n",
		},
		"fewer threads for decode alone": { // a server's threads of a prompt follow --threads unless told
			Learned{Model: "/m/a.gguf", Plan: Plan{Decode: {"threads": "6"}, Prefill: nil}, Own: map[string]string{"threads": "16"}},
			"--threads 6 --threads-batch 16", "LLAMA_ARG_THREADS=6\nLLAMA_ARG_THREADS_BATCH=16\n", "[a]\nmodel = /m/a.gguf\nthreads = 6\nthreads-batch = 16\n",
		},
		"a new build, all sorts": {
			Learned{Model: "/m/a.gguf", Plan: Plan{
				Decode:  {"threads": "6", "flash-attn": "1", "mmap": "0", "poll": "100"},
				Prefill: {"threads": "8", "flash-attn": "1", "mmap": "0", "poll": "100", "ubatch-size": "256"},
			}},
			"--threads 6 --threads-batch 8 --ubatch-size 256 --flash-attn on --no-mmap --poll 100",
			"LLAMA_ARG_THREADS=6\nLLAMA_ARG_THREADS_BATCH=8\nLLAMA_ARG_UBATCH=256\nLLAMA_ARG_FLASH_ATTN=on\nLLAMA_ARG_NO_MMAP=1\n# no variable for: --poll 100\n",
			"[a]\nmodel = /m/a.gguf\nthreads = 6\nthreads-batch = 8\nubatch-size = 256\nflash-attn = on\nno-mmap = 1\npoll = 100\n",
		},
		"a server that decides by itself what llama-bench does not": {
			Learned{Model: "/m/a.gguf", Own: map[string]string{"flash-attn": "0", "mmap": "0", "n-gpu-layers": "99"}, Plan: Plan{Decode: {"threads": "6"}}},
			"--threads 6 --flash-attn off --n-gpu-layers 99 --no-mmap", "LLAMA_ARG_THREADS=6\nLLAMA_ARG_FLASH_ATTN=off\nLLAMA_ARG_N_GPU_LAYERS=99\nLLAMA_ARG_NO_MMAP=1\n",
			"[a]\nmodel = /m/a.gguf\nthreads = 6\nflash-attn = off\nn-gpu-layers = 99\nno-mmap = 1\n",
		},
		"its own settings, and nothing adopted": {
			Learned{Model: "/m/a.gguf", Own: map[string]string{"flash-attn": "0"}, Plan: Plan{Decode: nil}}, "", "", "[a]\nmodel = /m/a.gguf\n",
		},
		"no mapping, and a place for each thread": {
			Learned{Model: "/m/a.gguf", Own: map[string]string{"n-gpu-layers": "-1"}, Plan: Plan{Decode: {"load-mode": "none", "cpu-mask": "0x3"}}},
			"--load-mode none --cpu-mask 0x3 --cpu-strict 1", "LLAMA_ARG_LOAD_MODE=none\n# no variable for: --cpu-mask 0x3\n# no variable for: --cpu-strict 1\n",
			"[a]\nmodel = /m/a.gguf\nload-mode = none\ncpu-mask = 0x3\ncpu-strict = 1\n",
		},
		"what is compiled in": {
			Learned{Model: "/m/a.gguf", Plan: Plan{Decode: {"gemm-row-block": "16", "threads": "2"}}},
			"--threads 2", "# built with gemm-config.h: ROW_BLOCK_SIZE 16\nLLAMA_ARG_THREADS=2\n", "[a]\nmodel = /m/a.gguf\nthreads = 2\n",
		},
		"an old build": {
			Learned{Model: "/m/a.gguf", Bare: []string{"flash-attn", "run-time-repack"}, Plan: Plan{Decode: {"flash-attn": "1", "run-time-repack": "1"}}},
			"--flash-attn --run-time-repack", "LLAMA_ARG_FLASH_ATTN=1\n# no variable for: --run-time-repack 1\n", "[a]\nmodel = /m/a.gguf\nflash-attn = 1\nrun-time-repack = 1\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(c.learned.Server(), " "); got != c.flags {
				t.Errorf("flags %q, want %q", got, c.flags)
			}
			if got := c.learned.Env(); got != c.env {
				t.Errorf("env %q, want %q", got, c.env)
			}
			if got := c.learned.Preset(); got != c.preset {
				t.Errorf("preset %q, want %q", got, c.preset)
			}
		})
	}
}

func TestSystemdWordsAreQuoted(t *testing.T) {
	l := Learned{Command: "/opt/my llama/llama-bench", Model: `/m/50% of $1 "x".gguf`, Plan: Plan{Decode: {"threads": "6"}}}
	want := "ExecStart=\nExecStart=\"/opt/my llama/llama-server\" --model \"/m/50%% of $$1 \\\"x\\\".gguf\" --threads 6\n"
	if got := l.Systemd(); !strings.Contains(got, want) {
		t.Errorf("%s, want in it\n%s", got, want)
	}
}

func TestBareFlagsOfABuild(t *testing.T) {
	later := ParseHelp("  --list-devices  list\n  -fa, --flash-attn <0|1> (default: 0)\n")
	old, fresh := ParseHelp("  -fa, --flash-attn <0|1> (default: 0)\n"), ParseHelp("  -fa, --flash-attn <on|off|auto> (default: auto)\n")
	for name, c := range map[string]struct {
		help  Help
		build string
		bare  bool
	}{
		"b3600": {old, "3600", true}, "b6400": {old, "6400", false}, "on|off in the help": {fresh, "", false}, "unknown build": {old, "", true},
		"a clone without history": {old, "1", true}, "a later one": {later, "1", false},
	} {
		bare := strings.Contains(strings.Join(bareFlags(map[string]string{"build_number": c.build}, c.help), " "), "flash-attn")
		if bare != c.bare {
			t.Errorf("%s: bare %v, want %v", name, bare, c.bare)
		}
	}
}
