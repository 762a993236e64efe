package modeltest

import (
	"encoding/binary"
	"math"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

// packs make the bytes of a tensor of n rows of k codes, for the layouts that need nothing else.
var packs = map[string]func(codes []int8, scale float32, n, k int) []byte{
	"i2_s":   func(codes []int8, scale float32, _, _ int) []byte { return Pack(codes, scale) },
	"tq1_0":  func(codes []int8, scale float32, _, _ int) []byte { return PackTQ1(codes, scale) },
	"tq2_0":  func(codes []int8, scale float32, _, _ int) []byte { return PackTQ2(codes, scale) },
	"iq1_bn": func(codes []int8, scale float32, _, k int) []byte { return PackIQ1(codes, scale, k) },
	"iq2_bn": func(codes []int8, scale float32, _, k int) []byte { return PackIQ2(codes, scale, k) },
}

// Pack is the x86 I2_S layout of codes: byte j of a block of 128 is w[j]<<6 | w[32+j]<<4 | w[64+j]<<2 | w[96+j] with
// w = code + 1; then the scale and 28 bytes of padding. len(codes) has to be a multiple of 128.
func Pack(codes []int8, scale float32) []byte { return packI2S(codes, scale, 128) }

// PackI2SBlocks64 is the I2_S layout of ARM builds: as Pack, with blocks of 64 and weights 16 apart.
func PackI2SBlocks64(codes []int8, scale float32) []byte { return packI2S(codes, scale, 64) }

func packI2S(codes []int8, scale float32, block int) []byte {
	packed := make([]byte, len(codes)/4)
	for i, c := range codes {
		field, j := i%block/(block/4), i%(block/4)
		packed[i/block*block/4+j] |= byte(c+1) << (6 - 2*field)
	}
	return withTail(packed, scale)
}

// PackI2SRows4 is the I2_S layout of x86 builds without ACT_PARALLEL: a byte for each column of four rows.
func PackI2SRows4(codes []int8, scale float32, k int) []byte {
	packed := make([]byte, len(codes)/4)
	for i, c := range codes {
		row, column := i/k, i%k
		packed[row/4*k+column] |= byte(c+1) << (6 - 2*(row%4))
	}
	return withTail(packed, scale)
}

// withTail puts the scale and 28 bytes of padding behind packed.
func withTail(packed []byte, scale float32) []byte {
	packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(scale))
	return append(packed, make([]byte, 28)...)
}

// PackTL1 is the TL1 layout of n rows of k codes, without the scale: for each pair of weights, the nibble of its index
// goes where the axes of the converter's array put it.
func PackTL1(codes []int8, n, k int, p model.TileParameters) []byte {
	packed := make([]byte, n*k/4)
	by := 256 / p.Bm
	for row := range n {
		for column := 0; column < k; column += 2 {
			w := codes[row*k+column:]
			at := row / p.BM
			at = at*(k/p.BK) + column/p.BK
			at = at*(p.BM/p.Bm) + row%p.BM/p.Bm
			at = at*(p.BK/by) + column%p.BK/by
			at = at*(p.Bm/16) + row%p.Bm/16
			at = at*(by/4) + column%by/4
			at = at*16 + row%16
			packed[at] |= byte(3*w[0]+w[1]+4) << (4 - column%4/2*4)
		}
	}
	return packed
}

// PackTL2 is the TL2 layout of n rows of k codes, without the scale, and as long as ggml takes it for.
func PackTL2(codes []int8, n, k int, p model.TileParameters) []byte {
	packed := make([]byte, (k-256)*n/3*5/8+256*n/2*4/8)
	triples := k / p.BK * p.BK
	signs, pairs := packed[n*triples/6:], packed[n*triples/6+n*triples/24:]
	// byteOf is where the byte of a row is: tiles of BM x bk, in these blocks of 32 x width.
	byteOf := func(row, column, columns, bk, width int) int {
		at := row / p.BM
		at = at*(columns/bk) + column/bk
		at = at*(p.BM/32) + row%p.BM/32
		at = at*(bk/width) + column%bk/width
		return at * 32
	}
	for row := range n {
		lane := []int{0, 2, 1, 3}[row%32/8]*8 + row%8
		for column := 0; column < triples; column += 3 {
			w := codes[row*k+column:]
			sum := 9*w[0] + 3*w[1] + w[2]
			if sum < 0 {
				sum = -sum
				bit := 15 - (column%24/3*2 + row%32/16)
				at := byteOf(row, column, triples, p.BK, 24) + 2*(row%16)
				signs[at+bit/8] |= 1 << (bit % 8)
			}
			packed[byteOf(row, column, triples, p.BK, 6)+lane] |= byte(sum) << (4 - column%6/3*4)
		}
		for column := triples; column < k; column += 2 {
			w := codes[row*k+column:]
			pairs[byteOf(row, column-triples, k-triples, 32, 4)+lane] |= byte(3*w[0]+w[1]+4) << (4 - (column-triples)%4/2*4)
		}
	}
	return packed
}

// PackTQ1 is the TQ1_0 layout of codes, whose number is a multiple of 256.
func PackTQ1(codes []int8, scale float32) []byte {
	var packed []byte
	for ; len(codes) > 0; codes = codes[256:] {
		for i := range 32 {
			packed = append(packed, trits(codes[i], codes[32+i], codes[64+i], codes[96+i], codes[128+i]))
		}
		for i := 160; i < 176; i++ {
			packed = append(packed, trits(codes[i], codes[16+i], codes[32+i], codes[48+i], codes[64+i]))
		}
		for i := 240; i < 244; i++ {
			packed = append(packed, trits(codes[i], codes[4+i], codes[8+i], codes[12+i], -1))
		}
		packed = binary.LittleEndian.AppendUint16(packed, Half(scale))
	}
	return packed
}

// PackTQ2 is the TQ2_0 layout of codes, whose number is a multiple of 256.
func PackTQ2(codes []int8, scale float32) []byte {
	var packed []byte
	for i := 0; i < len(codes); i += 128 {
		for j := i; j < i+32; j++ {
			packed = append(packed, byte(codes[j]+1|(codes[j+32]+1)<<2|(codes[j+64]+1)<<4)|byte(codes[j+96]+1)<<6)
		}
		if i%256 == 128 {
			packed = binary.LittleEndian.AppendUint16(packed, Half(scale))
		}
	}
	return packed
}

// PackIQ1 is the IQ1_BN layout of rows of k codes.
func PackIQ1(codes []int8, scale float32, k int) []byte {
	var packed []byte
	for i := 0; i < len(codes); i += 64 {
		if i%k == 0 {
			packed = binary.LittleEndian.AppendUint16(packed, Half(scale))
		}
		w := codes[i : i+64]
		for j := 0; j < 64; j += 16 {
			for _, from := range []int{j, j + 5, j + 10} {
				packed = append(packed, trits(w[from+4], w[from+3], w[from+2], w[from+1], w[from]))
			}
		}
		packed = append(packed, trits(-1, w[63], w[47], w[31], w[15]))
	}
	return packed
}

// PackIQ2 is the IQ2_BN layout of rows of k codes.
func PackIQ2(codes []int8, scale float32, k int) []byte {
	var packed []byte
	for i := 0; i < len(codes); i += 64 {
		if i%k == 0 {
			packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(scale))
		}
		for j := i; j < i+16; j++ {
			packed = append(packed, byte(codes[j]+1|(codes[j+16]+1)<<2|(codes[j+32]+1)<<4)|byte(codes[j+48]+1)<<6)
		}
	}
	return packed
}

// trits is five weights as a number of base 3, the first on top, in 256ths of 243 and rounded up.
func trits(weights ...int8) byte {
	v := 0
	for _, w := range weights {
		v = 3*v + int(w) + 1
	}
	return byte(math.Ceil(float64(v) * 256 / 243))
}

// Half is scale as an IEEE 754 binary16, which has to hold it exactly and normally: a multiple of 2^-10 from 1 to 2, or
// that times a small power of 2.
func Half(scale float32) uint16 {
	fraction, exponent := math.Frexp(float64(scale))
	mantissa := fraction * 2048
	if scale <= 0 || mantissa != math.Trunc(mantissa) || exponent < -13 || exponent > 16 {
		panic("modeltest: no half-precision scale")
	}
	return uint16(exponent+14)<<10 | uint16(mantissa)&1023
}
