package model

import "math"

// blockScales is the unpacker of formats made of blocks of bytes for weights, each with an f16 scale at its end: TQ1_0
// and TQ2_0 of ggml.
func (f *File) blockScales(t Tensor, bytes, weights int, unpack blockCode) unpacker {
	return func(codes []int8, _, _ int) (float32, error) {
		c, scale := f.data(t.Offset, t.Bytes), oneScale(0)
		for ; len(codes) > 0; codes = codes[weights:] {
			block := c.take(bytes)
			if c.err != nil {
				return 0, c.err
			}
			if bad := unpack(codes[:weights], block[:bytes-2]); bad >= 0 {
				return 0, damaged(t, c.pos-int64(bytes-bad))
			}
			if err := scale.add(half(c.order.Uint16(block[bytes-2:])), codes[:weights]); err != nil {
				return 0, err
			}
		}
		return float32(scale), nil
	}
}

// tq2Block unpacks TQ2_0: two halves of 128 weights in 32 bytes, four 32 apart in a byte, the first in the lowest bits.
func tq2Block(codes []int8, block []byte) int {
	for i, b := range block {
		if b&(b>>1)&0x55 != 0 {
			return i
		}
		w := codes[i/32*128+i%32:]
		for field := range 4 {
			w[32*field] = int8(b>>(2*field)&3) - 1
		}
	}
	return -1
}

// tq1Block unpacks TQ1_0: bytes of five trits, the first of which counts most. 160 weights in 32 bytes, those of a byte 32
// apart; 80 in 16 bytes, 16 apart; and the last 16 in 4 bytes, 4 apart, whose fifth trit is 0.
func tq1Block(codes []int8, block []byte) int {
	part := func(codes []int8, bytes []byte, trits int) int {
		for i, b := range bytes {
			v, ok := fiveTrits(b)
			if !ok || trits == 4 && v%3 != 0 {
				return i
			}
			for trit := range trits {
				codes[i+trit*len(bytes)] = int8(v/81) - 1
				v = v % 81 * 3
			}
		}
		return -1
	}
	from := 0
	for _, p := range []struct{ at, bytes, trits int }{{0, 32, 5}, {32, 16, 5}, {48, 4, 4}} {
		if bad := part(codes[from:], block[p.at:p.at+p.bytes], p.trits); bad >= 0 {
			return p.at + bad
		}
		from += p.bytes * p.trits
	}
	return -1
}

// fiveTrits returns the number below 243 that b stands for: b is the number times 256/243, rounded up, which lets a
// kernel take trits off its top by multiplication. 13 bytes stand for none.
func fiveTrits(b byte) (int, bool) {
	v := int(b) * 243 / 256
	return v, (v*256+242)/243 == int(b)
}

// half is the value of an IEEE 754 binary16.
func half(bits uint16) float32 {
	sign, exponent, fraction := 1-2*float64(bits>>15), int(bits>>10&31), float64(bits&1023)
	switch exponent {
	case 0: // subnormal
		return float32(sign * math.Ldexp(fraction, -24))
	case 31:
		if fraction > 0 {
			return float32(math.NaN())
		}
		return float32(math.Inf(int(sign)))
	}
	return float32(sign * math.Ldexp(1024+fraction, exponent-25))
}
