package kernels

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"

	cpu "github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// Weights are an N x K ternary matrix as it lies on a device: rows of tiles of 16 rows, as src/<layout>.cuh describes
// them. What a tile has beyond N or K is 0.
type Weights struct {
	Layout cpu.Layout
	N, K   int
	Data   []byte  // Bytes(Layout, N, K) bytes
	Scale  float32 // what a weight of 1 stands for
}

const (
	tileRows = 16
	tileCols = 128 // of I2S and TL1, and of the rest of TL2
	foldCols = 192 // of TL2

	tileBytes = 512
	foldBytes = 640
)

// tiles is what a row of tiles of some columns consists of: folds of TL2, then tiles.
type tiles struct{ folds, plain int }

func tilesOf(layout cpu.Layout, k int) tiles {
	if layout == cpu.TL2 {
		return tiles{k / foldCols, ceilDiv(k%foldCols, tileCols)}
	}
	return tiles{0, ceilDiv(k, tileCols)}
}

// most is the larger number of either kind.
func (t tiles) most() int { return max(t.folds, t.plain) }

func (t tiles) bytes() int { return t.folds*foldBytes + t.plain*tileBytes }

func (t tiles) cols() int { return t.folds*foldCols + t.plain*tileCols }

// Layouts returns those that kernels of this table multiply.
func Layouts() []cpu.Layout { return []cpu.Layout{cpu.I2S, cpu.TL1, cpu.TL2} }

// Bytes is the size of the data of an n x k matrix.
func Bytes(layout cpu.Layout, n, k int) int { return ceilDiv(n, tileRows) * tilesOf(layout, k).bytes() }

// Pack brings the row-major n x k matrix w, of -1, 0 and 1, into the tiles of a layout. The Scale of the result is 1.
func Pack(layout cpu.Layout, w []int8, n, k int) (*Weights, error) {
	switch {
	case !slices.Contains(Layouts(), layout):
		return nil, fmt.Errorf("kernels: pack %dx%d: layout %q has no CUDA kernels: one of %v", n, k, layout, Layouts())
	case n < 1 || k < 1 || k > cpu.MaxCols:
		return nil, fmt.Errorf("kernels: pack %dx%d: want at least 1 row and 1 to %d columns", n, k, cpu.MaxCols)
	case len(w)%k != 0 || len(w)/k != n: // n*k may overflow
		return nil, fmt.Errorf("kernels: pack %dx%d: %d weights, want %d x %d", n, k, len(w), n, k)
	}
	for i, v := range w {
		if uint8(v+1) > 2 {
			return nil, fmt.Errorf("kernels: pack %dx%d: weight %d in row %d, column %d: want -1, 0 or 1", n, k, v, i/k, i%k)
		}
	}
	p := &Weights{Layout: layout, N: n, K: k, Data: make([]byte, Bytes(layout, n, k)), Scale: 1}
	p.fill(func(row []int8, at int) { copy(row, w[at*k:(at+1)*k]) })
	return p, nil
}

// Convert brings a matrix of the CPU, in any of its layouts, into the tiles of a layout.
func Convert(layout cpu.Layout, from *cpu.Packed) (*Weights, error) {
	format, ok := cpu.FormatOf(from.Layout)
	if !ok {
		return nil, fmt.Errorf("kernels: convert %dx%d: unknown layout %q: one of %v", from.N, from.K, from.Layout, cpu.Layouts())
	}
	w := make([]int8, from.N*from.K)
	format.Unpack(w, from.Data, from.N, from.K)
	p, err := Pack(layout, w, from.N, from.K)
	if err != nil {
		return nil, err
	}
	p.Scale = from.Scale
	return p, nil
}

// fill packs every row; read copies one to where the columns behind K are 0.
func (p *Weights) fill(read func(row []int8, at int)) {
	t := tilesOf(p.Layout, p.K)
	row := make([]int8, t.cols())
	for at := range ceilDiv(p.N, tileRows) * tileRows {
		if at < p.N {
			read(row[:p.K], at)
		} else {
			clear(row)
		}
		data := p.Data[at/tileRows*t.bytes():][:t.bytes()]
		for i := range t.folds {
			packFold(data[i*foldBytes:][:foldBytes], row[i*foldCols:], at%tileRows)
		}
		for i := range t.plain {
			pack := packTL1
			if p.Layout == cpu.I2S {
				pack = packI2S
			}
			pack(data[t.folds*foldBytes+i*tileBytes:][:tileBytes], row[t.folds*foldCols+i*tileCols:], at%tileRows)
		}
	}
}

// word adds bits to word s of a lane's 16 bytes of a tile.
func word(tile []byte, lane, s int, bits uint32) {
	at := tile[16*lane+4*s:]
	binary.LittleEndian.PutUint32(at, binary.LittleEndian.Uint32(at)|bits)
}

// codes returns w+1 of the first four weights, a byte each. No byte carries into the next: -1, 0, 1 end in 3, 0, 1.
func codes(w []int8) uint32 {
	four := binary.LittleEndian.Uint32((*[4]byte)(unsafe.Pointer((*[4]int8)(w)))[:])
	return (four&0x03030303 + 0x01010101) & 0x03030303
}

// packI2S stores the 128 columns of one row of a tile.
func packI2S(tile []byte, w []int8, row int) {
	for t := range 4 {
		for s := range 4 {
			four := w[32*t+8*s:]
			j := row / 8
			word(tile, row%8*4+t, s, codes(four)<<(2*j)|codes(four[4:])<<(2*j+4))
		}
	}
}

func packTL1(tile []byte, w []int8, row int) {
	for t := range 4 {
		for s := range 4 {
			four := w[32*t+8*s:]
			word(tile, row%8*4+t, s, (3*codes(four)+codes(four[4:]))<<(4*(row/8)))
		}
	}
}

// packFold stores the 192 columns of one row of a tile of TL2.
func packFold(tile []byte, w []int8, row int) {
	for t := range 4 {
		lane := row%8*4 + t
		var signs uint32
		for s := range 4 {
			twelve := w[48*t+12*s:]
			// Four triples, a byte each, from 0 to 26: 13 more than their values. A sum or difference with 128 more than
			// it needs shows in its highest bit whether it was below 0.
			triples := 9*codes(twelve) + 3*codes(twelve[4:]) + codes(twelve[8:])
			above := triples + (128-13)*0x01010101
			below := (128+13)*0x01010101 - triples
			negative := ^above >> 7 & 0x01010101
			magnitude := (above&^(255*negative) | below&(255*negative)) & 0x7f7f7f7f
			word(tile, lane, s, magnitude<<(4*(row/8)))
			signs |= negative << (2*s + row/8)
		}
		at := tile[tileBytes+4*lane:]
		binary.LittleEndian.PutUint32(at, binary.LittleEndian.Uint32(at)|signs)
	}
}
