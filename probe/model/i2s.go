package model

import (
	"fmt"
	"math"
)

// blockWeights is how many weights an I2_S block of the x86 layout holds, in a quarter as many bytes.
const blockWeights = 128

// maxCodes bounds the codes of one tensor in memory: 8 GiB, ten times the largest matmul of a 405B model (53248 x 16384).
const maxCodes = 1 << 33

// Ternary loads the weights of an I2_S tensor: n*k codes of -1, 0 or 1, row by row, and what a weight of 1 stands for.
//
// It reads the layout that x86 builds of bitnet.cpp, its converters and ik_llama.cpp write: blocks of 128 weights in 32
// bytes, byte j = w[j]<<6 | w[32+j]<<4 | w[64+j]<<2 | w[96+j] with w = code + 1, and a float32 scale behind the last
// block. Two other layouts share the type id and nothing in the file tells them apart: see the Caveats of the package.
// Every other type is refused, with the reason.
func (f *File) Ternary(name string) (codes []int8, scale float32, n, k int, err error) {
	t, err := f.i2s(name)
	if err == nil {
		codes, scale, err = f.unpack(t)
	}
	if err != nil {
		return nil, 0, 0, 0, fmt.Errorf("model: load tensor %q: %w", shorten(name), err)
	}
	return codes, scale, int(t.N()), int(t.K()), nil
}

// i2s finds the tensor called name and refuses it if it is not I2_S.
func (f *File) i2s(name string) (Tensor, error) {
	for _, t := range f.Tensors {
		if t.Name != name {
			continue
		}
		switch {
		case t.Type == "tl1" || t.Type == "tl2":
			return t, fmt.Errorf("is %s, packed for the tile sizes of the build that wrote it, which the file does not name: want i2_s", t.Type)
		case t.Ternary && t.Type != "i2_s":
			return t, fmt.Errorf("is %s, which has a scale for each block or row rather than one: want i2_s", t.Type)
		case !t.Ternary:
			return t, fmt.Errorf("is %s, which is not ternary: want i2_s", t.Type)
		case t.N()*t.K()%blockWeights != 0:
			return t, fmt.Errorf("%d x %d weights are no whole number of blocks of %d", t.N(), t.K(), blockWeights)
		case t.Bytes < t.N()*t.K()/4+4:
			return t, fmt.Errorf("its scale is missing: want it behind the codes")
		case t.N()*t.K() > maxCodes:
			return t, fmt.Errorf("%d x %d weights: want no more than %d in all", t.N(), t.K(), uint64(maxCodes))
		}
		return t, nil
	}
	return Tensor{}, fmt.Errorf("no such tensor among the %d of the file", len(f.Tensors))
}

// unpack reads and decodes t, a few hundred blocks at a time.
func (f *File) unpack(t Tensor) ([]int8, float32, error) {
	weights := t.N() * t.K()
	codes := make([]int8, weights)
	chunk := make([]byte, min(windowBytes, weights/4))
	for done := uint64(0); done < weights; done += 4 * uint64(len(chunk)) {
		chunk = chunk[:min(uint64(len(chunk)), (weights-done)/4)]
		if _, err := f.src.ReadAt(chunk, int64(t.Offset+done/4)); err != nil {
			return nil, 0, err
		}
		if bad := decode(codes[done:], chunk); bad >= 0 {
			return nil, 0, fmt.Errorf("byte %d holds the code 3, which i2_s does not have: the data is damaged", done/4+uint64(bad))
		}
	}
	scale, err := f.scale(int64(t.Offset + weights/4))
	return codes, scale, err
}

// decode unpacks whole blocks of packed into codes, and returns the index of the first byte with a code of 3, or -1.
func decode(codes []int8, packed []byte) int {
	for i, b := range packed {
		if b&(b>>1)&0x55 != 0 {
			return i
		}
		w := codes[i/32*blockWeights+i%32:]
		w[0] = int8(b>>6) - 1
		w[32] = int8(b>>4&3) - 1
		w[64] = int8(b>>2&3) - 1
		w[96] = int8(b&3) - 1
	}
	return -1
}

// scale reads the float32 at offset, in the byte order of the file.
func (f *File) scale(offset int64) (float32, error) {
	var b [4]byte
	if _, err := f.src.ReadAt(b[:], offset); err != nil {
		return 0, err
	}
	s := math.Float32frombits(f.order.Uint32(b[:]))
	if math.IsNaN(float64(s)) || math.IsInf(float64(s), 0) {
		return 0, fmt.Errorf("its scale is %v: want a number", s)
	}
	return s, nil
}
