package model

import "math"

// iqWeights is how many weights a block of IQ1_BN or IQ2_BN holds.
const iqWeights = 64

// rowScales is the unpacker of formats with a float of meta bytes in front of each row and blocks of 64 weights behind it:
// IQ1_BN and IQ2_BN of ik_llama.cpp.
func (f *File) rowScales(t Tensor, meta, bytes int, unpack blockCode) unpacker {
	return func(codes []int8, n, k int) (float32, error) {
		c, scale := f.data(t.Offset, t.Bytes), oneScale(0)
		for row := range n {
			row := codes[row*k : (row+1)*k]
			var of float32
			if b := c.take(meta); meta == 2 && b != nil {
				of = half(c.order.Uint16(b))
			} else if b != nil {
				of = math.Float32frombits(c.order.Uint32(b))
			}
			for at := 0; at < k; at += iqWeights {
				block := c.take(bytes)
				if c.err != nil {
					return 0, c.err
				}
				if bad := unpack(row[at:at+iqWeights], block); bad >= 0 {
					return 0, damaged(t, c.pos-int64(bytes-bad))
				}
			}
			if err := scale.add(of, row); err != nil {
				return 0, err
			}
		}
		return float32(scale), nil
	}
}

// iq2Block unpacks IQ2_BN: 16 bytes, four weights 16 apart in a byte, the first in the lowest bits.
func iq2Block(codes []int8, block []byte) int {
	for i, b := range block {
		if b&(b>>1)&0x55 != 0 {
			return i
		}
		for field := range 4 {
			codes[i+16*field] = int8(b>>(2*field)&3) - 1
		}
	}
	return -1
}

// iq1Block unpacks IQ1_BN: for every 16 weights 3 bytes of five trits, the first of which counts least, and behind them
// all one byte with the sixteenth weight of each.
func iq1Block(codes []int8, block []byte) int {
	last, ok := fiveTrits(block[12])
	if !ok || last >= 81 {
		return 12
	}
	for i, b := range block[:12] {
		v, ok := fiveTrits(b)
		if !ok {
			return i
		}
		w := codes[i/3*16+i%3*5:]
		for trit := range 5 {
			w[trit] = int8(v%3) - 1
			v /= 3
		}
	}
	for i := range 4 {
		codes[16*i+15] = int8(last%3) - 1
		last /= 3
	}
	return -1
}
