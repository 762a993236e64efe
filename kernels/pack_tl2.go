package kernels

import "encoding/binary"

// TL2 stores three weights in five bits: an index of four bits, |9a + 3b + c| of the weights a, b and c, of whose 16
// values 14 are used, and the sign of 9a + 3b + c.
//
// Sixty-four rows are a block, a byte lane each, see laneTL2. Its 48 columns, a fold, are sixteen triples in two halves
// of five 64-byte vectors. Bit 7-t of the first vector is the sign of the half's triple t < 8; the low nibbles of vector
// 1+v are the indices of triple 2v, the high nibbles those of 2v+1. Triple 4b+i of a fold is, for i < 3, the columns
// 16i + {b, 4+b, 8+b}, and for i = 3 the columns {12+b, 28+b, 44+b}: so four triples are three bytes of I2S.
//
// The up to 47 columns left over are stored in the two-weight form: four vectors for each 16 of them, in which a nibble
// is the index c + 4d of two weights with the codes c and d (w+1), of whose 16 values 9 are used. Byte b of a dword of
// I2S lies in vector b.
//
// Rows are padded to 64 and columns to 16 with weight 0.
const TL2 Layout = "tl2"

const (
	tl2Rows = 64 // of a block
	tl2Fold = 48 // columns of a fold
	tl2Half = 5 * tl2Rows
	tl2Unit = i2sCols // columns of the two-weight form, four vectors
)

func init() {
	registerFormat(Format{Layout: TL2, Bits: 5. / 3, BlockRows: tl2Rows, Bytes: bytesTL2, Pack: packTL2, Unpack: unpackTL2, Random: randomTL2})
}

// extentTL2 is of how many folds and, after them, of how many units of 16 columns a row of k columns consists.
func extentTL2(k int) (folds, units int) {
	steps := ceilDiv(k, tl2Unit)
	return steps / 3, steps % 3
}

// blockTL2 is the size of a block of k columns.
func blockTL2(k int) int {
	folds, units := extentTL2(k)
	return folds*2*tl2Half + units*4*tl2Rows
}

func bytesTL2(n, k int) int { return ceilDiv(n, tl2Rows) * blockTL2(k) }

// laneTL2 is the byte lane of a row: eight rows are two dwords in the same place of two 16-byte lanes, so that
// interleaving the bytes of four vectors leaves eight consecutive rows in a vector of dwords.
func laneTL2(row int) int {
	return row&32 | row&4<<2 | row&24>>1 | row&3
}

// columnsTL2 are the columns of a triple of a fold: the first, and how far apart they are.
func columnsTL2(triple int) (first, apart int) {
	if b, i := triple/4, triple%4; i < 3 {
		return 16*i + b, 4
	} else {
		return 12 + b, 16
	}
}

// cellTL2 is what one row has in a fold or in a unit of the two-weight form.
type cellTL2 struct {
	data []byte // from the row's lane on
	col  int
	cols int // tl2Fold or tl2Unit
}

// cellAtTL2 is the cell of a row of a block that follows after so many others.
func cellAtTL2(block []byte, folds, cells, row int) cellTL2 {
	block = block[laneTL2(row):]
	if cells < folds {
		return cellTL2{block[cells*2*tl2Half:], cells * tl2Fold, tl2Fold}
	}
	units := cells - folds
	return cellTL2{block[folds*2*tl2Half+units*4*tl2Rows:], folds*tl2Fold + units*tl2Unit, tl2Unit}
}

// rowCellsTL2 calls visit for the cells of a row with k columns, from the left.
func rowCellsTL2(data []byte, k, row int, visit func(cellTL2)) {
	folds, units := extentTL2(k)
	for i := range folds + units {
		visit(cellAtTL2(data[row/tl2Rows*blockTL2(k):], folds, i, row%tl2Rows))
	}
}

// eachCellTL2 calls visit for every cell of an n x k matrix and its row, in the order of memory; the row is n or more
// in the padding.
func eachCellTL2(data []byte, n, k int, visit func(row int, c cellTL2)) {
	folds, units := extentTL2(k)
	for first := 0; first < n; first += tl2Rows {
		for i := range folds + units {
			for row := range tl2Rows {
				visit(first+row, cellAtTL2(data[first/tl2Rows*blockTL2(k):], folds, i, row))
			}
		}
	}
}

// put stores weights in a cell.
func (c cellTL2) put(w *[tl2Fold]int8) {
	if c.cols == tl2Unit {
		dword := codesI2S((*[i2sCols]int8)(w[:]))
		for b := range 4 {
			c.data[b*tl2Rows] = byte(dword >> (8 * b))
		}
		return
	}
	var signs [2]byte
	var indices [8]byte
	for t := range 16 {
		first, apart := columnsTL2(t)
		index := 9*w[first] + 3*w[first+apart] + w[first+2*apart]
		negative := index >> 7 // 0 or -1; a branch on random weights would be mispredicted every other time
		signs[t/8] |= byte(negative) & 0x80 >> (t % 8)
		indices[t/2] |= byte((index^negative)-negative) << (4 * (t % 2))
	}
	for v, two := range indices {
		c.data[v/4*tl2Half+(1+v%4)*tl2Rows] = two
	}
	c.data[0], c.data[tl2Half] = signs[0], signs[1]
}

func (c cellTL2) get(w *[tl2Fold]int8) {
	if c.cols == tl2Unit {
		for i := range tl2Unit {
			w[i] = int8(c.data[i%4*tl2Rows]>>(2*(i/4))&3) - 1
		}
		return
	}
	for t := range 16 {
		first, apart := columnsTL2(t)
		half := c.data[t/8*tl2Half:]
		index := int8(half[(1+t%8/2)*tl2Rows] >> (4 * (t % 2)) & 15)
		negative := int8(half[0]<<(t%8)) >> 7
		code := (index ^ negative) - negative + 13 // 9(a+1) + 3(b+1) + (c+1)
		w[first], w[first+apart], w[first+2*apart] = code/9-1, code/3%3-1, code%3-1
	}
}

// used is how many columns of the cell belong to row < n of k columns.
func (c cellTL2) used(row, n, k int) int {
	if row >= n {
		return 0
	}
	return min(k-c.col, c.cols)
}

func packTL2(data []byte, w []int8, n, k int) {
	eachCellTL2(data, n, k, func(row int, c cellTL2) {
		var weights [tl2Fold]int8
		if used := c.used(row, n, k); used > 0 {
			copy(weights[:], w[row*k+c.col:][:used])
		}
		c.put(&weights)
	})
}

func unpackTL2(w []int8, data []byte, n, k int) {
	eachCellTL2(data, n, k, func(row int, c cellTL2) {
		if used := c.used(row, n, k); used > 0 {
			var weights [tl2Fold]int8
			c.get(&weights)
			copy(w[row*k+c.col:], weights[:used])
		}
	})
}

// randomTL2 draws indices and signs: of the sixteen nibbles 14 becomes 10 and 15 becomes 11, which makes a third of all
// weights 0. Index 0 has no sign.
func randomTL2(data []byte, n, k int, seed uint64) {
	rng := splitMix(seed)
	folds, _ := extentTL2(k)
	for block := data; len(block) > 0; block = block[blockTL2(k):] {
		folded := folds * 2 * tl2Half
		for at := 0; at < folded; at += tl2Half {
			for lane := 0; lane < tl2Rows; lane += 8 {
				rng.halfTL2(block[at+lane:])
			}
		}
		for at := folded; at < blockTL2(k); at += 8 {
			binary.LittleEndian.PutUint64(block[at:], rng.codesI2S())
		}
	}
	clearPaddingTL2(data, n, k)
}

// halfTL2 draws eight lanes of the five vectors of a half fold.
func (s *splitMix) halfTL2(data []byte) {
	const first = 0x1111111111111111 // bit 0 of each nibble
	var indexed uint64               // where a triple has a sign: its index is not 0
	for v := range 4 {
		n := s.next()
		n &^= n >> 1 & (n >> 2) & (n >> 3) & first << 2 // 111x becomes 101x
		binary.LittleEndian.PutUint64(data[(1+v)*tl2Rows:], n)
		some := (n | n>>1 | n>>2 | n>>3) & first
		indexed |= (some<<1 | some>>4) & 0x0303030303030303 << (6 - 2*v)
	}
	binary.LittleEndian.PutUint64(data, s.next()&indexed)
}

// clearPaddingTL2 sets the weights beyond row n and column k to 0.
func clearPaddingTL2(data []byte, n, k int) {
	if n%tl2Rows == 0 && k%tl2Unit == 0 {
		return
	}
	eachCellTL2(data, n, k, func(row int, c cellTL2) {
		if used := c.used(row, n, k); used < c.cols {
			var weights [tl2Fold]int8
			c.get(&weights)
			clear(weights[used:])
			c.put(&weights)
		}
	})
}
