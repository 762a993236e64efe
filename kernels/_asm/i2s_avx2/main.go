// Command i2s_avx2 prints kernels/mul_i2s_avx2_amd64.s: the register tiles of layout i2s in VPMADDUBSW.
//
// Vector registers are named, not allocated: the allocator may hand out Y16 and up, with which VPADDW and the like
// silently become AVX-512.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/bitnet-autotune/bitnet-autotune/kernels/_asm/strided"
)

const (
	vector = 64 // bytes of one row group in one step: two registers
	half   = 32
	step   = 16 // columns of one step
	fields = 4
)

var ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}

// mask leaves the lowest field of every byte; it lies in memory for want of a register.
var mask Mem

func main() {
	ConstraintExpr("!purego")
	mask = GLOBL("i2sLowestField", RODATA|NOPTR)
	for i := range 4 {
		DATA(8*i, U64(0x0303030303030303))
	}
	decode(1, 1)
	decode(4, 2)
	for _, tokens := range []int{2, 3, 4, 5, 6} {
		batch(4, tokens)
	}
	Generate()
}

// decode is groups x 1, some groups together. Fields 1 and 3 stay two bits up, which saves a shift each; their sums
// are four times as large. Sums of pairs are int16: a step adds at most 2 * 2 * 8 * 128 = 4096 to one, so eight steps
// just fit (-128 gives -32768, 127 gives 32512). Brought down and added to the plain sums they fit with room to spare.
func decode(groups, together int) {
	t := open(groups, 1, 8, vector*together)
	halves := 2 * together
	plain, fourfold := ymm[:halves], ymm[halves:2*halves]
	token, low, second, weights, codes := ymm[8:12], ymm[12], ymm[13], ymm[14], ymm[15]
	broadcast(0x03030303, low)
	broadcast(0x0c0c0c0c, second)
	add := func(mask, token, sum VecPhysical) {
		VPAND(weights, mask, codes)
		VPMADDUBSW(token, codes, codes)
		VPADDW(codes, sum, sum)
	}
	t.chunks(func() {
		clear(ymm[:2*halves])
	}, func() {
		for f := range fields {
			VPBROADCASTD(t.x.Row(0).Offset(4*f), token[f])
		}
		for h := range halves {
			VMOVDQU(Mem{Base: t.w, Disp: half * h}, weights)
			add(low, token[0], plain[h])
			add(second, token[1], fourfold[h])
			VPSRLW(Imm(4), weights, weights)
			add(low, token[2], plain[h])
			add(second, token[3], fourfold[h])
		}
		t.x.Add(Imm(step))
	}, func() {
		one := token[0]
		broadcast(0x00010001, one)
		for h := range halves {
			VPSRAW(Imm(2), fourfold[h], fourfold[h])
			VPADDW(fourfold[h], plain[h], plain[h])
			VPMADDWD(plain[h], one, plain[h])
		}
		t.addToDst(plain)
	})
}

// batch is groups x tokens. A step adds at most 4 * 2 * 2 * 128 = 2048 to an int16, so sixteen steps just fit.
//
// With up to five tokens the weights stay in registers and the loop over the fields is not unrolled. Six tokens leave
// none for them: they are read again for each field, and as a shift wants a constant, the loop is unrolled.
func batch(groups, tokens int) {
	t := open(groups, tokens, 16, vector)
	sums := ymm[:2*tokens]
	weights, codes, token, product := ymm[10:12], ymm[12:14], ymm[14], ymm[15]
	field := func(f int) {
		for i := range tokens {
			VPBROADCASTD(t.x.Row(i).Offset(4*f), token)
			VPMADDUBSW(token, codes[0], product)
			VPADDW(product, sums[2*i], sums[2*i])
			VPMADDUBSW(token, codes[1], token)
			VPADDW(token, sums[2*i+1], sums[2*i+1])
		}
	}
	rolled := func() {
		for h, w := range weights {
			VMOVDQU(Mem{Base: t.w, Disp: half * h}, w)
		}
		left := GP32()
		MOVL(U32(fields), left)
		Label(t.name + "field")
		for h, w := range weights {
			VPAND(mask, w, codes[h])
			VPSRLW(Imm(2), w, w)
		}
		field(0)
		t.x.Add(Imm(4))
		DECL(left)
		JNZ(LabelRef(t.name + "field"))
	}
	unrolled := func() {
		for f := range fields {
			for h, c := range codes {
				VMOVDQU(Mem{Base: t.w, Disp: half * h}, c)
				if f > 0 {
					VPSRLW(Imm(uint64(2*f)), c, c)
				}
				VPAND(mask, c, c)
			}
			field(f)
		}
		t.x.Add(Imm(step))
	}
	body := rolled
	if tokens > 5 {
		body = unrolled
	}
	t.chunks(func() {
		clear(sums)
	}, body, func() {
		one := token
		broadcast(0x00010001, one)
		for _, s := range sums {
			VPMADDWD(s, one, s)
		}
		t.addToDst(sums)
	})
}

// routine is the frame of a tile: chunks of steps, in them strips of rows, in them the steps.
type routine struct {
	name           string
	groups, tokens int
	most           int // steps per chunk
	strip          int // bytes of a step that are taken at a time
	w, dst         Register
	x              strided.Rows
}

func open(groups, tokens, most, strip int) *routine {
	name := fmt.Sprintf("%dx%d", groups, tokens)
	TEXT("i2sAVX2Tile"+name, NOSPLIT, "func(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)")
	return &routine{name: "tile" + name, groups: groups, tokens: tokens, most: most, strip: strip, w: GP64()}
}

func argument(name string) Register { return Load(Param(name), GP64()) }

// chunks emits the loops. dst serves as the int32 accumulator: it starts at -sum, and begin and end surround the
// int16 sums of a chunk.
func (t *routine) chunks(begin, step, end func()) {
	t.dst = argument("dst")
	t.negateSums()
	t.x = strided.Load("x", "xStride", t.tokens)
	first, left, ahead := argument("w"), argument("steps"), argument("prefetch")
	strips, steps, count := GP64(), GP64(), GP64()

	Label(t.name)
	MOVQ(U32(t.most), count)
	CMPQ(left, count)
	CMOVQLT(left, count)
	MOVQ(U32(vector*t.groups/t.strip), strips)
	Label(t.name + "strip")
	begin()
	MOVQ(first, t.w)
	MOVQ(count, steps)
	Label(t.name + "step")
	for at := 0; at < t.strip; at += vector {
		PREFETCHT0(Mem{Base: t.w, Index: ahead, Scale: 1, Disp: at})
	}
	step()
	ADDQ(address("wStride"), t.w)
	DECQ(steps)
	JNZ(LabelRef(t.name + "step"))
	end()
	columns := steps // free here
	MOVQ(count, columns)
	SHLQ(Imm(4), columns)
	t.x.Sub(columns)
	ADDQ(U32(t.strip), first)
	ADDQ(U32(t.strip), t.dst)
	DECQ(strips)
	JNZ(LabelRef(t.name + "strip"))

	t.x.Add(columns)
	LEAQ(Mem{Base: t.w, Disp: t.strip - vector*t.groups}, first)
	SUBQ(U32(vector*t.groups), t.dst)
	SUBQ(count, left)
	JNZ(LabelRef(t.name))
	VZEROUPPER()
	RET()
}

// negateSums sets all of dst to minus the sum of its token.
func (t *routine) negateSums() {
	row, sum, left := GP64(), argument("sum"), GP64()
	MOVQ(t.dst, row)
	MOVQ(U32(t.tokens), left)
	Label(t.name + "sum")
	VPXOR(ymm[0], ymm[0], ymm[0])
	VPBROADCASTD(Mem{Base: sum}, ymm[1])
	VPSUBD(ymm[1], ymm[0], ymm[0])
	for i := range 2 * t.groups {
		VMOVDQU(ymm[0], Mem{Base: row, Disp: half * i})
	}
	ADDQ(address("dstStride"), row)
	ADDQ(Imm(4), sum)
	DECQ(left)
	JNZ(LabelRef(t.name + "sum"))
}

// eachToken emits do for the address of every token's sums in dst.
func (t *routine) eachToken(do func(token int, dst Mem)) {
	row := GP64()
	MOVQ(t.dst, row)
	for token := range t.tokens {
		do(token, Mem{Base: row})
		if token < t.tokens-1 {
			ADDQ(address("dstStride"), row)
		}
	}
}

// addToDst adds the registers of every token, a strip each, to its sums in dst.
func (t *routine) addToDst(sums []VecPhysical) {
	perToken := len(sums) / t.tokens
	t.eachToken(func(token int, dst Mem) {
		for i, s := range sums[token*perToken:][:perToken] {
			VPADDD(dst.Offset(half*i), s, s)
			VMOVDQU(s, dst.Offset(half*i))
		}
	})
}

func address(name string) Mem {
	component, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return component.Addr
}

func clear(v []VecPhysical) {
	for _, r := range v {
		VPXOR(r, r, r)
	}
}

func broadcast(value uint32, v VecPhysical) {
	r := GP32()
	MOVL(U32(value), r)
	VMOVD(r, v.AsX())
	VPBROADCASTD(v.AsX(), v)
}
