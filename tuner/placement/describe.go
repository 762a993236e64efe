package placement

import (
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
)

// Description is all that is told of a model on a host: what it is, what it runs best on there, where to begin, what it
// needs.
type Description struct {
	Classification
	Hardware  []Kind      `json:"recommended_hardware"` // of what is there, the best first
	Levels    []KindLevel `json:"hardware"`
	Template  Template    `json:"template"`
	Resources Resources   `json:"resource_requirements"`
}

// KindLevel is how well the family runs on a kind of hardware, and whether that is there.
type KindLevel struct {
	Kind  Kind  `json:"kind"`
	Level Level `json:"level"`
	Here  bool  `json:"here"`
}

// Describe tells in one call what is known of a model on a host.
func (r Rules) Describe(s Subject, use device.Use, devices []Device, m *Matrix) Description {
	d := Description{Classification: Classify(s)}
	here := KindsOf(devices)
	d.Hardware = m.Recommend(d.Family, here)
	for _, kind := range Kinds {
		d.Levels = append(d.Levels, KindLevel{Kind: kind, Level: m.Level(d.Family, kind), Here: slices.Contains(here, kind)})
	}
	d.Template = TemplateOf(d.Family)
	d.Resources = r.Resources(s, d.Family, use)
	return d
}
