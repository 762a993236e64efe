// Package zmm has what the generators for AVX-512 share: vectors of one row group each, and the frame of a register tile.
package zmm

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Tile opens the routine of a register tile of a set, such as t5VBMI, and returns the name of its labels.
func Tile(set string, groups, tokens int) string {
	name := fmt.Sprintf("%dx%d", groups, tokens)
	TEXT(set+"Tile"+name, NOSPLIT, "func(dst *int32, dstStride int, w *byte, wStride int, x *int8, xStride int, sum *int32, steps int, prefetch int)")
	return "tile" + name
}

// One opens the routine of a set for a single row group and token; StoreRows ends it.
func One(set string) {
	TEXT(set+"One", NOSPLIT, "func(dst *int32, rows int, w *byte, wStride int, x *int8, sum int32, steps int)")
}

// StoreRows takes argument sum off the total and stores its first rows.
func StoreRows(total VecVirtual) {
	sum := ZMM()
	VPBROADCASTD(Load(Param("sum"), GP32()), sum)
	VPSUBD(sum, total, total)
	Load(Param("rows"), RCX)
	lanes, mask := GP32(), K()
	MOVL(U32(1), lanes)
	SHLL(CL, lanes)
	DECL(lanes)
	KMOVW(lanes, mask)
	VMOVDQU32(total, mask, Mem{Base: Argument("dst")})
	VZEROUPPER()
	RET()
}

// Argument loads an argument.
func Argument(name string) Register { return Load(Param(name), GP64()) }

// PrefetchFrom returns an address that runs ahead of w by the argument prefetch.
func PrefetchFrom(w Register) Register {
	ahead := Argument("prefetch")
	ADDQ(w, ahead)
	return ahead
}

// Vectors returns n registers.
func Vectors(n int) []VecVirtual {
	v := make([]VecVirtual, n)
	for i := range v {
		v[i] = ZMM()
	}
	return v
}

// Zeroes returns n registers that are cleared.
func Zeroes(n int) []VecVirtual {
	v := Vectors(n)
	for i := range v {
		VPXORD(v[i], v[i], v[i])
	}
	return v
}

// Broadcast returns a register with the same value in all dwords.
func Broadcast(value uint32) VecVirtual {
	r, v := GP32(), ZMM()
	MOVL(U32(value), r)
	VPBROADCASTD(r, v)
	return v
}
