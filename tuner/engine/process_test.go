package engine_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine/enginetest"
)

// TestMain lets the test binary stand in for llama-bench, under that name, and for a tuner that runs an engine.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "llama-bench":
		enginetest.Main()
		return
	case "tuner":
		engine.Run(context.Background(), engine.Command{Path: "/bin/sh", Args: []string{"-c", `echo $$ > "$0"; exec sleep 600`, os.Args[1]}}, 0)
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // of the stand-in: a second for each process otherwise
	os.Exit(m.Run())
}

// standIn is the path of the stand-in, and of a model for it.
func standIn(t *testing.T) (bench, model string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bench, model = filepath.Join(dir, "llama-bench"), filepath.Join(dir, "model.gguf")
	if err := os.Symlink(self, bench); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(model, []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	return bench, model
}

func TestEveryEndOfAProcessIsAStatus(t *testing.T) {
	bench, model := standIn(t)
	for fault, want := range map[string]struct {
		status engine.Status
		note   string
	}{
		"":        {engine.OK, ""},
		"crash":   {engine.Crash, "GGML_ASSERT"},
		"killed":  {engine.OutOfMemory, "killed by another"},
		"oom":     {engine.OutOfMemory, "failed to allocate buffer"},
		"exit":    {engine.ExitStatus, "invalid parameter"},
		"garbage": {engine.Garbage, "not the output of llama-bench"},
		"nan":     {engine.Garbage, "not the output of llama-bench"},
	} {
		t.Run("fault="+fault, func(t *testing.T) {
			e := &engine.LlamaBench{Path: bench, Model: model, Prompt: 64, Generate: 8, Limits: engine.Limits{Cores: 8}}
			e.Env = append(os.Environ(), enginetest.Fault+"="+fault)
			if _, err := e.Describe(context.Background()); err != nil {
				t.Fatal(err)
			}
			o := e.Run(context.Background(), nil, []string{engine.Decode, engine.Prefill}, time.Minute)
			if o.Status != want.status || !strings.Contains(o.Note, want.note) {
				t.Errorf("status %s, note %q; want %s and a note with %q", o.Status, o.Note, want.status, want.note)
			}
			if got := len(o.Samples[engine.Decode]); want.status == engine.OK && got != 5 || want.status != engine.OK && got != 0 {
				t.Errorf("%d samples with status %s", got, o.Status)
			}
		})
	}
}

func TestAHangIsKilledWithItsChildren(t *testing.T) {
	bench, model := standIn(t)
	e := &engine.LlamaBench{Path: bench, Model: model, Prompt: 64, Generate: 8, Env: append(os.Environ(), enginetest.Fault+"=hang"), Limits: engine.Limits{Cores: 8}}
	if _, err := e.Describe(context.Background()); err != nil {
		t.Fatal(err)
	}
	o := e.Run(context.Background(), nil, []string{engine.Decode}, 2*time.Second)
	if o.Status != engine.Hang {
		t.Fatalf("status %s (%s), want %s", o.Status, o.Note, engine.Hang)
	}
	_, after, ok := strings.Cut(o.Note, "child ")
	child, err := strconv.Atoi(strings.TrimSpace(after))
	if !ok || err != nil {
		t.Fatalf("note %q: want the last line that it wrote, with its child", o.Note)
	}
	awaitEnd(t, child)
}

// TestAnEngineDiesWithTheTuner kills a tuner outright while its engine runs.
func TestAnEngineDiesWithTheTuner(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pid")
	tuner := exec.Command(self, file)
	tuner.Args[0] = "tuner"
	if err := tuner.Start(); err != nil {
		t.Fatal(err)
	}
	child := 0
	for child == 0 {
		text, _ := os.ReadFile(file)
		child, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		time.Sleep(time.Millisecond)
	}
	if s := state(child); s == "" || s == "Z" {
		t.Fatalf("the engine is not there: %q", s)
	}
	_ = tuner.Process.Kill()
	_ = tuner.Wait()
	awaitEnd(t, child)
}

// awaitEnd waits until a process is gone, or waits for whoever inherits it to reap it.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	for range 1000 {
		if s := state(pid); s == "" || s == "Z" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d still runs: %s", pid, state(pid))
}

// state is the state of a process, "" if there is none.
func state(pid int) string {
	if syscall.Kill(pid, 0) != nil {
		return ""
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:1]
}

func TestOneProcessAtATime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "held")
	script := `set -e; mkdir "$1"; sleep 0.05; rmdir "$1"` // mkdir fails where another is at work
	results := make(chan engine.Result)
	for range 4 {
		go func() {
			results <- engine.Run(context.Background(), engine.Command{Path: "/bin/sh", Args: []string{"-c", script, "sh", file}}, time.Minute)
		}()
	}
	for range 4 {
		if r := <-results; r.Status != engine.OK {
			t.Errorf("%s: %s", r.Status, r.Note)
		}
	}
}

func TestACallerStopsAProcess(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if r := engine.Run(ctx, engine.Command{Path: "/bin/sleep", Args: []string{"60"}}, time.Minute); r.Status != engine.Stopped {
		t.Errorf("status %s, want %s", r.Status, engine.Stopped)
	}
}
