package kernels

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

var t5 = newFiver(codesT5)

func init() { registerFormat(t5.format(T5)) }

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
