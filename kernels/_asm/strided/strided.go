// Package strided addresses rows that lie an argument's distance apart with few registers.
package strided

import (
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Rows holds the addresses of rows 0, 4, 8, … and the distances that lead to the rows between.
type Rows struct {
	base            []Register
	stride, stride3 Register
}

// Load takes n rows from two arguments: the address of row 0 and the bytes from one row to the next.
func Load(first, distance string, n int) Rows {
	r := Rows{base: []Register{argument(first)}}
	if n > 1 {
		r.stride = argument(distance)
	}
	if n > 3 {
		s := build.GP64()
		build.LEAQ(Mem{Base: r.stride, Index: r.stride, Scale: 2}, s)
		r.stride3 = s
	}
	for i := 4; i < n; i += 4 {
		b := build.GP64()
		build.LEAQ(Mem{Base: r.base[len(r.base)-1], Index: r.stride, Scale: 4}, b)
		r.base = append(r.base, b)
	}
	return r
}

// Row is the address of row i.
func (r Rows) Row(i int) Mem {
	m := Mem{Base: r.base[i/4]}
	switch i % 4 {
	case 1:
		m.Index, m.Scale = r.stride, 1
	case 2:
		m.Index, m.Scale = r.stride, 2
	case 3:
		m.Index, m.Scale = r.stride3, 1
	}
	return m
}

// Add moves every row on by so many bytes.
func (r Rows) Add(bytes Op) { r.each(bytes, build.ADDQ) }

// Sub moves every row back by so many bytes.
func (r Rows) Sub(bytes Op) { r.each(bytes, build.SUBQ) }

func (r Rows) each(bytes Op, do func(Op, Op)) {
	for _, b := range r.base {
		do(bytes, b)
	}
}

func argument(name string) Register { return build.Load(build.Param(name), build.GP64()) }
