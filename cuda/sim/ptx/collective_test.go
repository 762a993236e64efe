package ptx

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func each(n int, f func(i int) uint32) []uint32 {
	v := make([]uint32, n)
	for i := range v {
		v[i] = f(i)
	}
	return v
}

func TestShuffle(t *testing.T) {
	for _, tt := range []struct {
		instruction string
		want        func(i int) uint32
	}{
		{"shfl.sync.bfly.b32 %r1|%p1, %r0, 5, 31, -1;", func(i int) uint32 { return uint32(i ^ 5) }},
		{"shfl.sync.idx.b32 %r1|%p1, %r0, 7, 31, -1;", func(int) uint32 { return 7 }},
		{"shfl.sync.up.b32 %r1|%p1, %r0, 3, 0, -1;", func(i int) uint32 {
			if i < 3 {
				return uint32(i) + 100
			}
			return uint32(i - 3)
		}},
		{"shfl.sync.down.b32 %r1|%p1, %r0, 4, 31, -1;", func(i int) uint32 {
			if i > 27 {
				return uint32(i) + 100
			}
			return uint32(i + 4)
		}},
		// A width of 8: c = (32-8)<<8 | 7.
		{"shfl.sync.down.b32 %r1|%p1, %r0, 3, 0x181f, -1;", func(i int) uint32 {
			if i%8 > 4 {
				return uint32(i) + 100
			}
			return uint32(i + 3)
		}},
		{"shfl.sync.idx.b32 %r1|%p1, %r0, 2, 0x181f, -1;", func(i int) uint32 { return uint32(i&^7 | 2) }},
	} {
		got := words(t, 32, tt.instruction+"\n@!%p1 add.u32 %r1, %r1, 100;"+storeR)
		if diff := cmp.Diff(each(32, tt.want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.instruction, diff)
		}
	}
}

func TestVotes(t *testing.T) {
	for _, tt := range []struct {
		instruction string
		want        func(i int) uint32
	}{
		{"vote.sync.ballot.b32 %r1, %p1, -1;", func(int) uint32 { return 0x0000ff00 }},
		{"vote.sync.ballot.b32 %r1, !%p1, -1;", func(int) uint32 { return 0xffff00ff }},
		{"vote.sync.any.pred %p2, %p1, -1; selp.u32 %r1, 1, 0, %p2;", func(int) uint32 { return 1 }},
		{"vote.sync.all.pred %p2, %p1, -1; selp.u32 %r1, 1, 0, %p2;", func(int) uint32 { return 0 }},
		{"vote.sync.uni.pred %p2, %p1, -1; selp.u32 %r1, 1, 0, %p2;", func(int) uint32 { return 0 }},
		{"activemask.b32 %r1;", func(int) uint32 { return 1<<32 - 1 }},
		{"mov.u32 %r1, 0; @%p1 activemask.b32 %r1;", func(i int) uint32 {
			if i >= 8 && i < 16 {
				return 0xff00
			}
			return 0
		}},
		{"redux.sync.add.s32 %r1, %r0, -1;", func(int) uint32 { return 31 * 32 / 2 }},
		{"redux.sync.max.u32 %r1, %r0, -1;", func(int) uint32 { return 31 }},
		{"redux.sync.xor.b32 %r1, %r0, -1;", func(int) uint32 { return 0 }},
		{"and.b32 %r2, %r0, 3; match.any.sync.b32 %r1, %r2, -1;", func(i int) uint32 { return 0x11111111 << (i % 4) }},
		{"match.all.sync.b32 %r1|%p2, %r0, -1; @!%p2 mov.b32 %r1, 9;", func(int) uint32 { return 9 }},
		{"mov.u32 %r1, %lanemask_lt;", func(i int) uint32 { return 1<<i - 1 }},
		{"mov.u32 %r1, %lanemask_ge;", func(i int) uint32 { return -(1 << i) }},
	} {
		got := words(t, 32, "sub.u32 %r9, %r0, 8; setp.lt.u32 %p1, %r9, 8;\n"+tt.instruction+storeR)
		if diff := cmp.Diff(each(32, tt.want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.instruction, diff)
		}
	}
}

// Two halves of a warp reduce on different sides of a branch, then all of it together.
func TestDivergedCollectives(t *testing.T) {
	got := words(t, 32, `setp.lt.u32 %p1, %r0, 16;
	@%p1 bra LOW;
	redux.sync.add.u32 %r1, %r0, 0xffff0000;
	bra JOIN;
LOW:
	redux.sync.add.u32 %r1, %r0, 0x0000ffff;
JOIN:
	redux.sync.max.u32 %r2, %r1, -1;
	sub.u32 %r1, %r2, %r1;`+storeR)
	want := each(32, func(i int) uint32 {
		if i < 16 {
			return 376 - 120
		}
		return 0
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A block of cold code behind the join jumps back to it: threads that are ahead wait in the collective.
func TestThreadsAheadWait(t *testing.T) {
	got := words(t, 32, `mov.u32 %r1, 1;
	setp.eq.u32 %p1, %r0, 9;
	@%p1 bra COLD;
JOIN:
	shfl.sync.idx.b32 %r1, %r1, 9, 31, -1;
	bra END;
COLD:
	mov.u32 %r1, 77;
	bra JOIN;
END:`+storeR)
	if diff := cmp.Diff(each(32, func(int) uint32 { return 77 }), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Collatz steps: every lane leaves the loop at a time of its own.
func TestLoopsDiverge(t *testing.T) {
	got := words(t, 100, `add.u32 %r2, %r0, 1;
	mov.u32 %r1, 0;
LOOP:
	setp.le.u32 %p1, %r2, 1;
	@%p1 bra DONE;
	and.b32 %r3, %r2, 1;
	setp.eq.u32 %p2, %r3, 0;
	@%p2 bra EVEN;
	mad.lo.u32 %r2, %r2, 3, 1;
	bra NEXT;
EVEN:
	shr.u32 %r2, %r2, 1;
NEXT:
	add.u32 %r1, %r1, 1;
	bra LOOP;
DONE:`+storeR)
	want := each(100, func(i int) (steps uint32) {
		for n := i + 1; n > 1; steps++ {
			if n%2 == 0 {
				n /= 2
			} else {
				n = 3*n + 1
			}
		}
		return steps
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The block of shared memory that tests below declare.
const sharedWords = ".shared .align 16 .b8 s[4096];\n"

func TestBarrierOrdersSharedMemory(t *testing.T) {
	const body = `mov.u32 %r4, s;
	shl.b32 %r5, %r0, 2;
	add.u32 %r6, %r4, %r5;
	mul.lo.u32 %r7, %r0, 3;
	st.shared.u32 [%r6], %r7;
	bar.sync 0;
	xor.b32 %r8, %r5, 0x84;
	add.u32 %r8, %r4, %r8;
	ld.shared.u32 %r1, [%r8];` + storeR
	m := parse(t, sharedWords+entry(body))
	b, stats, err := launch(t, m, 512, Launch{Block: [3]int{128}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(each(128, func(i int) uint32 { return uint32(i^33) * 3 }), values(b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if stats.Barriers != 1 || stats.SharedRequests != 8 || stats.SharedConflictCycles != 0 {
		t.Errorf("%d barriers, %d requests on shared memory, %d conflict cycles, want 1, 8, 0", stats.Barriers, stats.SharedRequests, stats.SharedConflictCycles)
	}
}

// A warp that makes and a warp that uses, over named barriers: nobody races.
func TestNamedBarriers(t *testing.T) {
	const body = `mov.u32 %r4, s;
	and.b32 %r5, %r0, 31;
	shl.b32 %r5, %r5, 2;
	add.u32 %r6, %r4, %r5;
	mov.u32 %r1, 5;
	setp.ge.u32 %p1, %r0, 32;
	@%p1 bra USE;
	add.u32 %r7, %r0, 1000;
	st.shared.u32 [%r6], %r7;
	bar.arrive 1, 64;
	bra END;
USE:
	bar.sync 1, 64;
	ld.shared.u32 %r1, [%r6];
END:` + storeR
	b, _, err := launch(t, parse(t, sharedWords+entry(body)), 256, Launch{Block: [3]int{64}})
	if err != nil {
		t.Fatal(err)
	}
	want := each(64, func(i int) uint32 {
		if i < 32 {
			return 5
		}
		return uint32(i - 32 + 1000)
	})
	if diff := cmp.Diff(want, values(b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Threads that have ended are not waited for.
func TestBarrierAfterExit(t *testing.T) {
	got := words(t, 96, `mov.u32 %r1, 0;
	setp.ge.u32 %p1, %r0, 40;
	@%p1 exit;
	bar.sync 0;
	mov.u32 %r1, 1;`+storeR)
	want := each(96, func(i int) uint32 {
		if i < 40 {
			return 1
		}
		return 0
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A fragment says where a lane's values lie in a matrix, as CUTLASS has it: the place, counted down the columns, is the
// sum of these strides times lane%4, lane/4, and the bits of the number of the value.
type fragmentLayout struct {
	lane   [2]int
	values []int
}

func (l fragmentLayout) place(lane, value int) int {
	at := l.lane[0]*(lane%4) + l.lane[1]*(lane/4)
	for i, stride := range l.values {
		at += stride * (value >> i & 1)
	}
	return at
}

// The layouts are those of mma_traits_sm75.hpp and mma_traits_sm80.hpp of CUTLASS, written by others than this
// interpreter: of SM80_16x8x32_S32U8S8S32_TN, for one, A ((4,8),(4,2,2)):((64,1),(16,8,256)),
// B ((4,8),(4,2)):((32,1),(8,128)) and C ((4,8),(2,2)):((32,1),(16,8)).
func TestMmaAgainstMatrices(t *testing.T) {
	for _, tt := range []struct {
		shape   string
		m, n, k int
		a, b, c fragmentLayout
	}{
		{"m16n8k32", 16, 8, 32,
			fragmentLayout{[2]int{64, 1}, []int{16, 32, 8, 256}}, fragmentLayout{[2]int{32, 1}, []int{8, 16, 128}}, fragmentLayout{[2]int{32, 1}, []int{16, 8}}},
		{"m16n8k16", 16, 8, 16,
			fragmentLayout{[2]int{64, 1}, []int{16, 32, 8}}, fragmentLayout{[2]int{32, 1}, []int{8, 16}}, fragmentLayout{[2]int{32, 1}, []int{16, 8}}},
		{"m8n8k16", 8, 8, 16,
			fragmentLayout{[2]int{32, 1}, []int{8, 16}}, fragmentLayout{[2]int{32, 1}, []int{8, 16}}, fragmentLayout{[2]int{16, 1}, []int{8}}},
	} {
		for _, types := range [][2]Type{{"s8", "s8"}, {"u8", "s8"}, {"s8", "u8"}, {"u8", "u8"}} {
			t.Run(fmt.Sprintf("%s.%s.%s", tt.shape, types[0], types[1]), func(t *testing.T) {
				checkMma(t, tt.shape, tt.m, tt.n, tt.k, types, tt.a, tt.b, tt.c)
			})
		}
	}
}

func checkMma(t *testing.T, shape string, m, n, k int, types [2]Type, la, lb, lc fragmentLayout) {
	rng := rand.New(rand.NewPCG(5, 6))
	// Matrices by columns: A of m rows, B of n rows (it is given transposed), C of m rows.
	a, b, c := make([]uint8, m*k), make([]uint8, n*k), make([]int32, m*n)
	for i := range a {
		a[i] = uint8(rng.Uint32())
	}
	for i := range b {
		b[i] = uint8(rng.Uint32())
	}
	for i := range c {
		c[i] = int32(rng.Uint32())
	}
	ra, rb, rc := m*k/128, n*k/128, m*n/32
	// Each lane's registers, as memory: A, B, C, and then D.
	data := make([]byte, 32*4*(ra+rb+2*rc))
	word := func(lane, r int) []byte { return data[4*(lane*(ra+rb+2*rc)+r):] }
	for lane := range 32 {
		for v := range 4 * ra {
			word(lane, v/4)[v%4] = a[la.place(lane, v)]
		}
		for v := range 4 * rb {
			word(lane, ra+v/4)[v%4] = b[lb.place(lane, v)]
		}
		for v := range rc {
			binary.LittleEndian.PutUint32(word(lane, ra+rb+v), uint32(c[lc.place(lane, v)]))
		}
	}
	text := ".entry k(.param .u64 p) {\n.reg .b32 %a<4>, %b<2>, %c<4>, %i;\n.reg .b64 %p, %o;\nld.param.u64 %p, [p];\nmov.u32 %i, %tid.x;\n" +
		fmt.Sprintf("mul.wide.u32 %%o, %%i, %d;\nadd.u64 %%p, %%p, %%o;\n", 4*(ra+rb+2*rc))
	list := func(name string, n, at int) string {
		s := ""
		for i := range n {
			text += fmt.Sprintf("ld.global.u32 %%%s%d, [%%p+%d];\n", name, i, 4*(at+i))
			s += fmt.Sprintf(",%%%s%d", name, i)
		}
		return "{" + s[1:] + "}"
	}
	fa, fb, fc := list("a", ra, 0), list("b", rb, ra), list("c", rc, ra+rb)
	text += fmt.Sprintf("mma.sync.aligned.%s.row.col.s32.%s.%s.s32 %s, %s, %s, %s;\n", shape, types[0], types[1], fc, fa, fb, fc)
	for i := range rc {
		text += fmt.Sprintf("st.global.u32 [%%p+%d], %%c%d;\n", 4*(ra+rb+rc+i), i)
	}
	mod := parse(t, text+"ret;\n}\n")
	var h Heap
	params := binary.LittleEndian.AppendUint64(nil, h.Put(data))
	if _, err := mod.Kernels[0].Launch(t.Context(), &h, Launch{Block: [3]int{32}, Params: params}); err != nil {
		t.Fatal(err)
	}
	for lane := range 32 {
		for v := range rc {
			at := lc.place(lane, v)
			row, col, want := at%m, at/m, c[at]
			for i := range k {
				x, y := int32(a[i*m+row]), int32(b[i*n+col])
				if types[0] == "s8" {
					x = int32(int8(x))
				}
				if types[1] == "s8" {
					y = int32(int8(y))
				}
				want += x * y
			}
			if got := int32(binary.LittleEndian.Uint32(word(lane, ra+rb+rc+v))); got != want {
				t.Fatalf("row %d, column %d: %d, want %d", row, col, got, want)
			}
		}
	}
}

func TestLdmatrix(t *testing.T) {
	// Halves count from 0 in shared memory: that of row j, column i of matrix m is 64*m + 8*j + i.
	const fill = `mov.u32 %r4, s;
	shl.b32 %r5, %r0, 4;
	add.u32 %r6, %r4, %r5;
	shl.b32 %r7, %r0, 3;
	mad.lo.u32 %r8, %r7, 0x10001, 0x10000;
	add.u32 %r9, %r8, 0x20002;
	add.u32 %r10, %r8, 0x40004;
	add.u32 %r11, %r8, 0x60006;
	st.shared.v4.u32 [%r6], {%r8, %r9, %r10, %r11};
	bar.sync 0;
`
	for _, tt := range []struct {
		trans string
		want  func(m, g, t int) uint32
	}{
		{"", func(m, g, t int) uint32 { v := uint32(64*m + 8*g + 2*t); return v | (v+1)<<16 }},
		{".trans", func(m, g, t int) uint32 { v := uint32(64*m + 16*t + g); return v | (v+8)<<16 }},
	} {
		for n := range 4 {
			body := fill + "ldmatrix.sync.aligned.m8n8.x4" + tt.trans + ".shared.b16 {%r12, %r13, %r14, %r15}, [%r6];\n" +
				fmt.Sprintf("mov.u32 %%r1, %%r%d;\n", 12+n) + storeR
			if _, _, err := launch(t, parse(t, sharedWords+entry(body)), 128, Launch{}); err == nil {
				t.Fatal("a block of one thread ran ldmatrix")
			}
			b, _, err := launch(t, parse(t, sharedWords+entry(body)), 128, Launch{Block: [3]int{32}})
			if err != nil {
				t.Fatal(err)
			}
			want := each(32, func(i int) uint32 { return tt.want(n, i/4, i%4) })
			if diff := cmp.Diff(want, values(b)); diff != "" {
				t.Errorf("x4%s, register %d (-want +got):\n%s", tt.trans, n, diff)
			}
		}
	}
}
