package tuner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What is answered at once neither waits for anything nor fails for want of what was learned.
func TestAPlanForAnEngineNeverWaitsAndNeverFailsForWantOfData(t *testing.T) {
	dir, store := t.TempDir(), t.TempDir()
	model, pipe := filepath.Join(dir, "m.gguf"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(model, make([]byte, 2*engineModelBytes), 0o600), unix.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	publishEngine(t, store, model, *fourCores(), "57a4d1/9999", "3", time.Now())
	lock, err := os.Open(filepath.Join(store, "history.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil { // somebody writes
		t.Fatal(err)
	}
	tuner, err := Open(Options{Store: store, Host: fourCores()})
	if err != nil {
		t.Fatal(err)
	}
	tuner.measuring.Lock() // and somebody measures
	defer tuner.measuring.Unlock()
	if p, err := tuner.PlanEngine(t.Context(), model, LlamaBench); err != nil || p.Source != Measured {
		t.Errorf("%s, %v: want what was measured", p.Source, err)
	}
	opt := tuner.opt
	opt.Mode = ModeOff
	off, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	defer off.Close()
	if p, err := off.PlanEngine(t.Context(), model, LlamaBench); err != nil || p.Source != Heuristic || len(p.Flags) > 0 || !strings.Contains(p.Reason, "mode off") {
		t.Errorf("with mode off: %s, %q, %q, %v", p.Source, p.Flags, p.Reason, err)
	}
	if err := os.WriteFile(filepath.Join(store, "current.cfg"), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if tuner, err = Open(Options{Store: store, Host: fourCores()}); err != nil {
		t.Fatal(err)
	}
	if p, err := tuner.PlanEngine(t.Context(), model, LlamaBench); err != nil || p.Source != Heuristic || !strings.Contains(p.Reason, "could not be read") {
		t.Errorf("%s because %q, %v: want the engine's own, and that what was learned could not be read", p.Source, p.Reason, err)
	}
	for name, want := range map[string]string{pipe: "want a file", dir: "want a file", filepath.Join(dir, "nowhere"): "no such file"} {
		if _, err := tuner.PlanEngine(t.Context(), name, LlamaBench); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to say %q", name, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tuner.PlanEngine(ctx, model, LlamaBench); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A call reads and hashes the first MiB of the model.
func BenchmarkPlanEngine(b *testing.B) {
	model := filepath.Join(b.TempDir(), "m.gguf")
	if err := os.WriteFile(model, make([]byte, 2*engineModelBytes), 0o600); err != nil {
		b.Fatal(err)
	}
	tuner, err := Open(Options{Store: b.TempDir(), Host: fourCores()})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := tuner.PlanEngine(b.Context(), model, LlamaBench); err != nil {
			b.Fatal(err)
		}
	}
}
