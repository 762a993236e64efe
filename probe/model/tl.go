package model

import (
	"errors"
	"fmt"
	"slices"
)

// TileParameters are the sizes of the tiles in which bitnet.cpp packs a TL1 or TL2 tensor: BM, BK and bm of
// utils/codegen_tl1.py and codegen_tl2.py, which are bm, bk and bmm in the kernel_config.ini that its converter reads.
type TileParameters struct {
	BM int // rows of a tile; they divide the rows of the tensor
	BK int // columns of a tile
	Bm int // rows of a block within a tile: 32, or also 64 for TL1
}

func (p TileParameters) String() string {
	return fmt.Sprintf("BM %d, BK %d, bm %d", p.BM, p.BK, p.Bm)
}

// check returns why no tensor of n rows of k weights can have been packed as kind, tl1 or tl2, with these tiles.
func (p TileParameters) check(kind string, n, k uint64) error {
	fits := func(whole uint64, part int) bool { return part > 0 && whole%uint64(part) == 0 }
	switch {
	case p.Bm != 32 && (kind == "tl2" || p.Bm != 64):
		return fmt.Errorf("%v: want a bm of 32, or of 64 for tl1", p)
	case !fits(uint64(p.BM), p.Bm) || !fits(n, p.BM):
		return fmt.Errorf("%v: want a BM that is a multiple of bm and divides the %d rows", p, n)
	case kind == "tl1" && (!fits(uint64(p.BK), tl1Columns(p.Bm)) || !fits(k, p.BK)):
		return fmt.Errorf("%v: want a BK that is a multiple of %d and divides the %d columns", p, tl1Columns(p.Bm), k)
	case kind == "tl2" && (p.BK < 1 || !fits(uint64(p.BK), tl2SignColumns) || uint64(p.BK) > k || k%uint64(p.BK)%tl2PairBK != 0 || k%uint64(p.BK) > 256):
		return fmt.Errorf("%v: want a BK that is a multiple of %d and leaves a multiple of %d, at most 256, of the %d columns", p, tl2SignColumns, tl2PairBK, k)
	}
	return nil
}

// tl is the unpacker of TL1 and TL2. Zero tiles are looked up.
func (f *File) tl(t Tensor, tiles TileParameters) (unpacker, error) {
	if len(t.Dims) != 2 {
		return nil, fmt.Errorf("dimensions %v: want a matrix", t.Dims)
	}
	if tiles == (TileParameters{}) {
		var err error
		if tiles, err = f.publishedTiles(t); err != nil {
			return nil, err
		}
	}
	if err := tiles.check(t.Type, t.N(), t.K()); err != nil {
		return nil, err
	}
	size, unpack := t.N()*t.K()/4, tl1
	if t.Type == "tl2" {
		size, unpack = tl2Codes(t.N(), t.K()), tl2
	}
	return func(codes []int8, n, k int) (float32, error) {
		c := f.data(t.Offset, size)
		if err := unpack(c, codes, n, k, tiles); errors.Is(err, errCode) {
			return 0, fmt.Errorf("byte %d holds %w: the data is damaged, or its tiles are not %v", uint64(c.pos)-t.Offset, err, tiles)
		} else if err != nil {
			return 0, err
		}
		return f.tensorScale(t, (size+31)/32*32)
	}, nil
}

// errCode is wrapped by the error for a code that cannot be; the cursor is then put back to its byte.
var errCode = errors.New("which its format does not have")

// tiling is an order of blocks of rows x columns weights within tiles of BM x BK: column by column of blocks, then row by
// row, tile by tile along the columns, then along the rows.
type tiling struct {
	BM, BK, rows, columns int
	k                     int // columns of the matrix, or of the part of it that is tiled
}

// blocks is how many blocks n rows have.
func (g tiling) blocks(n int) int { return n / g.rows * (g.k / g.columns) }

// origin is the row and column of the first weight of block i.
func (g tiling) origin(i int) (row, column int) {
	across, down, along := g.BK/g.columns, g.BM/g.rows, g.k/g.BK
	column = i % across * g.columns
	i /= across
	row = i % down * g.rows
	i /= down
	return row + i/along*g.BM, column + i%along*g.BK
}

// indices unpacks blocks of bytes with two indices each into meaning. Byte j of a block is about the weights from place[j]
// on, counted row by row of k from the origin of the block.
func (g tiling) indices(c *cursor, codes []int8, n, k int, place []int, meaning *[256][]int8) error {
	for i := range g.blocks(n) {
		row, column := g.origin(i)
		block := c.take(len(place))
		if c.err != nil {
			return c.err
		}
		for j, b := range block {
			w := meaning[b]
			if w == nil {
				c.pos -= int64(len(block) - j)
				return fmt.Errorf("%#02x, %w", b, errCode)
			}
			to := codes[row*k+column+place[j]:][:len(w)]
			to[0], to[1], to[2], to[3] = w[0], w[1], w[2], w[3] // copy would be a call, for so few
			if len(w) == 6 {
				to[4], to[5] = w[4], w[5]
			}
		}
	}
	return nil
}

// nibbles are the weights of a byte that holds two indices, the first on top, given those of one index; nil where one of
// them is not in use.
func nibbles(weights [][]int8) *[256][]int8 {
	table := new([256][]int8)
	for first, w := range weights {
		for second, v := range weights {
			table[first<<4|second] = slices.Concat(w, v)
		}
	}
	return table
}

// pairs are the two weights that an index stands for, 3*first + second + 4: nine of the 16 that a nibble can hold.
var pairs = func() *[256][]int8 {
	var weights [][]int8
	for i := range 9 {
		weights = append(weights, []int8{int8(i/3) - 1, int8(i%3) - 1})
	}
	return nibbles(weights)
}()
