package model

import (
	"encoding/binary"
	"fmt"
)

const (
	tl2Rows          = 32 // rows of a block, a byte for each
	tl2TripleColumns = 6  // columns of a block of triples: two nibbles
	tl2SignColumns   = 24 // columns of a block of signs: a bit for each of eight triples
	tl2PairColumns   = 4  // columns of a block of pairs: two nibbles
	tl2PairBK        = 32 // columns of a tile of pairs
)

// triples are the three weights that an index stands for, |9*first + 3*second + third|, with the sign that makes the sum
// positive: 14 of the 16 that a nibble can hold.
var triples = func() *[256][]int8 {
	var weights [][]int8
	for i := range 14 {
		v := i + 13 // in base 3 its digits are the weights, plus 1
		weights = append(weights, []int8{int8(v/9) - 1, int8(v/3%3) - 1, int8(v%3) - 1})
	}
	return nibbles(weights)
}()

// tl2 unpacks TL2. The columns that whole tiles of BK cover are in triples, the others in pairs. First come the indices
// of all triples, then their signs, then the indices of all pairs, then zeros up to the size that ggml takes for granted.
func tl2(c *cursor, codes []int8, n, k int, p TileParameters) error {
	tiled, place := k/p.BK*p.BK, tl2Place(k)
	if err := (tiling{p.BM, p.BK, tl2Rows, tl2TripleColumns, tiled}).indices(c, codes, n, k, place, triples); err != nil {
		return err
	}
	if err := (tiling{p.BM, p.BK, tl2Rows, tl2SignColumns, tiled}).signs(c, codes, n, k); err != nil {
		return err
	}
	if tiled < k {
		if err := (tiling{p.BM, tl2PairBK, tl2Rows, tl2PairColumns, k - tiled}).indices(c, codes[tiled:], n, k, place, pairs); err != nil {
			return err
		}
	}
	for c.remaining() > 0 && c.err == nil {
		if b := c.take(1); b != nil && b[0] != 0 {
			c.pos--
			return fmt.Errorf("%#02x behind the last weight, %w", b[0], errCode)
		}
	}
	return c.err
}

// tl2Place is where the weights of a byte of indices are. Rows 8 to 15 and 16 to 23 have changed places, because the
// kernel's unpack instructions work on the halves of a register.
func tl2Place(k int) []int {
	place := make([]int, tl2Rows)
	for j := range place {
		row := j
		switch j / 8 {
		case 1:
			row += 8
		case 2:
			row -= 8
		}
		place[j] = row * k
	}
	return place
}

// signs turns around the triples that are negative. A block is 16 little-endian words: from its top bit on, word l has
// for each of eight triples the sign in row l and the one in row l+16. Zeros have no sign: a negative one shows that the
// signs do not lie here.
func (g tiling) signs(c *cursor, codes []int8, n, k int) error {
	for i := range g.blocks(n) {
		row, column := g.origin(i)
		block := c.take(tl2Rows)
		if c.err != nil {
			return c.err
		}
		for lane := range 16 {
			word := binary.LittleEndian.Uint16(block[2*lane:])
			for bit := range 16 {
				w := codes[(row+lane+bit%2*16)*k+column+bit/2*3:][:3]
				sign := int8(word >> (15 - bit) & 1)
				if w[0]|w[1]|w[2] == 0 && sign == 1 {
					c.pos -= int64(len(block) - 2*lane)
					return fmt.Errorf("the sign of three zeros, %w", errCode)
				}
				for i := range w { // a branch would be mispredicted every other time
					w[i] = w[i] * (1 - 2*sign)
				}
			}
		}
	}
	return nil
}
