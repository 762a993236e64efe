package target

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// openBank holds matrices of a shape that fits no block, for 2 threads whatever the machine has.
func openBank(t *testing.T, matrices int) *Bank {
	t.Helper()
	host := localHost(t)
	host.CPU.UsableCores, host.CPU.CPUs = 2, []int{0, 0}
	b, err := NewBank(t.Context(), host, BankOptions{Layout: kernels.I2S, N: 100, K: 70, Matrices: matrices, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestBankMultiplies(t *testing.T) {
	b := openBank(t, 3)
	for _, batch := range []int{5, 1, 37} { // a smaller one after a larger, and a larger one again
		arm := Arm{Layout: kernels.I2S, Kernel: generic, Threads: 2, Batch: batch}
		s, verify, err := b.Multiply(t.Context(), "a", arm, 3)
		if err != nil {
			t.Fatal(err)
		}
		if elapsed, err := s.Run(t.Context(), 4); err != nil || elapsed <= 0 || s.Units != 1 {
			t.Errorf("batch %d: %v, %v, %v units", batch, elapsed, err, s.Units)
		}
		if err := verify(); err != nil {
			t.Error(err)
		}
	}
}

// TestBankTakesTurns: whatever runs goes on behind what ran before it, so that nobody finds what another just brought
// into the caches; the peak loop, which reads nothing, leaves the turn alone.
func TestBankTakesTurns(t *testing.T) {
	b := openBank(t, 5)
	s, _, err := b.Multiply(t.Context(), "multiply", Arm{Layout: kernels.I2S, Kernel: generic, Threads: 1, Batch: 1}, 5)
	if err != nil {
		t.Fatal(err)
	}
	read, err := b.Read("read", kernels.ReadLoop(0), 2, 5)
	if err != nil {
		t.Fatal(err)
	}
	peak, err := b.Peak("peak", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		run  func() error
		want int
	}{
		{"multiply 3", func() error { _, err := s.Run(t.Context(), 3); return err }, 3},
		{"read 1", func() error { _, err := read.Run(t.Context(), 1); return err }, 4},
		{"peak 2", func() error { _, err := peak.Run(t.Context(), 2); return err }, 4},
		{"multiply 4", func() error { _, err := s.Run(t.Context(), 4); return err }, 3},
	} {
		if err := step.run(); err != nil || b.next != step.want {
			t.Errorf("%s: error %v, at %d, want %d", step.name, err, b.next, step.want)
		}
	}
	few, err := b.Read("few", kernels.ReadLoop(0), 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := few.Run(t.Context(), 1); err != nil || b.next > 1 {
			t.Errorf("error %v, at %d, want one of the first two", err, b.next)
		}
	}
}

func TestBankRefuses(t *testing.T) {
	host := localHost(t)
	for name, opt := range map[string]BankOptions{
		"layout":  {Layout: "q4_0", N: 16, K: 16},
		"row":     {Layout: kernels.I2S, N: 0, K: 16},
		"columns": {Layout: kernels.I2S, N: 16, K: kernels.MaxCols + 1},
	} {
		if _, err := NewBank(t.Context(), host, opt); !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v, want ErrRejected that names it", name, err)
		}
	}
	b := openBank(t, 1)
	for name, arm := range map[string]Arm{
		"kernel":  {Kernel: "mul/i2s/abacus", Threads: 1, Batch: 1},
		"batch":   {Kernel: generic, Threads: 1},
		"threads": {Kernel: generic, Threads: 3, Batch: 1},
	} {
		if _, _, err := b.Multiply(t.Context(), name, arm, 1); !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v, want ErrRejected that names it", name, err)
		}
	}
	if _, err := b.Read("read", kernels.ReadLoop(0), 3, 1); !errors.Is(err, ErrRejected) {
		t.Errorf("read with 3 threads: error %v", err)
	}
	if _, err := b.Peak("peak", probe.Feature(0), 0); !errors.Is(err, ErrRejected) {
		t.Errorf("peak with no thread: error %v", err)
	}
}

func TestBankEndsWithTheContext(t *testing.T) {
	b := openBank(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	s, _, err := b.Multiply(ctx, "a", Arm{Kernel: generic, Threads: 1, Batch: 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := s.Run(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v", err)
	}
	if _, _, err := b.Multiply(ctx, "b", Arm{Kernel: generic, Threads: 1, Batch: 1}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("prepare: %v", err)
	}
}

// A matrix whose weights have changed under the reference is a mismatch, before the time counts and after.
func TestBankVerifies(t *testing.T) {
	b := openBank(t, 1)
	arm := Arm{Kernel: generic, Threads: 1, Batch: 2}
	_, verify, err := b.Multiply(t.Context(), "a", arm, 1)
	if err != nil {
		t.Fatal(err)
	}
	b.weights.matmuls[0].Data[0] ^= 1
	if err := verify(); !errors.Is(err, ErrMismatch) {
		t.Errorf("verify: %v, want ErrMismatch", err)
	}
	if _, _, err := b.Multiply(t.Context(), "b", arm, 1); !errors.Is(err, ErrMismatch) {
		t.Errorf("prepare: %v, want ErrMismatch", err)
	}
}
