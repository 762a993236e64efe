package model

import "fmt"

// I2SOrder is one of the three ways in which bitnet.cpp packs I2_S. All have four weights in a byte, the first in the top
// two bits, as codes 0, 1, 2 for -1, 0, 1; they differ in how far apart these four are.
type I2SOrder string

const (
	// I2SBlocks128 has blocks of 128 weights, four 32 apart in a byte: x86 builds of bitnet.cpp, its converters,
	// ik_llama.cpp and the published files.
	I2SBlocks128 I2SOrder = "blocks of 128"
	// I2SBlocks64 has blocks of 64 weights, four 16 apart in a byte: quantised by an ARM build.
	I2SBlocks64 I2SOrder = "blocks of 64"
	// I2SRows4 has those of one column of four consecutive rows in a byte: quantised by an x86 build without
	// ACT_PARALLEL.
	I2SRows4 I2SOrder = "rows of 4"
)

// blockWeights is how many weights an I2_S block of the x86 layout holds, in a quarter as many bytes.
const blockWeights = 128

// stride is how far apart the four weights of a byte are in rows of k weights; 0 for an unknown order.
func (o I2SOrder) stride(k int) int {
	switch o {
	case "", I2SBlocks128:
		return blockWeights / 4
	case I2SBlocks64:
		return 16
	case I2SRows4:
		return k
	}
	return 0
}

// i2s is the unpacker of I2_S.
func (f *File) i2s(t Tensor, order I2SOrder) (unpacker, error) {
	stride := order.stride(int(t.K()))
	switch {
	case stride == 0:
		return nil, fmt.Errorf("unknown i2_s order %q: want %q, %q or %q", shorten(string(order)), I2SBlocks128, I2SBlocks64, I2SRows4)
	case order == I2SRows4 && t.N()%4 != 0:
		return nil, fmt.Errorf("%d rows: want a multiple of 4 for %s", t.N(), order)
	case t.N()*t.K()%uint64(4*stride) != 0:
		return nil, fmt.Errorf("%d x %d weights are no whole number of blocks of %d", t.N(), t.K(), 4*stride)
	}
	return func(codes []int8, _, _ int) (float32, error) {
		c := f.data(t.Offset, uint64(len(codes)/4))
		for at := 0; at < len(codes)/4; {
			run := min(stride-at%stride, len(codes)/4-at, windowBytes)
			packed := c.take(run)
			if c.err != nil {
				return 0, c.err
			}
			if bad := i2sRun(codes[at/stride*4*stride+at%stride:], packed, stride); bad >= 0 {
				return 0, fmt.Errorf("byte %d holds the code 3, which i2_s does not have: the data is damaged", at+bad)
			}
			at += run
		}
		return f.tensorScale(t, uint64(len(codes)/4))
	}, nil
}

// i2sRun unpacks bytes of one block, and returns the index of the first one with a code of 3, or -1.
func i2sRun(codes []int8, packed []byte, stride int) int {
	w0, w1 := codes[:len(packed)], codes[stride:][:len(packed)]
	w2, w3 := codes[2*stride:][:len(packed)], codes[3*stride:][:len(packed)]
	for i, b := range packed {
		if b&(b>>1)&0x55 != 0 {
			return i
		}
		w0[i] = int8(b>>6) - 1
		w1[i] = int8(b>>4&3) - 1
		w2[i] = int8(b>>2&3) - 1
		w3[i] = int8(b&3) - 1
	}
	return -1
}
