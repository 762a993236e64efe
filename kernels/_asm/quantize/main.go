// Command quantize prints kernels/quantize_amd64.s: the two passes of the activation quantiser.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	unroll = 4 // vectors per round: 32 floats
	vector = 32
)

// Vector registers are named, not allocated, so that none above 15 gets into an AVX2 routine.
var ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9}

func main() {
	ConstraintExpr("!purego")
	order := GLOBL("quantizeOrder", RODATA|NOPTR)
	for i, lane := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(lane))
	}
	absMax()
	round(order)
	Generate()
}

// absMax is the maximum of the bits of |x[i]|, as integers: for finite floats that is their order, and anything else
// comes out above them.
func absMax() {
	TEXT("absMaxAVX2", NOSPLIT, "func(x *float32, n int) uint32")
	x, n := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	most, value, mask := ymm[:unroll], ymm[unroll], ymm[unroll+1]
	bits := GP32()
	MOVL(U32(0x7fffffff), bits)
	VMOVD(bits, mask.AsX())
	VPBROADCASTD(mask.AsX(), mask)
	clear(most)
	Label("round")
	for i, m := range most {
		VPAND(Mem{Base: x, Disp: i * vector}, mask, value)
		VPMAXUD(value, m, m)
	}
	ADDQ(U32(unroll*vector), x)
	SUBQ(Imm(unroll*vector/4), n)
	JNZ(LabelRef("round"))
	store(fold(most, value, VPMAXUD))
}

// round packs four vectors into one; the packing works within halves, so the dwords are put in order at the end.
func round(order Mem) {
	TEXT("roundAVX2", NOSPLIT, "func(out *int8, x *float32, n int, scale float32) int32")
	out, x, n := Load(Param("out"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
	sum, value, scale, lanes := ymm[:unroll], ymm[unroll:2*unroll], ymm[2*unroll], ymm[2*unroll+1]
	component, err := Param("scale").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(component.Addr, scale)
	VMOVDQU(order, lanes)
	clear(sum)
	Label("round")
	for i, v := range value {
		VMULPS(Mem{Base: x, Disp: i * vector}, scale, v)
		VCVTPS2DQ(v, v)
		VPADDD(v, sum[i], sum[i])
	}
	VPACKSSDW(value[1], value[0], value[0])
	VPACKSSDW(value[3], value[2], value[2])
	VPACKSSWB(value[2], value[0], value[0])
	VPERMD(value[0], lanes, value[0])
	VMOVDQU(value[0], Mem{Base: out})
	ADDQ(U32(unroll*vector), x)
	ADDQ(Imm(vector), out)
	SUBQ(Imm(vector), n)
	JNZ(LabelRef("round"))
	store(fold(sum, value[0], VPADDD))
}

func clear(v []VecPhysical) {
	for _, r := range v {
		VPXOR(r, r, r)
	}
}

// fold makes one value of all dword lanes of v, in lane 0 of the first.
func fold(v []VecPhysical, free VecPhysical, do func(...Op)) VecPhysical {
	for _, r := range v[1:] {
		do(r, v[0], v[0])
	}
	VEXTRACTI128(Imm(1), v[0], free.AsX())
	do(free.AsX(), v[0].AsX(), v[0].AsX())
	for _, swap := range []uint64{0x4e, 0xb1} {
		VPSHUFD(Imm(swap), v[0].AsX(), free.AsX())
		do(free.AsX(), v[0].AsX(), v[0].AsX())
	}
	return v[0]
}

// store returns lane 0.
func store(v VecPhysical) {
	result := GP32()
	VMOVD(v.AsX(), result)
	VZEROUPPER()
	Store(result, ReturnIndex(0))
	RET()
}
