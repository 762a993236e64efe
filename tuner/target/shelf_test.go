package target

import (
	"errors"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
)

func TestShelfHoldsEveryLayout(t *testing.T) {
	host := localHost(t)
	s := NewShelf(host, odd, kernels.Layouts(), CPUOptions{Seed: 1})
	defer s.Close()
	for _, layout := range kernels.Layouts() {
		arm := Arm{Layout: layout, Kernel: "mul/" + string(layout) + "/generic", Threads: 1, Batch: 1}
		subject, err := s.Prepare(t.Context(), Decode, arm)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := subject.Run(t.Context(), 2); err != nil {
			t.Error(err)
		}
		first, err := s.Hold(t.Context(), layout)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := s.Hold(t.Context(), layout); again != first {
			t.Errorf("%s: held twice", layout)
		}
		cost, err := s.Repack(t.Context(), layout)
		if err != nil || cost <= 0 {
			t.Errorf("%s: repacking takes %v, %v", layout, cost, err)
		}
	}
	if _, err := s.Repack(t.Context(), "q4"); !errors.Is(err, ErrRejected) {
		t.Errorf("repacking into q4: %v, want ErrRejected", err)
	}
}

func TestShelfRejectsALayoutItWasNotMadeFor(t *testing.T) {
	s := NewShelf(localHost(t), odd, []kernels.Layout{kernels.I2S}, CPUOptions{})
	defer s.Close()
	if _, err := s.Prepare(t.Context(), Decode, Arm{Layout: "q4", Kernel: "mul/i2s/generic", Threads: 1, Batch: 1}); !errors.Is(err, ErrRejected) {
		t.Errorf("error %v, want ErrRejected", err)
	}
}

// TestShelfSharesItsMemory: two layouts in the memory of one hold fewer layers each.
func TestShelfSharesItsMemory(t *testing.T) {
	alone := layerBytes(mustFormat(t, kernels.I2S), odd.Layer()) * uint64(odd.Layers)
	host := localHost(t)
	host.CPU.L3.Bytes, host.CPU.L2.Bytes = 0, 0 // so that one layer is enough to be read from memory
	for layouts, want := range map[string]struct {
		list []kernels.Layout
		note bool
	}{"one": {[]kernels.Layout{kernels.I2S}, false}, "two": {[]kernels.Layout{kernels.I2S, "none"}, true}} {
		s := NewShelf(host, odd, want.list, CPUOptions{MaxBytes: alone})
		if _, err := s.Hold(t.Context(), kernels.I2S); err != nil {
			t.Errorf("%s: %v", layouts, err)
		}
		if got := s.Note() != ""; got != want.note {
			t.Errorf("%s layouts: note %q", layouts, s.Note())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func mustFormat(t *testing.T, layout kernels.Layout) kernels.Format {
	t.Helper()
	f, ok := kernels.FormatOf(layout)
	if !ok {
		t.Fatalf("no layout %s", layout)
	}
	return f
}
