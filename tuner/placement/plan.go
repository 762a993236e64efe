package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
)

// Want is a model that is to be placed.
type Want struct {
	Model  string
	Family string
	Need   Need
	Users  int    // if 0, 1
	Prefer *Place // nil = where it is best
	Kinds  []Kind // the only ones it may be placed on; nil = any that its family runs on
	// Alternatives are what the caller could change for it to take less.
	Alternatives []Alternative
}

// Plan says which model goes where.
type Plan struct {
	Placements []Placement `json:"placements"`
	Unplaced   []Unplaced  `json:"unplaced"`
	Devices    []Share     `json:"devices"`
	Pool       Pooled      `json:"pool"`
	// TokenSeconds is what the plan makes least, after models left over and wishes missed: the time of a token of every
	// model (times its users), while all decode and those on one device share its bandwidth.
	TokenSeconds float64      `json:"token_seconds"`
	TokenBasis   device.Basis `json:"token_basis"`
	// Optimal says that no plan is better by that measure; Searched, how many partial plans were looked at to prove it.
	Optimal  bool     `json:"optimal"`
	Searched int      `json:"searched"`
	Warnings []string `json:"warnings"`
}

// Placement is one model on one device.
type Placement struct {
	Model       string `json:"model"`
	Family      string `json:"family"`
	Users       int    `json:"users"`
	Device      string `json:"device"`
	MemoryBytes uint64 `json:"memory_bytes"`
	Layout      string `json:"layout,omitempty"`
	Context     int    `json:"context,omitempty"`
	Batch       int    `json:"batch"`
	// AloneSeconds is the time to read what a token reads; SharedSeconds the same while all others on the device decode.
	AloneSeconds  float64      `json:"token_seconds_alone"`
	SharedSeconds float64      `json:"token_seconds_shared"`
	MemoryBasis   device.Basis `json:"memory_basis"`
	TimeBasis     device.Basis `json:"time_basis"`
	Reason        string       `json:"reason"`
}

// Unplaced is a model that has no place, and what would give it one.
type Unplaced struct {
	Model        string   `json:"model"`
	MemoryBytes  uint64   `json:"memory_bytes"`
	Reason       string   `json:"reason"`
	WouldFitWith []Remedy `json:"would_fit_with"`
}

// Remedy is one change with which a model would have a place, and all others keep one.
type Remedy struct {
	Change string `json:"change"`
	Bytes  uint64 `json:"bytes"` // that the model takes then, or that have to be there
}

// Share is a device with what is placed on it.
type Share struct {
	Device
	UsedBytes uint64   `json:"used_bytes"`
	Models    []string `json:"models"`
}

// Pooled is what all placed models take together.
type Pooled struct {
	MemoryBytes uint64 `json:"memory_bytes"`
	PeakBytes   uint64 `json:"peak_device_bytes"` // of the device with the most on it
	Cores       int    `json:"cpu_cores"`
	DiskBytes   uint64 `json:"disk_bytes"`
}

// planner makes one plan.
type planner struct {
	Rules
	wants   []Want
	devices []Device // without trouble
	matrix  *Matrix
	in      *instance
	sol     solution
}

// Plan places models on devices. It never gives out more than a device's room, and it depends on neither the order of
// wants nor that of devices. Wants of one model are one load with several users.
func (r Rules) Plan(wants []Want, devices []Device, m *Matrix) (Plan, error) {
	merged, err := merge(wants)
	if err != nil {
		return Plan{}, err
	}
	if len(merged) > maxModels {
		return Plan{}, fmt.Errorf("placement: plan of %d models: want at most %d", len(merged), maxModels)
	}
	devices = slices.Clone(devices)
	slices.SortFunc(devices, func(a, b Device) int {
		return cmp.Or(cmp.Compare(slices.Index(Kinds, a.Kind), slices.Index(Kinds, b.Kind)), cmp.Compare(a.Index, b.Index))
	})
	p := &planner{Rules: r, wants: merged, devices: usable(devices), matrix: m}
	p.in = p.instance()
	p.sol = r.solve(p.in)
	p.arrange()
	return p.plan(devices), nil
}

// merge makes one want of all of a model, and sorts them by model.
func merge(wants []Want) ([]Want, error) {
	var merged []Want
	for _, w := range wants {
		w.Users = max(w.Users, 1)
		at := slices.IndexFunc(merged, func(m Want) bool { return m.Model == w.Model })
		if at < 0 {
			merged = append(merged, w)
			continue
		}
		same := &merged[at]
		if same.Need != w.Need {
			return nil, fmt.Errorf("placement: model %s is wanted twice with different needs (%s; %s): a model is loaded once", w.Model, same.Need.Reason, w.Need.Reason)
		}
		if same.Prefer != nil && w.Prefer != nil && *same.Prefer != *w.Prefer {
			return nil, fmt.Errorf("placement: model %s is wanted on %s and on %s: a model is loaded once, name one device", w.Model, same.Prefer, w.Prefer)
		}
		if same.Prefer == nil {
			same.Prefer = w.Prefer
		}
		same.Users += w.Users
	}
	slices.SortFunc(merged, func(a, b Want) int { return cmp.Compare(a.Model, b.Model) })
	return merged, nil
}

func (p *planner) instance() *instance {
	in := &instance{}
	for _, d := range p.devices {
		in.room = append(in.room, d.RoomBytes)
	}
	for _, w := range p.wants {
		bytes, time := make([]uint64, len(p.devices)), make([]uint64, len(p.devices))
		want := nowhere
		if w.Prefer != nil {
			want = wantMissing
		}
		for j, d := range p.devices {
			bytes[j], time[j] = forbidden, w.Need.time(d, w.Users)
			if p.bar(w, d.Kind) == "" {
				bytes[j] = w.Need.on(d.Kind)
			}
			if w.Prefer != nil && d.Place == *w.Prefer {
				want = j
			}
		}
		in.bytes, in.time, in.want = append(in.bytes, bytes), append(in.time, time), append(in.want, want)
	}
	return in
}

// on is what the model takes on a device of a kind.
func (n Need) on(kind Kind) uint64 {
	if kind == CPU {
		return n.Bytes
	}
	return n.Bytes + min(n.GPUBytes, forbidden-n.Bytes) // a sum past 64 bits fits nowhere
}

// time is how many picoseconds a token alone takes on a device, times users: what reading takes and, on the CPU, what the
// ternary matmuls were measured to take.
func (n Need) time(d Device, users int) uint64 {
	if d.Kind != CPU || n.TokensPerSecond <= 0 {
		return tokenTime(n.ReadBytes, d.Bandwidth.Value, users)
	}
	ternary := min(1e12/n.TokensPerSecond*float64(users), maxTime)
	return min(uint64(ternary)+tokenTime(n.ReadBytes-n.TernaryBytes, d.Bandwidth.Value, users), maxTime)
}

// speed says what the time of a token on a device rests on.
func (n Need) speed(d Device) string {
	text := fmt.Sprintf("a token reads %s at %s/s (%s)", gigabytes(n.ReadBytes), gigabytes(d.Bandwidth.Value), d.Bandwidth.Basis)
	if d.Kind == CPU && n.TokensPerSecond > 0 {
		text += fmt.Sprintf(", of which the ternary matmuls do %.3g tokens/s (measured)", n.TokensPerSecond)
	}
	return text
}

// bar is why a model may not be on a kind of hardware; "" = it may.
func (p *planner) bar(w Want, kind Kind) string {
	if len(w.Kinds) > 0 && !slices.Contains(w.Kinds, kind) {
		return fmt.Sprintf("only %s is allowed", joinKinds(w.Kinds))
	}
	if w.Prefer != nil && w.Prefer.Kind == kind {
		return ""
	}
	if p.matrix.Level(w.Family, kind) == None {
		return fmt.Sprintf("the matrix has %s on %s as %s", w.Family, kind, None)
	}
	return ""
}

// plan writes the solution out.
func (p *planner) plan(all []Device) Plan {
	out := Plan{Placements: []Placement{}, Unplaced: []Unplaced{}, Warnings: []string{}, Optimal: p.sol.proven, Searched: p.sol.nodes,
		TokenSeconds: float64(p.sol.cost) / 1e12, TokenBasis: device.Estimate}
	state := newState(p.in)
	state.restore(p.sol)
	for _, d := range all {
		share := Share{Device: d, Models: []string{}}
		for i, w := range p.wants {
			if j := p.sol.assign[i]; j != nowhere && p.devices[j].ID == d.ID {
				share.UsedBytes += p.in.bytes[i][j]
				share.Models = append(share.Models, w.Model)
			}
		}
		out.Devices = append(out.Devices, share)
		out.Pool.PeakBytes = max(out.Pool.PeakBytes, share.UsedBytes)
		if d.Trouble != "" {
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s is left out: %s", d.ID, d.Trouble))
		}
	}
	for i, w := range p.wants {
		j := p.sol.assign[i]
		if w.Prefer != nil && j != p.in.want[i] {
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s is not on %s as asked: %s", w.Model, w.Prefer, p.whyNot(state, i)))
		}
		if j == nowhere {
			out.Unplaced = append(out.Unplaced, p.unplaced(state, i))
			continue
		}
		out.Placements = append(out.Placements, p.placement(state, i))
		out.Pool.MemoryBytes += p.in.bytes[i][j]
		out.Pool.DiskBytes += w.Need.DiskBytes
		out.Pool.Cores += p.cores(p.devices[j].Kind)
	}
	if !out.Optimal {
		out.Warnings = append(out.Warnings, fmt.Sprintf("too many models to prove that no plan is better: the best that local search found, and %d partial plans", p.sol.nodes))
	}
	return out
}

// cores is what a model keeps busy.
func (p *planner) cores(kind Kind) int {
	if kind == CPU {
		return p.CPUCores
	}
	return p.Device.GPUThreads
}

// whyNot says why model i is not on the device that was asked for.
func (p *planner) whyNot(s *state, i int) string {
	w, j := p.wants[i], p.in.want[i]
	switch {
	case j < 0:
		return fmt.Sprintf("there is no %s that can be used", w.Prefer)
	case p.bar(w, w.Prefer.Kind) != "":
		return p.bar(w, w.Prefer.Kind)
	case s.fits(i, j):
		return "another model would have no place then"
	}
	return fmt.Sprintf("%s are wanted, and %s are left there", gigabytes(p.in.bytes[i][j]), gigabytes(p.in.room[j]-s.load[j]))
}

func (p *planner) placement(s *state, i int) Placement {
	w, j := p.wants[i], p.sol.assign[i]
	d := p.devices[j]
	alone := float64(p.in.time[i][j]) / 1e12 / float64(w.Users)
	return Placement{Model: w.Model, Family: w.Family, Users: w.Users, Device: d.ID, MemoryBytes: p.in.bytes[i][j], Layout: w.Need.Layout,
		Context: w.Need.Context, Batch: w.Need.Batch, AloneSeconds: alone, SharedSeconds: alone * float64(s.count[j]),
		MemoryBasis: w.Need.Basis, TimeBasis: device.Estimate, Reason: p.reason(s, i)}
}

// reason says why model i is where it is: what was asked for, what it takes, and the best it could have had elsewhere.
func (p *planner) reason(s *state, i int) string {
	w, j := p.wants[i], p.sol.assign[i]
	d := p.devices[j]
	text := fmt.Sprintf("%s fit the room of %s; %s: %s", gigabytes(p.in.bytes[i][j]), gigabytes(d.RoomBytes), w.Need.speed(d), milliseconds(p.in.time[i][j], w.Users))
	if p.in.want[i] == j {
		return "as asked; " + text
	}
	if p.usual(w.Family, d) {
		text = fmt.Sprintf("%s goes to %s by default; %s", w.Family, d.ID, text)
	}
	other := nowhere
	for k := range p.devices {
		if k != j && p.in.bytes[i][k] != forbidden && (other == nowhere || p.in.time[i][k] < p.in.time[i][other]) {
			other = k
		}
	}
	switch {
	case len(p.devices) == 1:
		return text + "; there is no other device that can be used"
	case other == nowhere:
		return text + "; no other device may have it"
	case !s.fits(i, other):
		return text + fmt.Sprintf("; %s has no room left", p.devices[other].ID)
	}
	return text + fmt.Sprintf("; on %s %s, before sharing", p.devices[other].ID, milliseconds(p.in.time[i][other], w.Users))
}

func gigabytes(bytes uint64) string { return fmt.Sprintf("%.3g GB", float64(bytes)/1e9) }

func milliseconds(picoseconds uint64, users int) string {
	return fmt.Sprintf("%.3g ms", float64(picoseconds)/float64(users)/1e9)
}
