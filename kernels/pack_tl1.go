package kernels

import "encoding/binary"

// TL1 stores two weights in four bits, as the index 3 * (first + 1) + (second + 1), which is at most 8.
//
// Sixteen rows by four columns are one 16-byte vector: byte r belongs to row r, its low nibble to the first two columns
// and its high nibble to the others. So the sums that two activations can make with two weights are a table of nine
// entries, and one lookup by a vector of nibbles finds those of sixteen rows. Four vectors are a step.
//
// Rows are padded to 16 and columns to 16 with index 0, that is -1, which meets an activation of 0; a pair of which one
// column is padding has -1 there too.
const TL1 Layout = "tl1"

var tl1Grid = grid{cols: 16, size: 64}

func init() {
	registerFormat(Format{Layout: TL1, Bits: 2, BlockRows: blockGroups * RowAlign, Bytes: tl1Grid.bytes, Pack: packTL1, Unpack: unpackTL1, Random: randomTL1})
}

func packTL1(data []byte, w []int8, n, k int) {
	eachByteTL1(n, k, func(at, row, col int) {
		four := [4]int8{-1, -1, -1, -1}
		if row < n && col < k {
			copy(four[:], w[row*k+col:(row+1)*k])
		}
		data[at] = byte(indexTL1(four[0], four[1]) | indexTL1(four[2], four[3])<<4)
	})
}

func indexTL1(first, second int8) int { return 3*int(first+1) + int(second+1) }

func unpackTL1(w []int8, data []byte, n, k int) {
	eachByteTL1(n, k, func(at, row, col int) {
		if row >= n || col >= k {
			return
		}
		low, high := int8(data[at]&15), int8(data[at]>>4)
		four := [4]int8{low/3 - 1, low%3 - 1, high/3 - 1, high%3 - 1}
		copy(w[row*k+col:(row+1)*k], four[:])
	})
}

// eachByteTL1 calls visit for every byte of a packed n x k matrix: its offset, its row and its first column, which may
// lie in the padding.
func eachByteTL1(n, k int, visit func(at, row, col int)) {
	for g := range groups(n) {
		start, stride := tl1Grid.stream(n, k, g)
		for s := range tl1Grid.steps(k) {
			for i := range tl1Grid.size {
				visit(start+s*stride+i, g*RowAlign+i%RowAlign, s*tl1Grid.cols+i/RowAlign*4)
			}
		}
	}
}

// randomTL1 makes indices of pairs of codes, which have two bits each.
func randomTL1(data []byte, n, k int, seed uint64) {
	const second = 0x3333333333333333
	rng := splitMix(seed)
	for i := 0; i < len(data); i += 8 {
		codes := rng.codesI2S()
		binary.LittleEndian.PutUint64(data[i:], 3*(codes>>2&second)+codes&second) // no nibble carries: at most 8
	}
	clearPaddingTL1(data, n, k)
}

// clearPaddingTL1 sets the weights beyond row n and column k to -1.
func clearPaddingTL1(data []byte, n, k int) {
	steps := tl1Grid.steps(k)
	if used := k % tl1Grid.cols; used != 0 {
		for g := range groups(n) {
			start, stride := tl1Grid.stream(n, k, g)
			last := data[start+(steps-1)*stride:][:tl1Grid.size]
			for i, b := range last {
				col := i / RowAlign * 4
				last[i] = keepTL1(b&15, used-col) | keepTL1(b>>4, used-col-2)<<4
			}
		}
	}
	if used := n % RowAlign; used != 0 {
		start, stride := tl1Grid.stream(n, k, n/RowAlign)
		for s := range steps {
			for v := 0; v < tl1Grid.size; v += RowAlign {
				at := start + s*stride + v
				clear(data[at+used : at+RowAlign])
			}
		}
	}
}

// keepTL1 is the index of a pair with only its first columns kept.
func keepTL1(index byte, columns int) byte {
	switch {
	case columns <= 0:
		return 0
	case columns == 1:
		return index - index%3
	}
	return index
}
