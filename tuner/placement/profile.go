package placement

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
)

// profileVersion is raised when the meaning of a field changes.
const profileVersion = 1

// Profile is what of a host decides what can run on it: facts that stay, not what is free at the moment.
type Profile struct {
	Version     int            `json:"version"`
	Fingerprint string         `json:"fingerprint"`
	OS          string         `json:"os"`
	Arch        string         `json:"arch"`
	CPU         string         `json:"cpu"`
	Features    probe.Feature  `json:"features"`
	Cores       int            `json:"usable_physical_cores"`
	MemoryBytes uint64         `json:"memory_limit_bytes"`
	GPUs        []ProfileGPU   `json:"gpus"`
	Kinds       []Kind         `json:"hardware"`
	Levels      []ProfileLevel `json:"levels"`
}

// ProfileGPU is a GPU of a profile.
type ProfileGPU struct {
	Index             int            `json:"index"`
	UUID              string         `json:"uuid"`
	Name              string         `json:"name"`
	ComputeCapability gpu.Capability `json:"compute_capability"`
	TotalBytes        uint64         `json:"memory_total_bytes"`
}

// ProfileLevel is how well a family runs on the host, and on what.
type ProfileLevel struct {
	Family   string `json:"family"`
	Hardware []Kind `json:"hardware"`
}

// ProfileOf describes a host.
func ProfileOf(h probe.Host, s gpu.Survey, m *Matrix) Profile {
	p := Profile{Version: profileVersion, Fingerprint: h.Fingerprint(), OS: h.OS, Arch: h.Arch, CPU: h.CPU.Model, Features: h.CPU.Features,
		Cores: h.CPU.UsablePhysical, MemoryBytes: h.Memory.LimitBytes, GPUs: []ProfileGPU{}, Kinds: KindsOf(DefaultRules.Devices(h, s, 0))}
	for _, g := range s.GPUs {
		p.GPUs = append(p.GPUs, ProfileGPU{Index: g.Index, UUID: g.UUID, Name: g.Name, ComputeCapability: g.ComputeCapability, TotalBytes: g.TotalBytes})
	}
	slices.SortStableFunc(p.GPUs, func(a, b ProfileGPU) int { return a.Index - b.Index })
	for _, family := range Families {
		p.Levels = append(p.Levels, ProfileLevel{Family: family, Hardware: m.Recommend(family, p.Kinds)})
	}
	return p
}

// ReadProfile parses a stored profile.
func ReadProfile(data []byte) (Profile, error) {
	var p Profile
	if err := json.Unmarshal(data, &p); err != nil {
		return Profile{}, fmt.Errorf("placement: read profile: %w: want what recommend --save-profile wrote", err)
	}
	if p.Version != profileVersion {
		return Profile{}, fmt.Errorf("placement: read profile: version %d: want %d, as recommend --save-profile writes", p.Version, profileVersion)
	}
	return p, nil
}

// Difference is a field in which a host differs from its profile.
type Difference struct {
	Field  string `json:"field"`
	Stored string `json:"stored"`
	Now    string `json:"now"`
}

// Verify lists each field in which now differs from the stored profile p.
func (p Profile) Verify(now Profile) []Difference {
	before, after := p.fields(), now.fields()
	differences := []Difference{}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if value, there := after[name]; !there {
			differences = append(differences, Difference{Field: name, Stored: before[name], Now: absent})
		} else if value != before[name] {
			differences = append(differences, Difference{Field: name, Stored: before[name], Now: value})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, there := before[name]; !there {
			differences = append(differences, Difference{Field: name, Stored: absent, Now: after[name]})
		}
	}
	return differences
}

// absent stands for a field that one side does not have: that of a GPU.
const absent = "absent"

// fields are the fields of p as text, under the names that the JSON has.
func (p Profile) fields() map[string]string {
	fields := map[string]string{
		"fingerprint": p.Fingerprint, "os": p.OS, "arch": p.Arch, "cpu": p.CPU, "features": p.Features.String(),
		"usable_physical_cores": fmt.Sprint(p.Cores), "memory_limit_bytes": fmt.Sprint(p.MemoryBytes), "hardware": joinKinds(p.Kinds),
	}
	for _, g := range p.GPUs {
		at := fmt.Sprintf("gpus.%d.", g.Index)
		if _, taken := fields[at+"uuid"]; taken { // another instance of the same card
			at += g.UUID + "."
		}
		fields[at+"uuid"], fields[at+"name"] = g.UUID, g.Name
		fields[at+"compute_capability"], fields[at+"memory_total_bytes"] = g.ComputeCapability.String(), fmt.Sprint(g.TotalBytes)
	}
	for _, l := range p.Levels {
		fields["levels."+l.Family] = joinKinds(l.Hardware)
	}
	return fields
}
