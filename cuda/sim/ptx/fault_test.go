package ptx

import (
	"slices"
	"testing"
)

// Faults that were planted, each on the line that holds FAULT; the second party of a race holds OTHER.
func TestPlantedFaults(t *testing.T) {
	const (
		mine   = "mov.u32 %r4, s; shl.b32 %r5, %r0, 2; add.u32 %r6, %r4, %r5;\n"
		others = "xor.b32 %r7, %r5, 128; add.u32 %r7, %r4, %r7;\n"
	)
	for _, tt := range []struct {
		name string
		kind FaultKind
		body string
		l    Launch
	}{
		{"no barrier between writing and reading", Race, mine + others + `st.shared.u32 [%r6], %r0; // OTHER
	ld.shared.u32 %r1, [%r7]; // FAULT`, Launch{Block: [3]int{64}}},
		{"no barrier between reading and writing again", Race, mine + others + `st.shared.u32 [%r6], %r0;
	bar.sync 0;
	ld.shared.u32 %r1, [%r7]; // OTHER
	st.shared.u32 [%r6], %r1; // FAULT`, Launch{Block: [3]int{64}}},
		{"two warps write", Race, "mov.u32 %r4, s;\nst.shared.u8 [%r4+3], %r0; // FAULT OTHER", Launch{Block: [3]int{64}}},
		{"a warp that is not at the barrier", Race, mine + others + `st.shared.u32 [%r6], %r0; // OTHER
	setp.lt.u32 %p1, %r0, 64;
	@!%p1 bra END;
	bar.sync 1, 64;
	bra END;
END:
	setp.lt.u32 %p2, %r0, 32;
	@%p2 exit;
	xor.b32 %r7, %r5, 256; add.u32 %r7, %r4, %r7;
	ld.shared.u32 %r1, [%r7]; // FAULT`, Launch{Block: [3]int{128}}},
		{"atomic and plain", Race, `mov.u32 %r4, s;
	setp.eq.u32 %p1, %r0, 0;
	@%p1 st.shared.u32 [%r4], 0;
	bar.sync 0;
	atom.shared.add.u32 %r1, [%r4], 1; // OTHER
	ld.shared.u32 %r2, [%r4]; // FAULT`, Launch{Block: [3]int{64}}},
		{"an atomic of one warp, read by another", Race, `mov.u32 %r4, s;
	setp.eq.u32 %p1, %r0, 0;
	@%p1 st.shared.u32 [%r4], 0;
	bar.sync 0;
	setp.lt.u32 %p2, %r0, 32;
	@%p2 atom.shared.add.u32 %r1, [%r4], 1; // OTHER
	@!%p2 ld.shared.u32 %r2, [%r4]; // FAULT`, Launch{Block: [3]int{64}}},
		{"shared memory that nobody wrote", Uninitialised, mine + `st.shared.u16 [%r6], %h1;
	ld.shared.u32 %r1, [%r6]; // FAULT`, Launch{}},
		{"a register that nobody wrote", Uninitialised, "add.u32 %r1, %r2, 1; // FAULT", Launch{}},
		{"a register that one side of a branch wrote", Uninitialised, `setp.eq.u32 %p1, %r0, 3;
	@%p1 bra SKIP;
	mov.u32 %r2, 1;
SKIP:
	add.u32 %r1, %r2, 1; // FAULT`, Launch{Block: [3]int{32}}},
		{"a predicate that nobody wrote", Uninitialised, "@%p1 mov.u32 %r1, 1; // FAULT", Launch{}},
		{"a shuffle from a lane that takes no part", Uninitialised, `setp.ge.u32 %p1, %r0, 8;
	@%p1 exit;
	shfl.sync.bfly.b32 %r1, %r0, 8, 31, 255; // FAULT`, Launch{Block: [3]int{32}}},
		{"a load behind the end", OutOfBounds, "ld.global.u32 %r1, [%out+4096]; // FAULT", Launch{}},
		{"a load before the start", OutOfBounds, "ld.global.u32 %r1, [%out+-4]; // FAULT", Launch{}},
		{"a vector half outside", OutOfBounds, "st.global.v2.u32 [%out+4088], {%r0, %r0};\nst.global.v4.u32 [%out+4096], {%r0, %r0, %r0, %r0}; // FAULT", Launch{}},
		{"a null pointer", OutOfBounds, "mov.u64 %a0, 0;\nst.global.u32 [%a0], 1; // FAULT", Launch{}},
		{"shared memory behind the end", OutOfBounds, "mov.u32 %r4, s;\nst.shared.u32 [%r4+4096], 1; // FAULT", Launch{}},
		{"local memory behind the end", OutOfBounds, ".local .b8 depot[16];\nmov.u64 %a0, depot;\nst.local.u32 [%a0+16], 1; // FAULT", Launch{}},
		{"an atomic outside", OutOfBounds, "red.global.add.u32 [%out+4096], 1; // FAULT", Launch{}},
		{"a copy outside", OutOfBounds, "mov.u32 %r4, s;\ncp.async.cg.shared.global [%r4], [%out+4096], 16; // FAULT", Launch{}},
		{"a word at 2", Misaligned, "ld.global.u32 %r1, [%out+2]; // FAULT", Launch{}},
		{"a vector at 8", Misaligned, "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%out+8]; // FAULT", Launch{}},
		{"a shared vector at 4", Misaligned, "mov.u32 %r4, s;\nst.shared.v2.u32 [%r4+4], {%r0, %r0}; // FAULT", Launch{}},
		{"a barrier on one side of a branch", BarrierDivergence, `setp.lt.u32 %p1, %r0, 7;
	@%p1 bra LOW;
	bar.sync 0; // FAULT
	bra END;
LOW:
	bar.sync 0;
END:`, Launch{Block: [3]int{32}}},
		{"a guarded barrier", BarrierDivergence, "setp.lt.u32 %p1, %r0, 7;\n@%p1 bar.sync 0; // FAULT\nbar.sync 0;", Launch{Block: [3]int{32}}},
		{"a barrier that too few reach", Deadlock, "setp.lt.u32 %p1, %r0, 32;\n@%p1 exit;\nbar.sync 0, 64; // FAULT", Launch{Block: [3]int{64}}},
		{"warps at different barriers", Deadlock, `setp.lt.u32 %p1, %r0, 32;
	@%p1 bra LOW;
	bar.sync 1;
	bra END;
LOW:
	bar.sync 0; // FAULT
END:`, Launch{Block: [3]int{64}}},
		{"a shuffle without its partners", Deadlock, `setp.lt.u32 %p1, %r0, 16;
	@%p1 exit;
	shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1; // FAULT`, Launch{Block: [3]int{32}}},
		{"a mask without the thread itself", IllegalInstruction, "shfl.sync.bfly.b32 %r1, %r0, 0, 31, 1; // FAULT", Launch{Block: [3]int{32}}},
		{"a barrier that does not exist", IllegalInstruction, "mov.u32 %r1, 16;\nbar.sync %r1; // FAULT", Launch{Block: [3]int{32}}},
		{"a trap", Trap, "trap; // FAULT", Launch{}},
		{"an endless loop", Timeout, "LOOP: bra LOOP; // FAULT", Launch{MaxInstructions: 1 << 15}},
		{"two blocks store different values", Race, "mov.u32 %r1, %ctaid.x;\nst.global.u32 [%out], %r1; // FAULT OTHER", Launch{Grid: [3]int{2}, Workers: 1}},
		{"a copy that is not waited for", Race, `mov.u32 %r4, s;
	cp.async.cg.shared.global [%r4], [%out], 16; // OTHER
	cp.async.commit_group;
	ld.shared.u32 %r1, [%r4]; // FAULT`, Launch{}},
		{"a copy that only its own thread waited for", Race, mine + others + `cp.async.ca.shared.global [%r6], [%out], 4; // OTHER
	cp.async.wait_all;
	ld.shared.u32 %r1, [%r7]; // FAULT`, Launch{Block: [3]int{64}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := sharedWords + entry("mov.b16 %h1, 1;\n"+tt.body)
			f := fault(t, text, tt.l)
			lines, want := [2]int{f.Line, f.Other}, [2]int{lineOf(t, text, "FAULT"), 0}
			if tt.kind == Race { // which of the two came first is chance
				want[1] = lineOf(t, text, "OTHER")
				slices.Sort(lines[:])
				slices.Sort(want[:])
			}
			if f.Kind != tt.kind || lines != want {
				t.Errorf("%v, want %s at lines %v", f, tt.kind, want)
			}
		})
	}
}

// Whatever the workers do first, the fault of the first block is told.
func TestTheFirstBlockIsToBlame(t *testing.T) {
	text := entry("mov.u32 %r1, %ctaid.x;\nsetp.lt.u32 %p1, %r1, 5;\n@%p1 exit;\nld.global.u32 %r1, [%out+5000]; // FAULT")
	for range 20 {
		f := fault(t, text, Launch{Grid: [3]int{64}, Block: [3]int{40}, Workers: 4})
		if f.Block != [3]int{5} || f.Thread != [3]int{} || f.Address == 0 {
			t.Fatalf("%v, want block [5 0 0] and thread [0 0 0]", f)
		}
	}
}

func TestFaultSaysWhere(t *testing.T) {
	f := fault(t, entry("mov.u32 %r2, %tid.y; mad.lo.u32 %r0, %r2, 8, %r0;\nsetp.ne.u32 %p1, %r0, 37;\n@!%p1 trap;"), Launch{Grid: [3]int{2, 2}, Block: [3]int{8, 8}})
	want := `ptx: kernel k: trap in block [0 0 0], thread [5 4 0], at line 15: "@!%p1 trap;"`
	if f.Error() != want {
		t.Errorf("%q, want %q", f.Error(), want)
	}
}

// What a barrier orders is no race, nor is what one warp does alone.
func TestNoFalseAlarm(t *testing.T) {
	for name, body := range map[string]string{
		"bytes of a word by several warps": `mov.u32 %r4, s;
	shr.u32 %r5, %r0, 5;
	and.b32 %r6, %r0, 31;
	shl.b32 %r6, %r6, 2;
	add.u32 %r6, %r6, %r5;
	add.u32 %r6, %r6, %r4;
	st.shared.u8 [%r6], %r0;
	bar.sync 0;
	shl.b32 %r7, %r0, 2;
	and.b32 %r7, %r7, 127;
	add.u32 %r7, %r7, %r4;
	ld.shared.u32 %r1, [%r7];
	bar.sync 0;
	setp.lt.u32 %p1, %r0, 32;
	@%p1 st.shared.u32 [%r7], %r1;
	bar.sync 0;
	ld.shared.u8 %r1, [%r7+1];`,
		"blocks that store the same": "st.global.u32 [%out], 7;",
		"a loop that turns buffers": `mov.u32 %r4, s;
	mov.u32 %r8, 0;
LOOP:
	and.b32 %r9, %r8, 1;
	shl.b32 %r9, %r9, 9;
	shl.b32 %r5, %r0, 2;
	add.u32 %r6, %r5, %r9;
	add.u32 %r6, %r6, %r4;
	st.shared.u32 [%r6], %r0;
	bar.sync 0;
	xor.b32 %r7, %r5, 128;
	add.u32 %r7, %r7, %r9;
	add.u32 %r7, %r7, %r4;
	ld.shared.u32 %r1, [%r7];
	add.u32 %r8, %r8, 1;
	setp.lt.u32 %p1, %r8, 6;
	@%p1 bra LOOP;`,
	} {
		if _, _, err := launch(t, parse(t, sharedWords+entry(body)), 4096, Launch{Grid: [3]int{3}, Block: [3]int{128}, Workers: 1}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
