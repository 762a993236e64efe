package placement_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/placement"
)

// RX.2: every constant is named, with source, unit and what it is for.
func TestConstantsAreDocumented(t *testing.T) {
	of := reflect.TypeOf(placement.Defaults)
	for i := range of.NumField() {
		for _, tag := range []string{"json", "source", "unit", "doc"} {
			if of.Field(i).Tag.Get(tag) == "" {
				t.Errorf("%s has no %s", of.Field(i).Name, tag)
			}
		}
	}
	if err := placement.Defaults.Validate(); err != nil {
		t.Error(err)
	}
}

func TestConstantsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*placement.Constants){
		"host_reserve_share":             func(c *placement.Constants) { c.HostReserveShare = 1.5 },
		"usage_step":                     func(c *placement.Constants) { c.UsageStep = 0 },
		"recommended_memory_factor":      func(c *placement.Constants) { c.RecommendedFactor = 0.5 },
		"cpu_cores":                      func(c *placement.Constants) { c.CPUCores = 0 },
		"vision_index":                   func(c *placement.Constants) { c.VisionIndex = -1 },
		"exact_nodes":                    func(c *placement.Constants) { c.ExactNodes = -1 },
		"gpu_bandwidth_bytes_per_second": func(c *placement.Constants) { c.GPUBandwidth = 0 },
	} {
		c := placement.Defaults
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want an error that names it", name, err)
		}
	}
}

// R3.23: the default indices are overridable.
func TestOverriddenIndices(t *testing.T) {
	rules := placement.DefaultRules
	rules.TextIndex, rules.VisionIndex = 1, 0
	got, err := rules.Plan([]placement.Want{want("a", model.Vision, 2), want("b", model.TextGeneration, 4)}, twoCards(), placement.DefaultMatrix())
	if err != nil || where(got)["a"] != "cuda:0" || where(got)["b"] != "cuda:1" {
		t.Errorf("%v, %v: want them exchanged", where(got), err)
	}
}
