package placement_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/placement"
)

// catalog is the presets.
func catalog() []placement.Entry {
	var list []placement.Entry
	for _, m := range model.Presets() {
		need, _ := placement.DefaultRules.NeedOf(placement.Subject{Name: m.Name, Model: m}, device.Use{})
		list = append(list, placement.Entry{Name: m.Name, Family: m.Family, Need: need, Weights: m.TernaryWeights()})
	}
	return list
}

func names(r placement.Recommendation) []string {
	list := []string{}
	for _, m := range r.Models {
		list = append(list, m.Model+" on "+m.Device)
	}
	return list
}

// R3.20: ranked models that fit a task and the hardware; no match is an empty list with reasons.
func TestRecommend(t *testing.T) {
	small := devicesOf(card(0, 4, 500e9))
	small[1].RoomBytes = 3 * gib
	for name, test := range map[string]struct {
		task    string
		devices []placement.Device
		by      placement.Constraints
		want    []string
	}{
		"embedding on two cards":      {"feature-extraction", twoCards(), placement.Constraints{}, []string{"bitnet-embedding-0.6b on cuda:0", "bitnet-embedding-270m on cuda:0"}},
		"text on a small card":        {"text-generation", small, placement.Constraints{MaxBytes: 18e8}, []string{"falcon-e-3b on cuda:0", "bitnet-b1.58-2b-4t on cuda:0", "falcon-e-1b on cuda:0", "falcon3-1b-1.58 on cuda:0", "bitnet-b1.58-large on cuda:0"}},
		"text on CUDA or MPS":         {"text_generation", twoCards(), placement.Constraints{Kinds: []placement.Kind{"cuda", "mps"}, MaxBytes: 10e8}, []string{"falcon-e-1b on cuda:0"}},
		"text on the CPU alone":       {"chat", small, placement.Constraints{Kinds: []placement.Kind{"cpu"}, MaxBytes: 10e8}, []string{"falcon-e-1b on cpu"}},
		"no hardware of that kind":    {"chat", twoCards(), placement.Constraints{Kinds: []placement.Kind{"webnn"}}, []string{}},
		"nothing that small":          {"chat", twoCards(), placement.Constraints{MaxBytes: 1e6}, []string{}},
		"no such model in the list":   {"transcription", twoCards(), placement.Constraints{}, []string{}},
		"no device at all, even none": {"chat", nil, placement.Constraints{}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := placement.Recommend(test.task, catalog(), test.devices, placement.DefaultMatrix(), test.by)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, names(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(got.Models) == 0 && len(got.Excluded) == 0 && len(got.Notes) == 0 {
				t.Error("an empty list without a reason")
			}
			for _, e := range got.Excluded {
				if e.Reason == "" {
					t.Errorf("%s is left out without a reason", e.Model)
				}
			}
		})
	}
}

// The best level comes before the quickest device: an override of the matrix moves models.
func TestRecommendFollowsTheMatrix(t *testing.T) {
	m := placement.DefaultMatrix()
	for _, cell := range []string{"embedding/cuda=low", "embedding/cpu=high"} {
		if err := m.Override(cell); err != nil {
			t.Fatal(err)
		}
	}
	got, err := placement.Recommend("embedding", catalog(), twoCards(), m, placement.Constraints{})
	if err != nil || got.Models[0].Device != "cpu" || got.Models[0].Level != placement.High {
		t.Errorf("%+v, %v", got.Models, err)
	}
}

func TestFamilyOfTask(t *testing.T) {
	for _, task := range placement.Tasks() {
		if family, err := placement.FamilyOfTask(strings.ToUpper(task)); err != nil || family == "" {
			t.Errorf("%s: %q, %v", task, family, err)
		}
	}
	if _, err := placement.FamilyOfTask("juggling"); err == nil || !strings.Contains(err.Error(), "text_generation") {
		t.Errorf("%v, want an error that lists the tasks", err)
	}
}
