package ptx

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// operands are values at which integer arithmetic goes wrong, and some more.
func operands() [][3]uint64 {
	special := []uint64{0, 1, 2, 31, 32, 33, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
		0x80808080, 0x7f80ff01, 1<<63 - 1, 1 << 63, 1<<64 - 1}
	var rows [][3]uint64
	rng := rand.New(rand.NewPCG(1, 2))
	for i, a := range special {
		for _, b := range special {
			rows = append(rows, [3]uint64{a, b, special[(i+7)%len(special)]})
		}
	}
	for range 400 {
		rows = append(rows, [3]uint64{rng.Uint64(), rng.Uint64(), rng.Uint64()})
	}
	return rows
}

// in32 makes a reference on int32 one on registers.
func in32(f func(a, b, c int32) int32) func(a, b, c uint64) uint64 {
	return func(a, b, c uint64) uint64 { return uint64(uint32(f(int32(a), int32(b), int32(c)))) }
}

func inU32(f func(a, b, c uint32) uint32) func(a, b, c uint64) uint64 {
	return func(a, b, c uint64) uint64 { return uint64(f(uint32(a), uint32(b), uint32(c))) }
}

func in16(f func(a, b, c int16) int16) func(a, b, c uint64) uint64 {
	return func(a, b, c uint64) uint64 { return uint64(uint16(f(int16(a), int16(b), int16(c)))) }
}

func clampBig(v, low, high int64) int64 { return max(low, min(v, high)) }

func TestIntegerArithmetic(t *testing.T) {
	for _, tt := range []struct {
		instruction string
		d, a, b, c  Type
		want        func(a, b, c uint64) uint64
	}{
		{"add.s32 d, a, b;", "b32", "b32", "b32", "b32", in32(func(a, b, _ int32) int32 { return a + b })},
		{"add.u16 d, a, b;", "b16", "b16", "b16", "b16", in16(func(a, b, _ int16) int16 { return a + b })},
		{"add.s64 d, a, b;", "b64", "b64", "b64", "b64", func(a, b, _ uint64) uint64 { return a + b }},
		{"add.sat.s32 d, a, b;", "b32", "b32", "b32", "b32", in32(func(a, b, _ int32) int32 {
			return int32(clampBig(int64(a)+int64(b), math.MinInt32, math.MaxInt32))
		})},
		{"sub.s32 d, a, b;", "b32", "b32", "b32", "b32", in32(func(a, b, _ int32) int32 { return a - b })},
		{"sub.sat.s32 d, a, b;", "b32", "b32", "b32", "b32", in32(func(a, b, _ int32) int32 {
			return int32(clampBig(int64(a)-int64(b), math.MinInt32, math.MaxInt32))
		})},
		{"sub.u64 d, a, b;", "b64", "b64", "b64", "b64", func(a, b, _ uint64) uint64 { return a - b }},
		{"mul.lo.s32 d, a, b;", "b32", "b32", "b32", "b32", in32(func(a, b, _ int32) int32 { return a * b })},
		{"mul.lo.s16 d, a, b;", "b16", "b16", "b16", "b16", in16(func(a, b, _ int16) int16 { return a * b })},
		{"mul.hi.s32 d, a, b;", "b32", "b32", "b32", "b32", in32(func(a, b, _ int32) int32 { return int32(int64(a) * int64(b) >> 32) })},
		{"mul.hi.u32 d, a, b;", "b32", "b32", "b32", "b32", inU32(func(a, b, _ uint32) uint32 { return uint32(uint64(a) * uint64(b) >> 32) })},
		{"mul.hi.s64 d, a, b;", "b64", "b64", "b64", "b64", func(a, b, _ uint64) uint64 {
			p := new(big.Int).Mul(big.NewInt(int64(a)), big.NewInt(int64(b)))
			return new(big.Int).And(p.Rsh(p, 64), new(big.Int).SetUint64(math.MaxUint64)).Uint64()
		}},
		{"mul.hi.u64 d, a, b;", "b64", "b64", "b64", "b64", func(a, b, _ uint64) uint64 { hi, _ := bits.Mul64(a, b); return hi }},
		{"mul.wide.s32 d, a, b;", "b64", "b32", "b32", "b32", func(a, b, _ uint64) uint64 { return uint64(int64(int32(a)) * int64(int32(b))) }},
		{"mul.wide.u32 d, a, b;", "b64", "b32", "b32", "b32", func(a, b, _ uint64) uint64 { return uint64(uint32(a)) * uint64(uint32(b)) }},
		{"mul.wide.s16 d, a, b;", "b32", "b16", "b16", "b32", func(a, b, _ uint64) uint64 { return uint64(uint32(int32(int16(a)) * int32(int16(b)))) }},
		{"mul.wide.u16 d, a, b;", "b32", "b16", "b16", "b32", func(a, b, _ uint64) uint64 { return uint64(uint32(uint16(a)) * uint32(uint16(b))) }},
		{"mad.lo.s32 d, a, b, c;", "b32", "b32", "b32", "b32", in32(func(a, b, c int32) int32 { return a*b + c })},
		{"mad.hi.u32 d, a, b, c;", "b32", "b32", "b32", "b32", inU32(func(a, b, c uint32) uint32 { return uint32(uint64(a)*uint64(b)>>32) + c })},
		{"mad.hi.sat.s32 d, a, b, c;", "b32", "b32", "b32", "b32", in32(func(a, b, c int32) int32 {
			return int32(clampBig(int64(a)*int64(b)>>32+int64(c), math.MinInt32, math.MaxInt32))
		})},
		{"mad.wide.s32 d, a, b, c;", "b64", "b32", "b32", "b64", func(a, b, c uint64) uint64 { return uint64(int64(int32(a))*int64(int32(b))) + c }},
		{"mad.wide.u32 d, a, b, c;", "b64", "b32", "b32", "b64", func(a, b, c uint64) uint64 { return uint64(uint32(a))*uint64(uint32(b)) + c }},
		{"div.s32 d, a, b;", "b32", "b32", "b32", "b32", in32(func(a, b, _ int32) int32 {
			if b == 0 {
				return -1
			}
			return a / b
		})},
		{"div.u64 d, a, b;", "b64", "b64", "b64", "b64", func(a, b, _ uint64) uint64 {
			if b == 0 {
				return math.MaxUint64
			}
			return a / b
		}},
		{"rem.s32 d, a, b;", "b32", "b32", "b32", "b32", in32(func(a, b, _ int32) int32 {
			if b == 0 {
				return a
			}
			return a % b
		})},
		{"min.s32 d, a, b;", "b32", "b32", "b32", "b32", in32(func(a, b, _ int32) int32 { return min(a, b) })},
		{"max.u32 d, a, b;", "b32", "b32", "b32", "b32", inU32(func(a, b, _ uint32) uint32 { return max(a, b) })},
		{"max.s16 d, a, b;", "b16", "b16", "b16", "b16", in16(func(a, b, _ int16) int16 { return max(a, b) })},
		{"min.s64 d, a, b;", "b64", "b64", "b64", "b64", func(a, b, _ uint64) uint64 { return uint64(min(int64(a), int64(b))) }},
		{"abs.s32 d, a;", "b32", "b32", "b32", "b32", in32(func(a, _, _ int32) int32 {
			if a < 0 {
				return -a
			}
			return a
		})},
		{"neg.s16 d, a;", "b16", "b16", "b16", "b16", in16(func(a, _, _ int16) int16 { return -a })},
		{"sad.s32 d, a, b, c;", "b32", "b32", "b32", "b32", in32(func(a, b, c int32) int32 { return c + absDifference(a, b) })},
		{"popc.b64 d, a;", "b32", "b64", "b32", "b32", func(a, _, _ uint64) uint64 { return uint64(bits.OnesCount64(a)) }},
		{"clz.b32 d, a;", "b32", "b32", "b32", "b32", func(a, _, _ uint64) uint64 { return uint64(bits.LeadingZeros32(uint32(a))) }},
		{"brev.b32 d, a;", "b32", "b32", "b32", "b32", func(a, _, _ uint64) uint64 { return uint64(bits.Reverse32(uint32(a))) }},
		{"bfind.u32 d, a;", "b32", "b32", "b32", "b32", func(a, _, _ uint64) uint64 { return uint64(uint32(bits.Len32(uint32(a)) - 1)) }},
		{"bfind.s32 d, a;", "b32", "b32", "b32", "b32", func(a, _, _ uint64) uint64 {
			v := uint32(a)
			if int32(v) < 0 {
				v = ^v
			}
			return uint64(uint32(bits.Len32(v) - 1))
		}},
		{"bfe.u32 d, a, b, c;", "b32", "b32", "b32", "b32", func(a, b, c uint64) uint64 { return bfe(uint64(uint32(a)), b, c, 32, false) }},
		{"bfe.s32 d, a, b, c;", "b32", "b32", "b32", "b32", func(a, b, c uint64) uint64 { return bfe(uint64(uint32(a)), b, c, 32, true) }},
		{"bfe.s64 d, a, b, c;", "b64", "b64", "b32", "b32", func(a, b, c uint64) uint64 { return bfe(a, b, c, 64, true) }},
		{"bfi.b32 d, a, b, c, 5;", "b32", "b32", "b32", "b32", func(a, b, c uint64) uint64 {
			v := uint32(b)
			for i := range uint64(5) { // bit by bit, as the PTX ISA has it
				if at := c&0xff + i; at < 32 {
					v = v&^(1<<at) | uint32(a>>i&1)<<at
				}
			}
			return uint64(v)
		}},
		{"shl.b32 d, a, b;", "b32", "b32", "b32", "b32", inU32(func(a, b, _ uint32) uint32 { return a << b })},
		{"shr.u32 d, a, b;", "b32", "b32", "b32", "b32", inU32(func(a, b, _ uint32) uint32 { return a >> b })},
		{"shr.s32 d, a, b;", "b32", "b32", "b32", "b32", func(a, b, _ uint64) uint64 { return uint64(uint32(int32(a) >> uint32(b))) }},
		{"shr.s64 d, a, b;", "b64", "b64", "b32", "b32", func(a, b, _ uint64) uint64 { return uint64(int64(a) >> uint32(b)) }},
		{"shl.b16 d, a, b;", "b16", "b16", "b32", "b32", func(a, b, _ uint64) uint64 { return uint64(uint16(a) << uint32(b)) }},
		{"shf.l.wrap.b32 d, a, b, c;", "b32", "b32", "b32", "b32", inU32(func(a, b, c uint32) uint32 {
			return uint32((uint64(b)<<32 | uint64(a)) << (c & 31) >> 32)
		})},
		{"shf.r.clamp.b32 d, a, b, c;", "b32", "b32", "b32", "b32", inU32(func(a, b, c uint32) uint32 {
			return uint32((uint64(b)<<32 | uint64(a)) >> min(c, 32))
		})},
		{"and.b64 d, a, b;", "b64", "b64", "b64", "b64", func(a, b, _ uint64) uint64 { return a & b }},
		{"or.b16 d, a, b;", "b16", "b16", "b16", "b16", in16(func(a, b, _ int16) int16 { return a | b })},
		{"xor.b32 d, a, b;", "b32", "b32", "b32", "b32", inU32(func(a, b, _ uint32) uint32 { return a ^ b })},
		{"not.b16 d, a;", "b16", "b16", "b16", "b16", in16(func(a, _, _ int16) int16 { return ^a })},
		{"cnot.b32 d, a;", "b32", "b32", "b32", "b32", inU32(func(a, _, _ uint32) uint32 {
			if a == 0 {
				return 1
			}
			return 0
		})},
		{"bmsk.clamp.b32 d, a, b;", "b32", "b32", "b32", "b32", inU32(func(a, b, _ uint32) uint32 {
			return uint32((uint64(1)<<min(b, 32) - 1) << min(a, 32))
		})},
		{"szext.wrap.s32 d, a, b;", "b32", "b32", "b32", "b32", inU32(func(a, b, _ uint32) uint32 {
			if b &= 31; b == 0 {
				return 0
			}
			return uint32(int32(a<<(32-b)) >> (32 - b))
		})},
		{"dp4a.s32.s32 d, a, b, c;", "b32", "b32", "b32", "b32", dot(8, 8, true, true)},
		{"dp4a.s32.u32 d, a, b, c;", "b32", "b32", "b32", "b32", dot(8, 8, true, false)},
		{"dp4a.u32.s32 d, a, b, c;", "b32", "b32", "b32", "b32", dot(8, 8, false, true)},
		{"dp4a.u32.u32 d, a, b, c;", "b32", "b32", "b32", "b32", dot(8, 8, false, false)},
		{"dp2a.lo.s32.u32 d, a, b, c;", "b32", "b32", "b32", "b32", dot(16, 8, true, false)},
		{"dp2a.hi.u32.s32 d, a, b, c;", "b32", "b32", "b32", "b32", func(a, b, c uint64) uint64 { return dot(16, 8, false, true)(a, b>>16, c) }},
	} {
		t.Run(tt.instruction, func(t *testing.T) {
			compare(t, tt.instruction, tt.d, tt.a, tt.b, tt.c, operands(), tt.want)
		})
	}
}

// compare runs an instruction on rows of operands against a reference.
func compare(t *testing.T, instruction string, d, a, b, c Type, rows [][3]uint64, want func(a, b, c uint64) uint64) {
	t.Helper()
	for i := range rows {
		for j, typ := range []Type{a, b, c} {
			if typ != "pred" {
				rows[i][j] &= typ.mask()
			}
		}
	}
	for len(rows) > 0 {
		n := min(len(rows), maxBlock)
		got := evaluate(t, instruction, d, a, b, c, rows[:n])
		for i, row := range rows[:n] {
			if w := want(row[0], row[1], row[2]); got[i] != w {
				t.Fatalf("%s of %#x gave %#x, want %#x", instruction, row, got[i], w)
			}
		}
		rows = rows[n:]
	}
}

// bfe is the pseudo-code of the PTX ISA.
func bfe(a, pos, length uint64, width int, isSigned bool) uint64 {
	pos, length = pos&0xff, length&0xff
	bit := func(i uint64) uint64 { return a >> i & 1 }
	var sign uint64
	if isSigned && length > 0 {
		sign = bit(min(pos+length-1, uint64(width-1)))
	}
	var d uint64
	for i := range uint64(width) {
		v := sign
		if i < length && pos+i < uint64(width) {
			v = bit(pos + i)
		}
		d |= v << i
	}
	return d
}

// dot is dp4a and dp2a of the lower bytes: 32 bits of a in parts of na bits, times as many parts of b of nb bits.
func dot(na, nb int, signedA, signedB bool) func(a, b, c uint64) uint64 {
	part := func(v uint64, n, i int, isSigned bool) int64 {
		x := int64(v >> (n * i) & (1<<n - 1))
		if isSigned && x >= 1<<(n-1) {
			x -= 1 << n
		}
		return x
	}
	return func(a, b, c uint64) uint64 {
		sum := int64(int32(c))
		for i := range 32 / na {
			sum += part(a, na, i, signedA) * part(b, nb, i, signedB)
		}
		return uint64(uint32(sum))
	}
}

func TestLop3(t *testing.T) {
	for table := range 256 {
		instruction := fmt.Sprintf("lop3.b32 d, a, b, c, %d;", table)
		rows := [][3]uint64{{0xf0, 0xcc, 0xaa}, {0x12345678, 0x9abcdef0, 0x0f1e2d3c}}
		got := evaluate(t, instruction, "b32", "b32", "b32", "b32", rows)
		var want []uint64
		for _, row := range rows {
			var v uint64
			for i := range 32 {
				v |= uint64(table) >> (row[0]>>i&1<<2 | row[1]>>i&1<<1 | row[2]>>i&1) & 1 << i
			}
			want = append(want, v)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", instruction, diff)
		}
	}
}

// The rows are those of the tables of prmt in the PTX ISA: bytes 7 to 0 of b:a are 0xf7 0xe6 … 0x80.
func TestPermute(t *testing.T) {
	const a, b = 0x83928180, 0xf7e6d5c4
	for _, tt := range []struct {
		mode     string
		selector uint64
		want     uint64
	}{
		{"", 0x3210, 0x83928180},
		{"", 0x7654, 0xf7e6d5c4},
		{"", 0x0246, 0x8092c4e6},
		{"", 0xfb98, 0xffffffff}, // all four signs are set
		{".f4e", 1, 0xc4839281},
		{".f4e", 3, 0xe6d5c483},
		{".b4e", 0, 0xd5e6f780},
		{".b4e", 2, 0xf7808192},
		{".rc8", 3, 0x83838383},
		{".ecl", 1, 0x83928181},
		{".ecr", 2, 0x92928180},
		{".rc16", 1, 0x83928392},
	} {
		instruction := fmt.Sprintf("prmt.b32%s d, a, b, c;", tt.mode)
		got := evaluate(t, instruction, "b32", "b32", "b32", "b32", [][3]uint64{{a, b, tt.selector}})
		if got[0] != tt.want {
			t.Errorf("%s with %#x gave %#x, want %#x", instruction, tt.selector, got[0], tt.want)
		}
	}
}

func TestCvtPack(t *testing.T) {
	for _, tt := range []struct {
		instruction string
		a, b, c     int64
		want        uint64
	}{
		{"cvt.pack.sat.s8.s32.b32 d, a, b, c;", 300, -300, 0x11223344, 0x33447f80},
		{"cvt.pack.sat.u8.s32.b32 d, a, b, c;", 300, -300, 0x11223344, 0x3344ff00},
		{"cvt.pack.sat.s8.s32.b32 d, a, b, c;", -1, 5, 0, 0xff05},
		{"cvt.pack.sat.s16.s32 d, a, b;", 40000, -40000, 0, 0x7fff8000},
	} {
		got := evaluate(t, tt.instruction, "b32", "b32", "b32", "b32", [][3]uint64{{uint64(tt.a), uint64(tt.b), uint64(tt.c)}})
		if got[0] != tt.want {
			t.Errorf("%s of %d, %d gave %#x, want %#x", tt.instruction, tt.a, tt.b, got[0], tt.want)
		}
	}
}

func absDifference(a, b int32) int32 {
	if a < b {
		return b - a
	}
	return a - b
}
