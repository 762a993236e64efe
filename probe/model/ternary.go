package model

import (
	"fmt"
	"math"
)

// maxCodes bounds the codes of one tensor in memory: 8 GiB, ten times the largest matmul of a 405B model (53248 x 16384).
const maxCodes = 1 << 33

// Packing is what a file does not tell of how its ternary tensors were packed. The zero value takes what can be
// concluded from the file, and refuses where nothing can. Hardly any check finds a wrong Packing: see the Caveats of the
// package.
type Packing struct {
	// Tiles are those of a TL1 or TL2 tensor. If they are zero, those that bitnet.cpp publishes for the tensor's shape
	// are assumed, where the file is otherwise like one that bitnet.cpp made with them.
	Tiles TileParameters
	// I2S is the byte order of an I2_S tensor. If it is empty, I2SBlocks128 is assumed.
	I2S I2SOrder
}

// Ternary loads the weights of a ternary tensor: n*k codes of -1, 0 or 1, row by row, and what a weight of 1 stands for.
// It is TernaryAs with the zero Packing.
func (f *File) Ternary(name string) (codes []int8, scale float32, n, k int, err error) {
	return f.TernaryAs(name, Packing{})
}

// TernaryAs is Ternary for a tensor that was packed in a way that its file does not tell. It loads I2_S, TL1, TL2, TQ1_0,
// TQ2_0, IQ1_BN and IQ2_BN, the last four only if the whole tensor has one scale, as it has in a model whose weights were
// ternary before they were packed. Everything else is refused, with the reason. Besides the codes it needs 64 KiB.
func (f *File) TernaryAs(name string, p Packing) (codes []int8, scale float32, n, k int, err error) {
	t, err := f.tensor(name)
	if err == nil {
		codes, scale, err = f.unpack(t, p)
	}
	if err != nil {
		return nil, 0, 0, 0, fmt.Errorf("model: load tensor %q: %w", shorten(name), err)
	}
	return codes, scale, int(t.N()), int(t.K()), nil
}

// tensor finds the tensor called name.
func (f *File) tensor(name string) (Tensor, error) {
	for _, t := range f.Tensors {
		if t.Name == name {
			return t, nil
		}
	}
	return Tensor{}, fmt.Errorf("no such tensor among the %d of the file", len(f.Tensors))
}

// unpacker writes the codes of a tensor of n*k weights and returns their scale.
type unpacker func(codes []int8, n, k int) (scale float32, err error)

// unpack checks what can be checked before memory is taken, then decodes t front to back.
func (f *File) unpack(t Tensor, p Packing) ([]int8, float32, error) {
	weights := t.N() * t.K()
	if t.Ternary && weights > maxCodes {
		return nil, 0, fmt.Errorf("%d x %d weights: want no more than %d in all", t.N(), t.K(), uint64(maxCodes))
	}
	unpack, err := f.unpackerOf(t, p)
	if err != nil {
		return nil, 0, err
	}
	codes := make([]int8, weights)
	scale, err := unpack(codes, int(t.N()), int(t.K()))
	return codes, scale, err
}

// unpackerOf refuses what cannot be loaded.
func (f *File) unpackerOf(t Tensor, p Packing) (unpacker, error) {
	switch t.Type {
	case "i2_s":
		return f.i2s(t, p.I2S)
	case "tl1", "tl2":
		return f.tl(t, p.Tiles)
	case "tq1_0":
		return f.blockScales(t, 54, 256, tq1Block), nil
	case "tq2_0":
		return f.blockScales(t, 66, 256, tq2Block), nil
	case "iq1_bn":
		return f.rowScales(t, 2, 13, iq1Block), nil
	case "iq2_bn":
		return f.rowScales(t, 4, 16, iq2Block), nil
	}
	const want = "want i2_s, tl1, tl2, tq1_0, tq2_0, iq1_bn or iq2_bn"
	if t.Ternary {
		return nil, fmt.Errorf("is %s, whose layout is not known here: %s", t.Type, want)
	}
	return nil, fmt.Errorf("is %s, which is not ternary: %s", t.Type, want)
}

// data reads size bytes of the file from offset.
func (f *File) data(offset, size uint64) *cursor {
	return &cursor{src: f.src, pos: int64(offset), limit: int64(offset + size), order: f.order}
}

// tensorScale reads the scale of a tensor that has a single one: behind its codes or, as bitnet.cpp's converter for TL1
// and TL2 leaves it, in a tensor of its own called NAME_scale.
func (f *File) tensorScale(t Tensor, codes uint64) (float32, error) {
	offset := t.Offset + codes
	if t.Bytes < codes+4 {
		s, err := f.tensor(t.Name + "_scale")
		if err != nil {
			return 0, fmt.Errorf("its scale is missing: want it behind the codes, or as an f32 tensor %q", t.Name+"_scale")
		}
		if s.Type != "f32" || s.N()*s.K() != 1 {
			return 0, fmt.Errorf("its scale, tensor %q, is %d x %d of %s: want one f32", s.Name, s.N(), s.K(), s.Type)
		}
		offset = s.Offset
	}
	c := f.data(offset, 4)
	s := math.Float32frombits(c.u32())
	if c.err != nil {
		return 0, c.err
	}
	return s, finite(s)
}

func finite(scale float32) error {
	if math.IsNaN(float64(scale)) || math.IsInf(float64(scale), 0) {
		return fmt.Errorf("its scale is %v: want a number", scale)
	}
	return nil
}

// blockCode unpacks one block into codes, and returns the index of the first byte that holds a code which the format
// does not have, or -1.
type blockCode func(codes []int8, block []byte) int

// oneScale is the scale that all blocks of a tensor share.
type oneScale float32

// add takes the scale of one more block with its codes. A scale of 0 makes zeros of them.
func (s *oneScale) add(scale float32, codes []int8) error {
	if err := finite(scale); err != nil {
		return err
	}
	switch {
	case scale == 0:
		clear(codes)
	case *s == 0:
		*s = oneScale(scale)
	case float32(*s) != scale:
		return fmt.Errorf("its blocks have different scales, %v and %v: want one for the whole tensor, as a model with ternary weights has", *s, scale)
	}
	return nil
}

// damaged is the error for a code that a format does not have.
func damaged(t Tensor, at int64) error {
	return fmt.Errorf("byte %d holds a code that %s does not have: the data is damaged", uint64(at)-t.Offset, t.Type)
}
