package kernels

import "encoding/binary"

// T5 stores five weights in a byte, 1.6 bits a weight where log2(3) is 1.585.
//
// Sixteen rows by twenty columns are one 64-byte vector: dword lane r belongs to row r, and weight f of its byte b to
// column 4f + b, so that each of the five meets four consecutive activations, which are broadcast as a dword.
//
// The code is made for VPERMB, which looks up six bits of a byte in a table of 64: weights 0, 1 and 2 depend on the low
// six bits, weights 3 and 4 on the high six, but that weight 2 is -1 wherever both top bits are set. One lookup a weight
// is all that takes a byte apart. See codesT5.
//
// Rows are padded to 16 and columns to 20 with weight -1; see grid for the order of the vectors.
const T5 Layout = "t5"

const (
	t5Weights = 5             // per byte
	t5Cols    = 4 * t5Weights // per vector
)

var t5Grid = grid{cols: t5Cols, size: 64}

func init() {
	registerFormat(Format{Layout: T5, Bits: 8. / t5Weights, BlockRows: blockGroups * RowAlign, Bytes: t5Grid.bytes, Pack: packT5, Unpack: unpackT5, Random: randomT5})
}

// codesT5 is the definition of a byte: the codes w+1 of its five weights.
//
// The remainder by 9 of the low six bits is the pair of weights 0 and 1, and those bits count up through the values of
// weights 2 and 3. The top two bits are weight 4 while they are below 3. So 3 * 64 of the 243 combinations have a byte.
// The other 51 all have weight 2 = -1: with both top bits set, each four consecutive bytes have the weights 3 and 4 of
// a table, chosen so that the pairs that are missing come up. It leaves 13 bytes that repeat a combination, of which
// the lowest is the one in use.
func codesT5(b byte) (codes [t5Weights]uint8) {
	low, top := b&63, b>>6
	codes[0], codes[1], codes[4] = low%9%3, low%9/3, top
	switch { // nine bytes for each value of weight 2, but that some are missing from the first
	case low < 24:
		codes[2], codes[3] = (low+3)/9, 0
	case low < 44:
		codes[2], codes[3] = (low-17)/9, 1
	default:
		codes[2], codes[3] = (low-37)/9, 2
	}
	if top == 3 {
		third := [16]uint8{2, 2, 1, 0, 0, 1, 0, 2, 2, 2, 2, 1, 1, 1, 1, 0}
		fourth := [16]uint8{0, 0, 0, 2, 2, 0, 0, 2, 2, 1, 1, 1, 1, 2, 2, 1}
		codes[2], codes[3], codes[4] = 0, third[low/4], fourth[low/4]
	}
	return codes
}

// t5Codes is codesT5 for every byte; t5Byte is its inverse: the byte for Σ code[f] * 3^f.
var t5Codes, t5Byte = tablesT5()

func tablesT5() (codes [256][t5Weights]uint8, bytes [243]byte) {
	for b := 255; b >= 0; b-- {
		codes[b] = codesT5(byte(b))
		bytes[numberT5(codes[b])] = byte(b)
	}
	return codes, bytes
}

func numberT5(codes [t5Weights]uint8) (number uint8) {
	for f := t5Weights - 1; f >= 0; f-- {
		number = 3*number + codes[f]
	}
	return number
}

func packT5(data []byte, w []int8, n, k int) {
	t5Grid.eachDword(n, k, func(at, row, col int) {
		switch {
		case row >= n:
			clear(data[at : at+4])
		case col+t5Cols <= k:
			putT5((*[4]byte)(data[at:]), (*[t5Cols]int8)(w[row*k+col:]))
		default:
			var tail [t5Cols]int8
			for i := copy(tail[:], w[row*k+col:(row+1)*k]); i < t5Cols; i++ {
				tail[i] = -1
			}
			putT5((*[4]byte)(data[at:]), &tail)
		}
	})
}

func putT5(dword *[4]byte, w *[t5Cols]int8) {
	var numbers uint32 // numberT5 of four bytes at a time: it fits a byte
	for f := t5Weights - 1; f >= 0; f-- {
		numbers = 3*numbers + fourCodes((*[4]int8)(w[4*f:]))
	}
	for b := range dword {
		dword[b] = t5Byte[numbers>>(8*b)&0xff]
	}
}

func unpackT5(w []int8, data []byte, n, k int) {
	t5Grid.eachDword(n, k, func(at, row, col int) {
		if row >= n {
			return
		}
		for i := range min(k-col, t5Cols) {
			w[row*k+col+i] = int8(t5Codes[data[at+i%4]][i/4]) - 1
		}
	})
}

// randomT5 draws bytes; the 13 that are not in use become those that mean the same.
func randomT5(data []byte, n, k int, seed uint64) {
	var inUse [256]byte
	for b, codes := range t5Codes {
		inUse[b] = t5Byte[numberT5(codes)]
	}
	rng := splitMix(seed)
	for i := 0; i < len(data); i += 8 {
		eight := (*[8]byte)(data[i:])
		binary.LittleEndian.PutUint64(eight[:], rng.next())
		for j, b := range eight {
			eight[j] = inUse[b]
		}
	}
	clearColumnsT5(data, n, k)
	t5Grid.clearRows(data, n, k)
}

// clearColumnsT5 sets the codes beyond column k to 0.
func clearColumnsT5(data []byte, n, k int) {
	used := k % t5Cols
	if used == 0 {
		return
	}
	for g := range groups(n) {
		start, stride := t5Grid.stream(n, k, g)
		last := data[start+(t5Grid.steps(k)-1)*stride:][:t5Grid.size]
		for i, b := range last {
			codes := t5Codes[b]
			for f := range codes {
				if 4*f+i%4 >= used {
					codes[f] = 0
				}
			}
			last[i] = t5Byte[numberT5(codes)]
		}
	}
}
