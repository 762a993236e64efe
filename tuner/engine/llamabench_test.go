package engine_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
)

// printer is a llama-bench that prints what files of testdata hold: its help, its devices, and its output otherwise.
func printer(t *testing.T, help, devices, output string) string {
	t.Helper()
	file := func(dir, name string) string {
		path, err := filepath.Abs(filepath.Join("testdata", dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := filepath.Join(t.TempDir(), "llama-bench")
	script := strings.NewReplacer("HELP", file("help", help), "DEVICES", devices, "OUTPUT", file("output", output)).Replace(`#!/bin/sh
case $* in
--help) cat 'HELP';;
--list-devices) echo 'Available devices:'; echo 'DEVICES';;
*--verbose) echo 'alloc_tensor_range: failed to allocate CPU buffer' >&2; exit 1;;
*) cat 'OUTPUT' || { echo 'error: failed to load model' >&2; exit 1; };;
esac
`)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLayersGoToAGPUThatTheProgramLists(t *testing.T) {
	for name, c := range map[string]struct {
		devices string
		layers  int
		want    []string // values
	}{
		"no GPU":             {"  (none)", 24, nil},
		"a GPU":              {"  CUDA0: NVIDIA H200 (143156 MiB, 142604 MiB free)", 24, []string{"0", "6", "12", "18", "-1"}},
		"a model of unknown": {"  Vulkan0: Radeon (16384 MiB, 16000 MiB free)", 0, []string{"0", "-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := &engine.LlamaBench{Path: printer(t, "llama.cpp-v0.5.0.txt", c.devices, ""), Prompt: 16, Limits: engine.Limits{Cores: 2, Layers: c.layers}}
			d, err := e.Describe(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			if i := slices.IndexFunc(d.Knobs, func(k engine.Knob) bool { return k.Name == "n-gpu-layers" }); i >= 0 {
				got = d.Knobs[i].Values
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("n-gpu-layers (-want +got):\n%s", d)
			}
		})
	}
}

func TestWhatIsTheEnginesOwnIsNoCandidate(t *testing.T) {
	for file, want := range map[string]map[string]string{
		"llama.cpp-v0.5.0.txt": {"flash-attn": "off", "load-mode": "none"}, // its own are auto, which come to on and mmap
		"llama.cpp-b8121.txt":  {"flash-attn": "0 1", "mmap": "0 1"},       // one of each is its own
	} {
		knobs, _, err := engine.Knobs(engine.ParseHelp(string(read(t, "help", file))), engine.Limits{Cores: 2, Prompt: 512})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, k := range knobs {
			if want[k.Name] != "" {
				got[k.Name] = strings.Join(k.Values, " ")
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", file, d)
		}
	}
}

func TestPollingIsLeftOutWhereThreadsWaitInOpenMP(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), ","), "gcc") {
			t.Fatal(err)
		}
		t.Skipf("NOT TESTED: %v", err)
	}
	bench := printer(t, "llama.cpp-v0.5.0.txt", "", "")
	left := func() string {
		t.Helper()
		d, err := (&engine.LlamaBench{Path: bench, Generate: 16}).Describe(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(d.Left, "\n")
	}
	if strings.Contains(left(), "poll:") {
		t.Errorf("left out %q: nothing here has to do with OpenMP", left())
	}
	library := filepath.Join(filepath.Dir(bench), "libggml-cpu.so")
	if out, err := exec.Command(gcc, "-shared", "-Wl,--no-as-needed", "-o", library, "-x", "c", "/dev/null", "-lgomp").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(left(), "poll: the program's threads wait in OpenMP") {
		t.Errorf("left out %q: want polling", left())
	}
}

func TestAModelWithACommaIsRefused(t *testing.T) {
	e := &engine.LlamaBench{Path: printer(t, "llama.cpp-v0.5.0.txt", "", ""), Model: "a,b.gguf", Prompt: 16}
	if _, err := e.Describe(context.Background()); err == nil || !strings.Contains(err.Error(), "a,b.gguf") || !strings.Contains(err.Error(), "comma") {
		t.Errorf("%v: want an error that names the file and the comma", err)
	}
}

func TestOutputOfAnotherModelIsGarbage(t *testing.T) {
	for file, want := range map[string]engine.Status{"large.gguf": engine.OK, "other.gguf": engine.Garbage} {
		e := &engine.LlamaBench{Path: printer(t, "llama.cpp-v0.5.0.txt", "", "llama.cpp-v0.5.0.jsonl"), Model: file, Prompt: 64, Generate: 16, Repetitions: 2}
		if _, err := e.Describe(context.Background()); err != nil {
			t.Fatal(err)
		}
		o := e.Run(context.Background(), nil, []string{engine.Decode, engine.Prefill}, time.Minute)
		if o.Status != want || want == engine.Garbage && !strings.Contains(o.Note, "model_filename") {
			t.Errorf("%s: %s %s", file, o.Status, o.Note)
		}
	}
}

// TestTheReasonOfAFailureIsAskedFor: llama-bench says why it could not load a model only where it is told to say everything.
func TestTheReasonOfAFailureIsAskedFor(t *testing.T) {
	e := &engine.LlamaBench{Path: printer(t, "llama.cpp-v0.5.0.txt", "", "no such output"), Model: "m.gguf", Prompt: 64}
	if _, err := e.Describe(context.Background()); err != nil {
		t.Fatal(err)
	}
	o := e.Run(context.Background(), nil, []string{engine.Prefill}, time.Minute)
	if o.Status != engine.OutOfMemory || !strings.Contains(o.Note, "failed to allocate CPU buffer") {
		t.Errorf("%s: %s, want the reason and %s", o.Status, o.Note, engine.OutOfMemory)
	}
}

func TestAMaskPlacesEachThread(t *testing.T) {
	e := &engine.LlamaBench{Path: "llama-bench", Model: "m.gguf", Prompt: 16}
	words := e.Command(engine.Setting{"cpu-mask": "0x3"}, []string{engine.Prefill}).Words()
	if !strings.Contains(words, "--cpu-mask 0x3 --cpu-strict 1") {
		t.Errorf("%s: want the mask and strict placement", words)
	}
}
