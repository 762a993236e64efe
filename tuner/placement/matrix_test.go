package placement_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/placement"
)

// R3.30: every family x hardware kind, as the requirement has it.
func TestMatrixIsTheRequiredOne(t *testing.T) {
	const want = `
embedding       high high   high   high   medium medium
text_generation high medium medium low    none   none
vision          high high   medium high   medium medium
audio           high medium low    medium none   none
multimodal      high none   none   none   none   none
`
	m := placement.DefaultMatrix()
	for line := range strings.Lines(strings.TrimSpace(want)) {
		cells := strings.Fields(line)
		for i, kind := range []placement.Kind{placement.CUDA, placement.MPS, placement.ROCm, placement.OpenVINO, placement.WebNN, placement.WebGPU} {
			if got := m.Level(cells[0], kind); string(got) != cells[i+1] {
				t.Errorf("%s on %s is %s, want %s", cells[0], kind, got, cells[i+1])
			}
		}
	}
	if len(m.Families) != len(placement.Families) {
		t.Errorf("%d families, want %d", len(m.Families), len(placement.Families))
	}
	if got := m.Level(model.Unknown, placement.CUDA); got != placement.None {
		t.Errorf("unknown family on cuda: %s, want none", got)
	}
}

// R3.3, R3.41: for every family and every kind alone beside the CPU, that kind is recommended where the matrix lets it
// run, and the CPU always is.
func TestRecommendedHardware(t *testing.T) {
	m := placement.DefaultMatrix()
	for _, family := range append(slices.Clone(placement.Families), model.Unknown) {
		for _, kind := range placement.Kinds {
			t.Run(fmt.Sprintf("%s on %s", family, kind), func(t *testing.T) {
				got := m.Recommend(family, []placement.Kind{kind, placement.CPU})
				runs := kind == placement.CPU || m.Level(family, kind) != placement.None
				if !slices.Contains(got, placement.CPU) || slices.Contains(got, kind) != runs {
					t.Errorf("%v, want the CPU, and %s: %v", got, kind, runs)
				}
			})
		}
	}
	got := m.Recommend(model.TextGeneration, placement.Kinds)
	if diff := cmp.Diff([]placement.Kind{"cuda", "mps", "rocm", "cpu", "openvino"}, got); diff != "" {
		t.Errorf("all of them, the best first (-want +got):\n%s", diff)
	}
}

// R3.30: overridable per cell, and the override wins.
func TestMatrixOverride(t *testing.T) {
	m := placement.DefaultMatrix()
	m.AddKernel("i2s", probe.AVX2)
	for _, text := range []string{"text_generation/rocm=high", "audio/cpu=none", "i2s/avx2=low"} {
		if err := m.Override(text); err != nil {
			t.Fatal(err)
		}
	}
	if !m.Families["text_generation"]["rocm"].Overridden || m.Level("text_generation", "rocm") != placement.High || m.Layouts["i2s"]["avx2"].Level != placement.Low {
		t.Errorf("%+v: the overrides do not hold", m)
	}
	if placement.DefaultMatrix().Level("text_generation", "rocm") != placement.Medium {
		t.Error("an override changed the default")
	}
	for _, wrong := range []string{"", "a", "text_generation=high", "text_generation/rocm", "text_generation/rocm=best", "music/cuda=high", "vision/toaster=low", "i2s/cuda=low", "q4/avx2=low"} {
		if err := m.Override(wrong); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%q: %v, want an error that says what is wanted", wrong, err)
		}
	}
}

// R3.31: instruction sets per layout; a cell that was measured shows it, the best of several.
func TestMatrixOfLayouts(t *testing.T) {
	m := placement.DefaultMatrix()
	m.AddKernel("i2s", 0)
	m.AddKernel("i2s", probe.AVX2)
	m.AddKernel("i2s", probe.AVX512|probe.AVX512VNNI)
	m.AddKernel("tl1", probe.NEON)
	for _, ratio := range []float64{1.5, 2, 1.8} {
		m.AddMeasurement("i2s", probe.AVX2, placement.Measurement{Model: "m", Kernel: "k", Ratio: ratio})
	}
	m.AddMeasurement("t9", probe.AVX2, placement.Measurement{Ratio: 9})
	if diff := cmp.Diff([]string{placement.Portable, "avx2", "avx512vnni", "neon"}, m.InstructionSets()); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	want := map[string]map[string]placement.Cell{
		"i2s": {
			placement.Portable: {Level: placement.Low},
			"avx2":             {Level: placement.High, Measured: &placement.Measurement{Model: "m", Kernel: "k", Ratio: 2}},
			"avx512vnni":       {Level: placement.High},
		},
		"tl1": {"neon": {Level: placement.High}},
	}
	if diff := cmp.Diff(want, m.Layouts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text, err := json.Marshal(m)
	if err != nil || !strings.Contains(string(text), `"text_generation":{"cpu"`) || !strings.Contains(string(text), `"ratio_to_default":2`) {
		t.Errorf("as JSON: %s, %v", text, err)
	}
}
