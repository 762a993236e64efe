package ptx

import (
	"fmt"
	"strings"
	"testing"
)

// Each instruction passes at the least version and target that it needs, and fails one step below either.
func TestRequirementsAtTheirBorder(t *testing.T) {
	for _, tt := range []struct {
		instruction     string
		version, target string // the least
		older, smaller  string // one step below; "" where nothing is
	}{
		{"dp4a.s32.s32 %r1, %r0, %r0, %r0;", "5.0", "sm_61", "", "sm_60"},
		{"dp4a.u32.s32 %r1, %r0, %r0, %r0;", "5.0", "sm_61", "", "sm_60"},
		{"lop3.b32 %r1, %r0, %r0, %r0, 0x96;", "4.3", "sm_50", "4.2", "sm_37"},
		{"shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;", "6.0", "sm_30", "5.0", ""},
		{"bar.warp.sync -1;", "6.0", "sm_30", "5.0", ""},
		{"vote.sync.ballot.b32 %r1, %p1, -1;", "6.0", "sm_30", "5.0", ""},
		{"match.any.sync.b32 %r1, %r0, -1;", "6.0", "sm_70", "", "sm_62"},
		{"activemask.b32 %r1;", "6.2", "sm_30", "6.1", ""},
		{"redux.sync.add.s32 %r1, %r0, -1;", "7.0", "sm_80", "", "sm_75"},
		{"ld.global.nc.u32 %r1, [%a0];", "4.0", "sm_32", "", "sm_30"},
		{"ld.global.nc.L1::no_allocate.v4.u32 {%r1, %r2, %r3, %r4}, [%a0];", "7.4", "sm_70", "7.3", "sm_62"},
		{"ld.global.L2::128B.u32 %r1, [%a0];", "7.4", "sm_75", "7.3", "sm_72"},
		{"ld.relaxed.gpu.global.u32 %r1, [%a0];", "6.0", "sm_70", "", "sm_62"},
		{"red.relaxed.gpu.global.add.u32 [%a0], 1;", "6.0", "sm_70", "", "sm_62"},
		{"fence.acq_rel.gpu;", "6.0", "sm_70", "", "sm_62"},
		{"cp.async.cg.shared.global [%r1], [%a0], 16;", "7.0", "sm_80", "", "sm_75"},
		{"cp.async.commit_group;", "7.0", "sm_80", "", "sm_75"},
		{"cp.async.ca.shared.global.L2::128B [%r1], [%a0], 16;", "7.4", "sm_80", "7.3", "sm_75"},
		{"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];", "6.5", "sm_75", "6.4", "sm_72"},
		{"mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r1, %r2}, {%r3}, {%r4}, {%r5, %r6};", "6.5", "sm_75", "6.4", "sm_72"},
		{"mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%r1, %r2, %r3, %r4}, {%r5, %r6, %r7, %r8}, {%r9, %r10}, {%r1, %r2, %r3, %r4};", "7.0", "sm_80", "", "sm_75"},
		{"cvt.rn.bf16.f32 %h1, %f1;", "7.0", "sm_80", "", "sm_75"},
		{"cvt.pack.sat.s8.s32.b32 %r1, %r2, %r3, %r4;", "6.5", "sm_72", "6.4", "sm_70"},
		{"griddepcontrol.wait;", "7.8", "sm_90", "", "sm_89"},
		{"griddepcontrol.launch_dependents;", "7.8", "sm_90", "", "sm_89"},
		{"wgmma.fence.sync.aligned;", "8.0", "sm_90a", "", "sm_90"},
		{"wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8 {%r1, %r2, %r3, %r4}, {%r5, %r6, %r7, %r8}, %a0, %p1;", "8.0", "sm_90a", "", "sm_90"},
		{"setmaxnreg.inc.sync.aligned.u32 240;", "8.0", "sm_90a", "", "sm_90"},
	} {
		load := func(version, target string) error {
			text := fmt.Sprintf(".version %s\n.target %s\n.address_size 64\n.entry k() {\n.reg .pred %%p<2>;\n.reg .b16 %%h<2>;\n.reg .b32 %%r<12>;\n.reg .f32 %%f<2>;\n.reg .b64 %%a<2>;\n%s\nret;\n}\n", version, target, tt.instruction)
			_, err := Parse(text)
			return err
		}
		if err := load(tt.version, tt.target); err != nil {
			t.Errorf("%s: %v", tt.instruction, err)
		}
		if tt.older != "" {
			if err := load(tt.older, tt.target); err == nil || !strings.Contains(err.Error(), "needs version "+tt.version) {
				t.Errorf("%s under version %s: %v, want that it needs %s", tt.instruction, tt.older, err, tt.version)
			}
		}
		if tt.smaller != "" {
			if err := load("8.0", tt.smaller); err == nil || !strings.Contains(err.Error(), "needs target "+tt.target) {
				t.Errorf("%s for %s: %v, want that it needs %s", tt.instruction, tt.smaller, err, tt.target)
			}
		}
	}
}

func TestVersionsAndTargets(t *testing.T) {
	for _, tt := range []struct {
		version, target string
		want            string // "" if accepted
	}{
		{"7.8", "sm_90", ""},
		{"7.7", "sm_90", "target sm_90 needs version 7.8"},
		{"8.0", "sm_90a", ""},
		{"7.8", "sm_90a", "target sm_90a needs version 8.0"},
		{"5.0", "sm_61", ""},
		{"4.3", "sm_61", "target sm_61 needs version 5.0"},
		{"8.1", "sm_80", "version 8.1 is newer than 8.0"},
		{"7.8", "sm_99", "target sm_99 is not known"},
		{"7.8", "sm_80a", "target sm_80a is not known"},
		{"seven", "sm_80", "is not a version"},
		{"7.8", "gfx90", "is not a target"},
	} {
		_, err := Parse(fmt.Sprintf(".version %s\n.target %s\n.address_size 64\n.entry k() { ret; }", tt.version, tt.target))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf(".version %s with .target %s: %v, want %q", tt.version, tt.target, err, tt.want)
		}
	}
}

// What only sm_90a has loads there and does not run here.
func TestRefusedInstructions(t *testing.T) {
	m, err := Parse(".version 8.0\n.target sm_90a\n.address_size 64\n.entry k() {\nwgmma.fence.sync.aligned;\nret;\n}")
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Kernels[0].Launch(t.Context(), &Heap{}, Launch{})
	if want := "ptx: kernel k: line 5: wgmma.fence.sync.aligned is not simulated"; err == nil || err.Error() != want {
		t.Errorf("the launch ended with %v, want %s", err, want)
	}
}
