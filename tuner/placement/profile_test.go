package placement_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/placement"
)

// R3.12: generated, stored, verified later, with each field that differs.
func TestProfile(t *testing.T) {
	survey := gpu.Survey{GPUs: []gpu.GPU{card(0, 16, 0), card(1, 8, 0)}}
	data, err := json.Marshal(placement.ProfileOf(server(), survey, placement.DefaultMatrix()))
	if err != nil {
		t.Fatal(err)
	}
	stored, err := placement.ReadProfile(data)
	if err != nil {
		t.Fatal(err)
	}
	busy := gpu.Survey{GPUs: []gpu.GPU{card(0, 16, 0), card(1, 8, 0)}}
	busy.GPUs[0].FreeBytes, busy.GPUs[0].Utilization = 5, 1
	if got := stored.Verify(placement.ProfileOf(server(), busy, placement.DefaultMatrix())); len(got) > 0 {
		t.Errorf("%v differ because a GPU is busy, want none", got)
	}
	other := server()
	other.CPU.Features = probe.AVX
	other.Memory.LimitBytes = 8 * gib
	m := placement.DefaultMatrix()
	if err := m.Override("audio/cuda=none"); err != nil {
		t.Fatal(err)
	}
	moved := gpu.Survey{GPUs: []gpu.GPU{card(0, 24, 0), card(2, 8, 0)}}
	got := map[string]string{}
	for _, d := range stored.Verify(placement.ProfileOf(other, moved, m)) {
		got[d.Field] = d.Stored + " -> " + d.Now
	}
	delete(got, "fingerprint") // is a digest
	want := map[string]string{
		"features": "avx,avx2 -> avx", "memory_limit_bytes": "68719476736 -> 8589934592", "gpus.0.memory_total_bytes": "17179869184 -> 25769803776",
		"gpus.1.uuid": "GPU-b -> absent", "gpus.1.name": "card of a test -> absent", "gpus.1.compute_capability": " -> absent", "gpus.1.memory_total_bytes": "8589934592 -> absent",
		"gpus.2.uuid": "absent -> GPU-c", "gpus.2.name": "absent -> card of a test", "gpus.2.compute_capability": "absent -> ", "gpus.2.memory_total_bytes": "absent -> 8589934592",
		"levels.audio": "cuda, cpu -> cpu",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadProfileRefuses(t *testing.T) {
	for _, wrong := range []string{"", "{}", `{"version":2}`, "[]"} {
		if _, err := placement.ReadProfile([]byte(wrong)); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%q: %v, want an error that says what is wanted", wrong, err)
		}
	}
}
