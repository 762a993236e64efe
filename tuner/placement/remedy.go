package placement

import (
	"fmt"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
)

// unplaced says why model i has no place, and what would give it one.
func (p *planner) unplaced(s *state, i int) Unplaced {
	w := p.wants[i]
	out := Unplaced{Model: w.Model, MemoryBytes: p.least(i), Reason: p.shortage(s, i), WouldFitWith: []Remedy{}}
	out.WouldFitWith = append(out.WouldFitWith, p.changes(i)...)
	if d, missing := p.nearest(s, i); missing > 0 {
		out.WouldFitWith = append(out.WouldFitWith, Remedy{Change: "more memory free on " + d.ID, Bytes: missing})
	}
	if bytes := w.Need.on(CUDA); p.bar(w, CUDA) == "" && bytes <= largestCard {
		out.WouldFitWith = append(out.WouldFitWith, Remedy{Change: fmt.Sprintf("one more GPU with at least %s, all free", gigabytes(p.cardFor(bytes))), Bytes: p.cardFor(bytes)})
	}
	return out
}

// changes are the alternatives with which model i has a place: the first of each knob, and of all knobs together only where
// no single one does.
func (p *planner) changes(i int) []Remedy {
	var found []Remedy
	seen := map[string]bool{}
	for _, alternative := range p.wants[i].Alternatives {
		if seen[alternative.Knob] || alternative.Knob == "" && len(found) > 0 {
			continue
		}
		changed := slices.Clone(p.wants)
		changed[i].Need = alternative.Need
		if p.places(changed, i) {
			seen[alternative.Knob] = true
			found = append(found, Remedy{Change: alternative.Change, Bytes: alternative.Need.Bytes})
		}
	}
	return found
}

// least is what model i takes where it takes least.
func (p *planner) least(i int) uint64 {
	if least := p.in.least(i); least != forbidden {
		return least
	}
	return p.wants[i].Need.Bytes
}

// shortage says what keeps model i off each device.
func (p *planner) shortage(s *state, i int) string {
	text := ""
	for j, d := range p.devices {
		why := p.bar(p.wants[i], d.Kind)
		if why == "" {
			why = fmt.Sprintf("%s wanted, %s of %s left", gigabytes(p.in.bytes[i][j]), gigabytes(p.in.room[j]-s.load[j]), gigabytes(p.in.room[j]))
		}
		if text != "" {
			text += "; "
		}
		text += d.ID + ": " + why
	}
	if text == "" {
		return "there is no device that can be used"
	}
	return text
}

// places reports whether, with the changed wants, model i has a place and fewer models than now are left over. It looks for
// a plan that shows it, and does not prove that there is none.
func (p *planner) places(changed []Want, i int) bool {
	other := planner{Rules: p.Rules, wants: changed, devices: p.devices, matrix: p.matrix}
	other.ExactNodes, other.Kicks = min(p.ExactNodes, 2000), min(p.Kicks, 50)
	sol := other.solveAlone(other.instance())
	return sol.assign[i] != nowhere && sol.unplaced < p.sol.unplaced
}

// nearest is the device on which model i lacks least, with how much that is; 0 = it may be on none.
func (p *planner) nearest(s *state, i int) (Device, uint64) {
	var nearest Device
	var least uint64
	for j, d := range p.devices {
		bytes := p.in.bytes[i][j]
		if bytes == forbidden || s.fits(i, j) {
			continue
		}
		missing := bytes - (p.in.room[j] - s.load[j])
		if p.in.room[j]+missing <= p.mostRoom(d) && (least == 0 || missing < least) {
			nearest, least = d, missing
		}
	}
	return nearest, least
}

// mostRoom is the room of a device that is all free.
func (r Rules) mostRoom(d Device) uint64 {
	if d.Kind == CPU {
		return d.TotalBytes - uint64(float64(d.TotalBytes)*r.HostReserveShare)
	}
	return r.cardRoom(gpu.Memory{TotalBytes: d.TotalBytes, FreeBytes: d.TotalBytes})
}

// largestCard bounds the GPU that is offered as a remedy: no card that has ever been built has 2^44 bytes.
const largestCard = 1 << 44

// cardFor is the least total of a GPU, all of it free, that has room for bytes, to the next 2^27: what is kept in reserve
// grows with the total.
func (r Rules) cardFor(bytes uint64) uint64 {
	const step = 1 << 27
	total := (bytes + step - 1) / step * step
	for r.cardRoom(gpu.Memory{TotalBytes: total, FreeBytes: total}) < bytes {
		total += step
	}
	return total
}
