package ptx

import "fmt"

// newestVersion is that of CUDA 12.0; a module for more would not load on the oldest driver that is served.
var newestVersion = Version{8, 0}

// A requirement is the least version and target that an opcode with all of these modifiers, in this order, needs.
type requirement struct {
	opcode    string
	modifiers []string
	version   Version
	target    Target
}

func req(opcode string, modifiers []string, major, minor, sm int) requirement {
	return requirement{opcode, modifiers, Version{major, minor}, Target{SM: sm}}
}

func exactly(opcode string, modifiers []string, major, minor, sm int) requirement {
	return requirement{opcode, modifiers, Version{major, minor}, Target{SM: sm, Exact: true}}
}

type mods = []string

// requirements follows the sections "PTX ISA Notes" and "Target ISA Notes" of NVIDIA's PTX ISA 8.5. An opcode that is
// missing, or an unlisted modifier, is as old as any target that matters (PTX 3.0, sm_30).
var requirements = []requirement{
	req("dp4a", nil, 5, 0, 61),
	req("dp2a", nil, 5, 0, 61),
	req("lop3", nil, 4, 3, 50),
	req("shf", nil, 3, 1, 32),
	req("cvt", mods{"pack"}, 6, 5, 72),
	req("cvt", mods{"bf16", "f32"}, 7, 0, 80),
	req("cvt", mods{"f32", "bf16"}, 7, 8, 90),
	req("cvt", mods{"relu"}, 7, 0, 80),
	req("min", mods{"NaN"}, 7, 0, 80),
	req("max", mods{"NaN"}, 7, 0, 80),
	req("tanh", nil, 7, 0, 75),
	req("ex2", mods{"f16"}, 7, 0, 75),
	req("bmsk", nil, 7, 6, 70),
	req("szext", nil, 7, 6, 70),

	req("ld", mods{"nc"}, 3, 1, 32),
	req("ld", mods{"relaxed"}, 6, 0, 70),
	req("ld", mods{"acquire"}, 6, 0, 70),
	req("ld", mods{"L1::no_allocate"}, 7, 4, 70),
	req("ld", mods{"L1::evict_normal"}, 7, 4, 70),
	req("ld", mods{"L1::evict_unchanged"}, 7, 4, 70),
	req("ld", mods{"L1::evict_first"}, 7, 4, 70),
	req("ld", mods{"L1::evict_last"}, 7, 4, 70),
	req("ld", mods{"L2::64B"}, 7, 4, 75),
	req("ld", mods{"L2::128B"}, 7, 4, 75),
	req("ld", mods{"L2::256B"}, 7, 4, 80),
	req("ld", mods{"L2::cache_hint"}, 7, 4, 80),
	req("st", mods{"relaxed"}, 6, 0, 70),
	req("st", mods{"release"}, 6, 0, 70),
	req("st", mods{"L1::no_allocate"}, 7, 4, 70),
	req("st", mods{"L1::evict_normal"}, 7, 4, 70),
	req("st", mods{"L1::evict_unchanged"}, 7, 4, 70),
	req("st", mods{"L1::evict_first"}, 7, 4, 70),
	req("st", mods{"L1::evict_last"}, 7, 4, 70),
	req("st", mods{"L2::cache_hint"}, 7, 4, 80),
	req("prefetch", mods{"L2::evict_last"}, 7, 4, 80),
	req("prefetch", mods{"L2::evict_normal"}, 7, 4, 80),
	req("createpolicy", nil, 7, 4, 80),

	req("atom", mods{"relaxed"}, 6, 0, 70),
	req("atom", mods{"acquire"}, 6, 0, 70),
	req("atom", mods{"release"}, 6, 0, 70),
	req("atom", mods{"acq_rel"}, 6, 0, 70),
	req("atom", mods{"cta"}, 5, 0, 60),
	req("atom", mods{"gpu"}, 5, 0, 60),
	req("atom", mods{"sys"}, 5, 0, 60),
	req("atom", mods{"add", "f64"}, 5, 0, 60),
	req("red", mods{"relaxed"}, 6, 0, 70),
	req("red", mods{"release"}, 6, 0, 70),
	req("red", mods{"cta"}, 5, 0, 60),
	req("red", mods{"gpu"}, 5, 0, 60),
	req("red", mods{"sys"}, 5, 0, 60),
	req("red", mods{"add", "f64"}, 5, 0, 60),
	req("fence", nil, 6, 0, 70),
	req("fence", mods{"proxy"}, 7, 5, 70),
	req("fence", mods{"proxy", "async"}, 8, 0, 90),

	req("barrier", nil, 6, 0, 30),
	req("bar", mods{"warp"}, 6, 0, 30),
	req("shfl", mods{"sync"}, 6, 0, 30),
	req("vote", mods{"sync"}, 6, 0, 30),
	req("match", nil, 6, 0, 70),
	req("activemask", nil, 6, 2, 30),
	req("redux", nil, 7, 0, 80),
	req("elect", nil, 8, 0, 90),
	req("nanosleep", nil, 6, 3, 70),
	req("griddepcontrol", nil, 7, 8, 90),

	req("mma", mods{"m8n8k16"}, 6, 5, 75),
	req("mma", mods{"m16n8k16", "s8"}, 7, 0, 80),
	req("mma", mods{"m16n8k16", "u8"}, 7, 0, 80),
	req("mma", mods{"m16n8k32"}, 7, 0, 80),
	req("ldmatrix", nil, 6, 5, 75),
	req("cp", mods{"async"}, 7, 0, 80),
	req("cp", mods{"async", "L2::64B"}, 7, 4, 80),
	req("cp", mods{"async", "L2::128B"}, 7, 4, 80),
	req("cp", mods{"async", "L2::256B"}, 7, 4, 80),
	req("cp", mods{"async", "L2::cache_hint"}, 7, 4, 80),
	exactly("wgmma", nil, 8, 0, 90),
	exactly("setmaxnreg", nil, 8, 0, 90),
}

// targets is the least version that knows each target.
var targets = map[Target]Version{
	{SM: 30}: {3, 0}, {SM: 32}: {4, 0}, {SM: 35}: {3, 1}, {SM: 37}: {4, 1},
	{SM: 50}: {4, 0}, {SM: 52}: {4, 1}, {SM: 53}: {4, 2},
	{SM: 60}: {5, 0}, {SM: 61}: {5, 0}, {SM: 62}: {5, 0},
	{SM: 70}: {6, 0}, {SM: 72}: {6, 1}, {SM: 75}: {6, 3},
	{SM: 80}: {7, 0}, {SM: 86}: {7, 1}, {SM: 87}: {7, 4}, {SM: 89}: {7, 8},
	{SM: 90}: {7, 8}, {SM: 90, Exact: true}: {8, 0},
}

func targetAllowed(t Target, v Version) error {
	least, ok := targets[t]
	if !ok {
		return fmt.Errorf("target %v is not known", t)
	}
	if v.less(least) {
		return fmt.Errorf("target %v needs version %v", t, least)
	}
	return nil
}

// unmet says what an instruction needs that version and target of its module do not give.
func unmet(opcode string, modifiers []string, v Version, t Target) []string {
	var why []string
	for _, r := range requirements {
		if r.opcode != opcode || !subsequence(r.modifiers, modifiers) {
			continue
		}
		name := opcode
		for _, m := range r.modifiers {
			name += "." + m
		}
		if v.less(r.version) {
			why = append(why, fmt.Sprintf("%s needs version %v", name, r.version))
		}
		if r.target.Exact && t != r.target || t.SM < r.target.SM {
			why = append(why, fmt.Sprintf("%s needs target %v", name, r.target))
		}
	}
	return why
}

// subsequence says whether all of part stand in whole, in their order.
func subsequence(part, whole []string) bool {
	for _, m := range whole {
		if len(part) > 0 && m == part[0] {
			part = part[1:]
		}
	}
	return len(part) == 0
}
