package placement

import (
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

// usual reports whether a family goes to this GPU where nothing else decides.
func (r Rules) usual(family string, d Device) bool {
	return d.Kind != CPU && (family == model.TextGeneration && d.Index == r.TextIndex || family == model.Vision && d.Index == r.VisionIndex)
}

// bundle is what one device holds.
type bundle struct {
	models []int
	bytes  uint64
}

// arrange lets devices of one kind and speed exchange what they hold, which no score can tell: text generation to the
// primary GPU, vision to the secondary one, and of the rest the largest to the first. Devices that hold what was asked for
// there keep it.
func (p *planner) arrange() {
	done := make([]bool, len(p.devices))
	for j := range p.devices {
		if done[j] {
			continue
		}
		var group []int
		for k := j; k < len(p.devices); k++ {
			if p.devices[k].Kind == p.devices[j].Kind && p.devices[k].Bandwidth.Value == p.devices[j].Bandwidth.Value {
				done[k] = true
				if !p.bound(k) {
					group = append(group, k)
				}
			}
		}
		p.exchange(group)
	}
}

// bound reports whether device j holds a model that was asked for there.
func (p *planner) bound(j int) bool {
	for i, at := range p.sol.assign {
		if at == j && p.in.want[i] == j {
			return true
		}
	}
	return false
}

// exchange gives out the bundles of the devices of a group anew.
func (p *planner) exchange(group []int) {
	var bundles []bundle
	for _, j := range group {
		b := bundle{}
		for i, at := range p.sol.assign {
			if at == j {
				b.models = append(b.models, i)
				b.bytes += p.in.bytes[i][j]
			}
		}
		bundles = append(bundles, b)
	}
	for _, family := range []string{model.TextGeneration, model.Vision, ""} {
		for _, j := range slices.Clone(group) {
			if family != "" && !p.usual(family, p.devices[j]) {
				continue
			}
			rest := slices.DeleteFunc(slices.Clone(group), func(k int) bool { return k == j })
			at := p.pick(bundles, rest, j, family)
			if at == nowhere {
				continue
			}
			for _, i := range bundles[at].models {
				p.sol.assign[i] = j
			}
			bundles, group = slices.Delete(bundles, at, at+1), rest
		}
	}
}

// pick is the bundle for device j with the most of a family, or with "" of everything, that fits it and leaves bundles that
// fit the rest; nowhere = none has any of the family.
func (p *planner) pick(bundles []bundle, rest []int, j int, family string) int {
	best, most := nowhere, uint64(0)
	for at, b := range bundles {
		size := p.sizeOf(b, j, family)
		others := slices.Delete(slices.Clone(bundles), at, at+1)
		if (size > most || family == "" && best == nowhere) && b.bytes <= p.in.room[j] && p.fit(others, rest) {
			best, most = at, size
		}
	}
	return best
}

// sizeOf is what the models of a family, or with "" all, take of a bundle.
func (p *planner) sizeOf(b bundle, j int, family string) uint64 {
	var size uint64
	for _, i := range b.models {
		if family == "" || p.wants[i].Family == family {
			size += p.in.bytes[i][j]
		}
	}
	return size
}

// fit reports whether the bundles have room on the devices, one on each: the largest on the one with most room, and so on.
func (p *planner) fit(bundles []bundle, devices []int) bool {
	var sizes, rooms []uint64
	for _, b := range bundles {
		sizes = append(sizes, b.bytes)
	}
	for _, j := range devices {
		rooms = append(rooms, p.in.room[j])
	}
	slices.Sort(sizes)
	slices.Sort(rooms)
	for n := range sizes {
		if sizes[n] > rooms[n] {
			return false
		}
	}
	return true
}
