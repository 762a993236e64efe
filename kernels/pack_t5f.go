package kernels

// T5F stores five weights in a byte as T5 does, row by row and column by column, but as a fraction: the codes w+1 are
// the ternary digits of byte / 256, the most significant first, and 3 * byte mod 256 has all but the first. What is
// above 255 in that product is the digit. So a CPU without VPERMB can take a byte apart with additions.
//
// The byte of five codes is 256/243 times their number, rounded up. 13 bytes are not in use.
const T5F Layout = "t5f"

var t5f = newFiver(codesT5F)

func init() { registerFormat(t5f.format(T5F)) }

func codesT5F(b byte) (codes [t5Weights]uint8) {
	rest := uint16(b)
	for f := range codes {
		codes[f] = uint8(3 * rest >> 8)
		rest = 3 * rest & 0xff
	}
	return codes
}
