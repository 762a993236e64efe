package ptx

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every width and vector goes to global, shared and local memory and comes back, by its space and by generic addresses.
func TestLoadsAndStores(t *testing.T) {
	for _, tt := range []struct {
		suffix string
		n      int
		value  string
		want   uint32 // of the last element, as 32 bits
	}{
		{"u8", 1, "0x1ff", 0xff},
		{"s8", 1, "0x1ff", 0xffffffff},
		{"u16", 1, "0x18000", 0x8000},
		{"s16", 1, "0x18000", 0xffff8000},
		{"u32", 1, "0x12345678", 0x12345678},
		{"v2.u32", 2, "0x12345678", 0x12345678},
		{"v4.u32", 4, "0x12345678", 0x12345678},
		{"v4.u8", 4, "0x1ab", 0xab},
		{"v2.s16", 2, "0x1ffff", 0xffffffff},
	} {
		for _, where := range []struct{ name, space, address string }{
			{"global", ".global", "add.s64 %a1, %out, %a0;"},
			{"shared", ".shared", "mov.u64 %a1, s; add.s64 %a1, %a1, %a0;"},
			{"local", ".local", "mov.u64 %a1, depot;"},
			{"generic to global", "", "add.s64 %a1, %out, %a0; cvta.global.u64 %a1, %a1;"},
			{"generic to shared", "", "mov.u64 %a1, s; add.s64 %a1, %a1, %a0; cvta.shared.u64 %a1, %a1;"},
			{"generic to local", "", "mov.u64 %a1, depot; cvta.local.u64 %a1, %a1;"},
		} {
			t.Run(tt.suffix+" in "+where.name, func(t *testing.T) {
				regs, back := "%r2", "%r1"
				if tt.n > 1 {
					regs, back = "{%r3, %r2}", "{%r4, %r1}"
				}
				if tt.n == 4 {
					regs, back = "{%r3, %r3, %r3, %r2}", "{%r4, %r5, %r6, %r1}"
				}
				text := sharedWords + entry(`.local .align 16 .b8 depot[32];
	mul.wide.u32 %a0, %r0, 16;
	mov.u32 %r2, `+tt.value+`;
	mov.u32 %r3, 0;
	`+where.address+`
	st`+where.space+"."+tt.suffix+` [%a1], `+regs+`;
	ld`+where.space+"."+tt.suffix+" "+back+`, [%a1];
	bar.sync 0;
	`+storeR)
				// 2 threads: the places of the accesses and of the results do not meet, as the results come last.
				b, _, err := launch(t, parse(t, text), 64, Launch{Block: [3]int{2}})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]uint32{tt.want, tt.want}, values(b[:8])); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestVariablesOfTheModule(t *testing.T) {
	text := `.visible .const .align 4 .b8 tab[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4};
.global .align 4 .u32 calls = 40;
.global .align 8 .f32 zero;
` + entry(`mul.wide.u32 %a0, %r0, 4;
	mov.u64 %a1, tab;
	add.s64 %a1, %a1, %a0;
	ld.const.u32 %r1, [%a1];
	ld.const.u32 %r2, [tab+8];
	add.u32 %r1, %r1, %r2;
	ld.global.f32 %f0, [zero];
	mov.b32 %r5, %f0;
	atom.global.add.u32 %r3, [calls], 1;
	mad.lo.u32 %r1, %r3, 100, %r1;
	add.u32 %r1, %r1, %r5;`+storeR)
	m := parse(t, text)
	for run := range 2 { // .global variables live as long as the module
		b, _, err := launch(t, m, 16, Launch{Block: [3]int{4}})
		if err != nil {
			t.Fatal(err)
		}
		want := each(4, func(i int) uint32 { return uint32(100*(40+4*run+i) + 3 + i + 1) })
		if diff := cmp.Diff(want, values(b)); diff != "" {
			t.Errorf("run %d (-want +got):\n%s", run, diff)
		}
	}
}

func TestParameters(t *testing.T) {
	m := parse(t, `.visible .entry k(.param .u8 a, .param .align 8 .b8 s[12], .param .f32 f, .param .u64 .ptr .global .align 4 p)
.maxntid 64, 2, 1
.minnctapersm 3
.maxnreg 96
{
	.reg .b32 %r<4>;
	.reg .f32 %f;
	.reg .b64 %a<3>;
	ld.param.u8 %r0, [a];
	mov.b64 %a0, s;
	add.u64 %a0, %a0, 4;
	ld.param.u32 %r1, [%a0+4];
	ld.param.f32 %f, [f];
	ld.param.u64 %a1, [p];
	add.u32 %r0, %r0, %r1;
	st.global.u32 [%a1], %r0;
	st.global.f32 [%a1+4], %f;
	ret;
}
`)
	k := m.Kernels[0]
	want := []Param{{"a", "u8", 1, 1, 0}, {"s", "b8", 12, 8, 8}, {"f", "f32", 4, 4, 20}, {"p", "u64", 8, 8, 24}}
	if diff := cmp.Diff(want, k.Params); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if k.ParamBytes != 32 || k.MaxThreads != [3]int{64, 2, 1} || k.MinBlocks != 3 || k.MaxRegisters != 96 {
		t.Errorf("%d bytes, at most %v threads, %d blocks, %d registers, want 32, [64 2 1], 3, 96", k.ParamBytes, k.MaxThreads, k.MinBlocks, k.MaxRegisters)
	}
	params := make([]byte, 32)
	params[0] = 200
	binary.LittleEndian.PutUint32(params[8+8:], 1000)
	binary.LittleEndian.PutUint32(params[20:], uint32(bits32(1.5)))
	var h Heap
	b := make([]byte, 8)
	binary.LittleEndian.PutUint64(params[24:], h.Put(b))
	if _, err := k.Launch(t.Context(), &h, Launch{Params: params}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]uint32{1200, uint32(bits32(1.5))}, values(b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSharedMemoryIsLaidOut(t *testing.T) {
	m := parse(t, `.shared .align 4 .b8 unused[1000];
.shared .align 4 .b8 a[12];
.extern .shared .align 8 .b8 dyn[];
.shared .align 8 .b8 b[8];
`+entry(`mov.u32 %r1, a; mov.u32 %r2, b; mov.u32 %r3, dyn;
	mad.lo.u32 %r1, %r2, 100, %r1;
	mad.lo.u32 %r1, %r3, 10000, %r1;`+storeR))
	if got := m.Kernels[0].SharedBytes; got != 32 {
		t.Errorf("%d bytes of static shared memory, want 32: 12, to 16, 8, to 32", got)
	}
	b, _, err := launch(t, m, 4, Launch{SharedBytes: 64})
	if err != nil {
		t.Fatal(err)
	}
	if got := values(b)[0]; got != 321600 {
		t.Errorf("the offsets together are %d, want 321600: 0, 16 and 32", got)
	}
}

func TestAtomics(t *testing.T) {
	for _, tt := range []struct {
		instruction string
		start, want uint32
	}{
		{"red.global.add.u32 [%out], %r0;", 5, 5 + 63*64/2},
		{"red.global.add.s32 [%out], -1;", 5, 1<<32 - 59},
		{"red.relaxed.gpu.global.max.u32 [%out], %r0;", 5, 63},
		{"red.global.min.s32 [%out], %r2;", 5, 1<<32 - 63},
		{"atom.global.or.b32 %r1, [%out], %r0;", 64, 127},
		{"atom.global.and.b32 %r1, [%out], %r0;", 255, 0},
		{"atom.global.xor.b32 %r1, [%out], 3;", 9, 9},
		{"atom.global.inc.u32 %r1, [%out], 9;", 0, 4},
		{"atom.global.dec.u32 %r1, [%out], 9;", 0, 6},
		{"atom.global.cas.b32 %r1, [%out], %r0, %r3;", 0, 64},
		{"atom.add.u32 %r1, [%out], 1;", 0, 64}, // a generic address
	} {
		t.Run(tt.instruction, func(t *testing.T) {
			m := parse(t, entry("neg.s32 %r2, %r0; add.u32 %r3, %r0, 1;\n"+tt.instruction))
			var h Heap
			b := binary.LittleEndian.AppendUint32(nil, tt.start)
			params := binary.LittleEndian.AppendUint64(nil, h.Put(b))
			if _, err := m.Kernels[0].Launch(t.Context(), &h, Launch{Block: [3]int{64}, Params: params}); err != nil {
				t.Fatal(err)
			}
			if got := values(b)[0]; got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}

// Blocks on several workers add up, in shared memory and then in global memory.
func TestAtomicsOfManyBlocks(t *testing.T) {
	m := parse(t, sharedWords+entry(`setp.ne.u32 %p1, %r0, 0;
	@!%p1 st.shared.u32 [s], 0;
	bar.sync 0;
	atom.shared.add.u32 %r1, [s], 1;
	bar.sync 0;
	@%p1 bra END;
	ld.shared.u32 %r2, [s];
	red.global.add.u32 [%out], %r2;
END:`))
	for _, workers := range []int{1, 4} {
		b, stats, err := launch(t, m, 4, Launch{Grid: [3]int{5, 3, 2}, Block: [3]int{96}, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		if got := values(b)[0]; got != 30*96 || stats.Blocks != 30 || stats.Threads != 30*96 {
			t.Errorf("%d workers: %d threads added, %d blocks and %d threads counted, want 2880, 30, 2880", workers, got, stats.Blocks, stats.Threads)
		}
	}
}

// A pipeline of two stages, and the mistake of waiting for one copy too few.
func TestCpAsync(t *testing.T) {
	body := func(left int) string {
		return fmt.Sprintf(`mul.wide.u32 %%a0, %%r0, 16;
	add.s64 %%a1, %%out, %%a0;
	mov.u32 %%r4, s;
	shl.b32 %%r5, %%r0, 4;
	add.u32 %%r6, %%r4, %%r5;
	cp.async.cg.shared.global [%%r6], [%%a1], 16;
	cp.async.commit_group;
	cp.async.ca.shared.global [%%r6+512], [%%a1+4], 4;
	cp.async.ca.shared.global [%%r6+516], [%%a1+4], 4, 0; // zeros
	cp.async.commit_group;
	cp.async.wait_group %d;
	bar.sync 0;
	xor.b32 %%r5, %%r5, 0x1f0;
	add.u32 %%r6, %%r4, %%r5;
	ld.shared.v4.u32 {%%r1, %%r2, %%r3, %%r7}, [%%r6]; // FIRST
	add.u32 %%r1, %%r1, %%r7;
	ld.shared.v2.u32 {%%r8, %%r9}, [%%r6+512]; // SECOND
	mad.lo.u32 %%r1, %%r8, 1000, %%r1;
	add.u32 %%r1, %%r1, %%r9;`, left) + storeR
	}
	run := func(left int) ([]uint32, error) {
		m := parse(t, sharedWords+entry(body(left)))
		var h Heap
		b := make([]byte, 512)
		for i := range 128 {
			binary.LittleEndian.PutUint32(b[4*i:], uint32(i))
		}
		params := binary.LittleEndian.AppendUint64(nil, h.Put(b))
		_, err := m.Kernels[0].Launch(t.Context(), &h, Launch{Block: [3]int{32}, Params: params})
		return values(b), err
	}
	got, err := run(0)
	if err != nil {
		t.Fatal(err)
	}
	want := each(32, func(i int) uint32 { n := uint32(31 - i); return 4*n + 4*n + 3 + 1000*(4*n+1) })
	if diff := cmp.Diff(want, got[:32]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err = run(1)
	f, ok := err.(*Fault)
	if !ok || f.Kind != Race || f.Line != lineOf(t, sharedWords+entry(body(1)), "SECOND") || f.Other != lineOf(t, sharedWords+entry(body(1)), "+512], [%a1+4]") {
		t.Errorf("waiting for one group of two ended with %v", err)
	}
}

func TestSectorsAndBanks(t *testing.T) {
	for _, tt := range []struct {
		name      string
		body      string
		sectors   uint64
		conflicts uint64
	}{
		{"a warp side by side", "mul.wide.u32 %a0, %r0, 4; add.s64 %a0, %a0, %out; ld.global.u32 %r1, [%a0];", 4, 0},
		{"16 bytes a thread", "mul.wide.u32 %a0, %r0, 16; add.s64 %a0, %a0, %out; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%a0];", 16, 0},
		{"32 bytes apart", "mul.wide.u32 %a0, %r0, 32; add.s64 %a0, %a0, %out; ld.global.u32 %r1, [%a0];", 32, 0},
		{"all the same", "ld.global.u32 %r1, [%out];", 1, 0},
		{"backwards", "xor.b32 %r2, %r0, 31; mul.wide.u32 %a0, %r2, 4; add.s64 %a0, %a0, %out; ld.global.u32 %r1, [%a0];", 4, 0},
		{"words of 32 banks", "shl.b32 %r2, %r0, 2; mov.u32 %r3, s; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], 0;", 0, 0},
		{"every other word", "shl.b32 %r2, %r0, 3; mov.u32 %r3, s; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], 0;", 0, 1},
		{"one bank", "shl.b32 %r2, %r0, 7; mov.u32 %r3, s; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], 0;", 0, 31},
		{"16 bytes a thread of shared memory", "shl.b32 %r2, %r0, 4; mov.u32 %r3, s; add.u32 %r2, %r2, %r3; st.shared.v4.u32 [%r2], {%r0, %r0, %r0, %r0};", 0, 0},
		{"16 bytes 32 apart", "shl.b32 %r2, %r0, 5; mov.u32 %r3, s; add.u32 %r2, %r2, %r3; st.shared.v4.u32 [%r2], {%r0, %r0, %r0, %r0};", 0, 4},
	} {
		_, stats, err := launch(t, parse(t, sharedWords+entry(tt.body)), 1024, Launch{Block: [3]int{32}})
		if err != nil {
			t.Fatal(err)
		}
		if stats.GlobalLoads.Sectors != tt.sectors || stats.SharedConflictCycles != tt.conflicts {
			t.Errorf("%s: %d sectors and %d conflict cycles, want %d and %d", tt.name, stats.GlobalLoads.Sectors, stats.SharedConflictCycles, tt.sectors, tt.conflicts)
		}
	}
}

func TestMovesOfVectors(t *testing.T) {
	got := words(t, 2, `mov.b32 {%h0, %h1}, 0x12345678;
	mov.b32 %r2, {%h1, %h0};
	mov.b64 %a1, {%r2, %r0};
	mov.b64 {%r3, %r4}, %a1;
	add.u32 %r1, %r3, %r4;`+storeR)
	if diff := cmp.Diff([]uint32{0x56781234, 0x56781235}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSpecialRegisters(t *testing.T) {
	m := parse(t, entry(`mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %nctaid.x; mov.u32 %r6, %warpid;
	mad.lo.u32 %r7, %r3, 48, %r0; // the place of the result
	mad.lo.u32 %r8, %r1, 4, 0;
	mad.lo.u32 %r8, %r2, 12, %r8;
	add.u32 %r7, %r7, %r8;
	mul.wide.u32 %a0, %r7, 4;
	add.s64 %a0, %a0, %out;
	mad.lo.u32 %r1, %r1, 10, %r0;
	mad.lo.u32 %r1, %r2, 100, %r1;
	mad.lo.u32 %r1, %r3, 1000, %r1;
	mad.lo.u32 %r1, %r4, 10000, %r1;
	mad.lo.u32 %r1, %r5, 100000, %r1;
	mad.lo.u32 %r1, %r6, 1000000, %r1;
	st.global.u32 [%a0], %r1;`))
	b, _, err := launch(t, m, 4*96, Launch{Grid: [3]int{2}, Block: [3]int{4, 3, 4}})
	if err != nil {
		t.Fatal(err)
	}
	want := each(96, func(i int) uint32 {
		thread := i % 48
		return uint32(thread%4 + 10*(thread/4%3) + 100*(thread/12) + 1000*(i/48) + 10000*4 + 100000*2 + 1000000*(thread/32))
	})
	if diff := cmp.Diff(want, values(b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLaunchesThatNoDeviceAccepts(t *testing.T) {
	m := parse(t, ".entry k(.param .u64 p) .maxntid 128 { ret; }")
	ok := Launch{Block: [3]int{128}, Params: make([]byte, 8)}
	for name, change := range map[string]func(l *Launch){
		"more threads than .maxntid": func(l *Launch) { l.Block[1] = 2 },
		"too few parameters":         func(l *Launch) { l.Params = l.Params[:4] },
		"too much shared memory":     func(l *Launch) { l.SharedBytes = 228 << 10 },
		"a grid too high":            func(l *Launch) { l.Grid[1] = 1 << 16 },
	} {
		l := ok
		change(&l)
		if _, err := m.Kernels[0].Launch(t.Context(), &Heap{}, l); err == nil {
			t.Errorf("%s: the launch was accepted", name)
		}
	}
	if _, err := m.Kernels[0].Launch(t.Context(), &Heap{}, ok); err != nil {
		t.Error(err)
	}
	if _, err := m.Kernel("other"); err == nil {
		t.Error("a kernel was found that does not exist")
	}
}

func TestLaunchEndsWithItsContext(t *testing.T) {
	m := parse(t, entry("LOOP: bra LOOP;"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var h Heap
	_, err := m.Kernels[0].Launch(ctx, &h, Launch{Grid: [3]int{4}, Params: make([]byte, 8)})
	if err == nil || err.Error() != "ptx: kernel k: context canceled" {
		t.Errorf("the launch ended with %v", err)
	}
}
