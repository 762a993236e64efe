// Package strip frames the register tiles of layout i2s for ymm: a group of rows takes two registers, and the sixteen that
// there are hold no whole block of four groups, so a tile takes it in strips. Lest that breaks the linear read of the
// weights, it does so a chunk of steps at a time, which stays in the L1 cache.
//
// Vector registers are named, not allocated: the allocator of avo may hand out Y16 and up, which VEX cannot encode.
package strip

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/bitnet-autotune/bitnet-autotune/kernels/_asm/strided"
)

const (
	Group  = 64 // bytes of one row group in one step: two registers
	Half   = 32
	Step   = 16 // columns of one step
	Fields = 4
)

// Y are the registers that VEX can encode.
var Y = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}

// Routine is the frame of a tile: chunks of steps, in them strips of rows, in them the steps.
type Routine struct {
	Name           string // of its labels
	W              Register
	X              strided.Rows
	groups, tokens int
	most           int // steps per chunk
	strip          int // bytes of a step that are taken at a time
	dst            Register
}

// Open starts a routine of a set, such as i2sAVX2, that takes most steps of one strip before it turns to the next.
func Open(set string, groups, tokens, most, strip int) *Routine {
	name := fmt.Sprintf("%dx%d", groups, tokens)
	TEXT(set+"Tile"+name, NOSPLIT, "func(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)")
	return &Routine{Name: "tile" + name, W: GP64(), groups: groups, tokens: tokens, most: most, strip: strip}
}

func argument(name string) Register { return Load(Param(name), GP64()) }

// Chunks emits the loops. dst serves as the accumulator: it starts at -sum, and begin and end surround the sums that a
// chunk has in registers.
func (t *Routine) Chunks(begin, step, end func()) {
	t.dst = argument("dst")
	t.negateSums()
	t.X = strided.Load("x", "xStride", t.tokens)
	first, left, ahead := argument("w"), argument("steps"), argument("prefetch")
	strips, steps, count := GP64(), GP64(), GP64()

	Label(t.Name)
	MOVQ(U32(t.most), count)
	CMPQ(left, count)
	CMOVQLT(left, count)
	MOVQ(U32(Group*t.groups/t.strip), strips)
	Label(t.Name + "strip")
	begin()
	MOVQ(first, t.W)
	MOVQ(count, steps)
	Label(t.Name + "step")
	for at := 0; at < t.strip; at += Group {
		PREFETCHT0(Mem{Base: t.W, Index: ahead, Scale: 1, Disp: at})
	}
	step()
	ADDQ(address("wStride"), t.W)
	DECQ(steps)
	JNZ(LabelRef(t.Name + "step"))
	end()
	columns := steps // free here
	MOVQ(count, columns)
	SHLQ(Imm(4), columns)
	t.X.Sub(columns)
	ADDQ(U32(t.strip), first)
	ADDQ(U32(t.strip), t.dst)
	DECQ(strips)
	JNZ(LabelRef(t.Name + "strip"))

	t.X.Add(columns)
	LEAQ(Mem{Base: t.W, Disp: t.strip - Group*t.groups}, first)
	SUBQ(U32(Group*t.groups), t.dst)
	SUBQ(count, left)
	JNZ(LabelRef(t.Name))
	VZEROUPPER()
	RET()
}

// negateSums sets all of dst to minus the sum of its token.
func (t *Routine) negateSums() {
	row, sum, left := GP64(), argument("sum"), GP64()
	MOVQ(t.dst, row)
	MOVQ(U32(t.tokens), left)
	Label(t.Name + "sum")
	VPXOR(Y0, Y0, Y0)
	VPBROADCASTD(Mem{Base: sum}, Y1)
	VPSUBD(Y1, Y0, Y0)
	for i := range 2 * t.groups {
		VMOVDQU(Y0, Mem{Base: row, Disp: Half * i})
	}
	ADDQ(address("dstStride"), row)
	ADDQ(Imm(4), sum)
	DECQ(left)
	JNZ(LabelRef(t.Name + "sum"))
}

// eachToken emits do for the address of every token's sums in dst.
func (t *Routine) eachToken(do func(token int, dst Mem)) {
	row := GP64()
	MOVQ(t.dst, row)
	for token := range t.tokens {
		do(token, Mem{Base: row})
		if token < t.tokens-1 {
			ADDQ(address("dstStride"), row)
		}
	}
}

// AddToDst adds the registers of every token, a strip each, to its sums in dst.
func (t *Routine) AddToDst(sums []VecPhysical) {
	perToken := len(sums) / t.tokens
	t.eachToken(func(token int, dst Mem) {
		for i, s := range sums[token*perToken:][:perToken] {
			VPADDD(dst.Offset(Half*i), s, s)
			VMOVDQU(s, dst.Offset(Half*i))
		}
	})
}

// address is where an argument lies.
func address(name string) Mem {
	component, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return component.Addr
}

// Clear sets registers to zero.
func Clear(v []VecPhysical) {
	for _, r := range v {
		VPXOR(r, r, r)
	}
}

// Broadcast sets all dwords of a register.
func Broadcast(value uint32, v VecPhysical) {
	r := GP32()
	MOVL(U32(value), r)
	VMOVD(r, v.AsX())
	VPBROADCASTD(v.AsX(), v)
}
