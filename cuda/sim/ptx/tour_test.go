package ptx

import (
	"encoding/binary"
	"math"
	"math/bits"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What clang-19 made of testdata/tour.cu does what the text says.
func TestTour(t *testing.T) {
	text, err := os.ReadFile("testdata/tour.ptx")
	if err != nil {
		t.Fatal(err)
	}
	m, err := Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	k, err := m.Kernel("tour")
	if err != nil {
		t.Fatal(err)
	}
	const n, blocks = 1000, 3
	x := make([]int32, n)
	memory := make([]byte, 4*n)
	for i := range x {
		x[i] = int32(i*i%23 - 11)
		binary.LittleEndian.PutUint32(memory[4*i:], uint32(x[i]))
	}
	y, z := make([]byte, 4*128*blocks), make([]byte, 4*128*blocks)
	scales := [3]float32{0.5, -1.25, 3}
	const less, more, bias = 17, -300, -5
	var h Heap
	p := binary.LittleEndian.AppendUint64(nil, h.Put(memory))
	p = binary.LittleEndian.AppendUint64(p, h.Put(y))
	p = binary.LittleEndian.AppendUint64(p, h.Put(z))
	p = binary.LittleEndian.AppendUint64(p, n)
	p = binary.LittleEndian.AppendUint32(p, less)
	p = binary.LittleEndian.AppendUint32(p, 0xffff&(more+1<<16))
	p = binary.LittleEndian.AppendUint64(p, 1<<64+bias)
	for _, s := range scales {
		p = binary.LittleEndian.AppendUint32(p, math.Float32bits(s))
	}
	p = append(p, make([]byte, k.ParamBytes-len(p))...)
	stats, err := k.Launch(t.Context(), &h, Launch{Grid: [3]int{blocks}, Block: [3]int{128}, SharedBytes: 512, Params: p})
	if err != nil {
		t.Fatal(err)
	}
	wantY, wantZ := make([]uint32, 0, 128*blocks), make([]uint32, 0, 128*blocks)
	for range blocks {
		for i, v := range tour(x, less, more) {
			wantY = append(wantY, uint32(v))
			quotient := float32(v) / 127 // a statement of its own: the device fuses only the product and the sum
			wantZ = append(wantZ, uint32(bits32(fma32(quotient, scales[i%3], bias))))
		}
	}
	if diff := cmp.Diff(wantY, values(y)); diff != "" {
		t.Errorf("y (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantZ, values(z)); diff != "" {
		t.Errorf("z (-want +got):\n%s", diff)
	}
	if stats.DivergentBranches == 0 || stats.Barriers != blocks || stats.ByOpcode["shfl.sync.bfly.b32"] != 128*blocks {
		t.Errorf("%d divergent branches, %d barriers, %d shuffles", stats.DivergentBranches, stats.Barriers, stats.ByOpcode["shfl.sync.bfly.b32"])
	}
}

// tour is y of a block.
func tour(x []int32, less, more int32) []int32 {
	acc := make([]int32, 128)
	for t := range acc {
		for i := t; i < len(x); i += 128 {
			acc[t] += x[i] * int32(i&3+1)
		}
	}
	sums := append([]int32(nil), acc...)
	for t := range acc {
		if acc[t] += sums[t^33]; acc[t] > 500 && t%3 == 0 {
			acc[t] = acc[t]*7 + more
		} else {
			acc[t] -= less
		}
	}
	before := append([]int32(nil), acc...)
	for t := range acc {
		v := acc[t] + before[t^16]
		v += x[v&15] ^ v
		switch v & 7 {
		case 0:
			v++
		case 1:
			v /= 3
		case 2:
			v %= 11
		case 5:
			v = -v
		case 6:
			v = int32(bits.OnesCount32(uint32(v)))
		}
		acc[t] = v
	}
	return acc
}

// The same launch counts the same, on any number of workers.
func TestStatsAreTheSameEveryTime(t *testing.T) {
	m := parse(t, sharedWords+entry(`mov.u32 %r4, s; shl.b32 %r5, %r0, 3; and.b32 %r5, %r5, 1023; add.u32 %r6, %r4, %r5;
	and.b32 %r7, %r0, 5;
LOOP:
	sub.u32 %r7, %r7, 1;
	setp.gt.s32 %p1, %r7, 0;
	@%p1 bra LOOP;
	atom.global.add.u32 %r8, [%out+512], 1;
	mov.u32 %r1, 1;`+storeR))
	var first Stats
	for i, workers := range []int{1, 2, 8} {
		_, stats, err := launch(t, m, 4*129, Launch{Grid: [3]int{16}, Block: [3]int{128}, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = stats
		}
		if diff := cmp.Diff(first, stats); diff != "" {
			t.Errorf("%d workers (-want +got):\n%s", workers, diff)
		}
	}
	if first.Instructions == 0 || first.Instructions > 32*first.WarpInstructions {
		t.Errorf("%d instructions of threads, %d of warps", first.Instructions, first.WarpInstructions)
	}
}

func BenchmarkTour(b *testing.B) {
	text, err := os.ReadFile("testdata/tour.ptx")
	if err != nil {
		b.Fatal(err)
	}
	m, err := Parse(string(text))
	if err != nil {
		b.Fatal(err)
	}
	k := m.Kernels[0]
	var h Heap
	params := make([]byte, k.ParamBytes)
	for i := range 3 {
		binary.LittleEndian.PutUint64(params[8*i:], h.Alloc(1<<16))
	}
	binary.LittleEndian.PutUint32(params[24:], 1<<14)
	var instructions uint64
	for b.Loop() {
		stats, err := k.Launch(b.Context(), &h, Launch{Grid: [3]int{16}, Block: [3]int{128}, SharedBytes: 512, Params: params, Workers: 1})
		if err != nil {
			b.Fatal(err)
		}
		instructions += stats.Instructions
	}
	b.ReportMetric(float64(instructions)/b.Elapsed().Seconds(), "thread-instructions/s")
}
