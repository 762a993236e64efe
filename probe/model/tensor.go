package model

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sort"
	"strings"
)

// Tensor is one tensor of a file.
type Tensor struct {
	Name   string
	Dims   []uint64 // as in the file: Dims[0] is the length of a row; a scalar has one of 1
	TypeID uint32   // as in the file
	Type   string   // what the type id means in this file: "i2_s", "f16" …; "type 137" where only the id is known
	Offset uint64   // of its first byte, from the start of the file
	Bytes  uint64   // what its type and dimensions take; where only the type id is known, all up to the next tensor
	// Ternary says that every weight is -1, 0 or 1 times a scale.
	Ternary bool
}

// K is the length of a row: the inputs of a matmul.
func (t Tensor) K() uint64 { return t.Dims[0] }

// N is the number of rows: the outputs of a matmul.
func (t Tensor) N() uint64 {
	n := uint64(1)
	for _, d := range t.Dims[1:] {
		n *= d
	}
	return n
}

// maxWeights bounds the weights of a tensor, so that sizes in bytes cannot overflow.
const maxWeights = 1 << 48

// tensors reads n tensor descriptions; offsets are still relative to the data section.
func (c *cursor) tensors(n uint64) []Tensor {
	tensors := make([]Tensor, 0, n)
	seen := make(map[string]bool, n)
	for i := uint64(0); i < n && c.err == nil; i++ {
		t := Tensor{Name: c.text("name", maxNameBytes)}
		switch {
		case c.err != nil:
			c.within("tensor %d of %d", i+1, n)
			return nil
		case t.Name == "":
			c.fail("the name of tensor %d is empty", i+1)
		case seen[t.Name]:
			c.fail("occurs twice")
		}
		t.Dims, t.TypeID, t.Offset = c.dims(), c.u32(), c.u64()
		c.within("tensor %q", t.Name)
		seen[t.Name] = true
		tensors = append(tensors, t)
	}
	return tensors
}

func (c *cursor) dims() []uint64 {
	n := c.u32()
	if c.err == nil && n > 4 {
		c.fail("%d dimensions: want 0 to 4", n)
	}
	if c.err != nil {
		return []uint64{0}
	}
	if n == 0 { // a scalar: the scales that bitnet.cpp's converter writes for TL1 and TL2
		return []uint64{1}
	}
	dims, weights := make([]uint64, n), uint64(1)
	for i := range dims {
		dims[i] = c.count()
		high, low := bits.Mul64(weights, dims[i])
		if weights = low; c.err == nil && (high > 0 || low > maxWeights) {
			c.fail("dimensions %v make more than 2^48 weights", dims)
		}
		if c.err == nil && low == 0 {
			c.fail("dimension %d is 0", i+1)
		}
	}
	return dims
}

// placement is where the tensors of a file may lie and what helps to tell formats apart.
type placement struct {
	data, size uint64 // start of the data section, size of the file
	align      uint64
	ternary    bool // what the file says of itself points to a ternary meaning of an ambiguous type id
}

// place turns relative offsets into absolute ones, and decides for each tensor what its type id means by comparing
// the room up to the next tensor with the size of each candidate.
func (p placement) place(tensors []Tensor) error {
	order := make([]*Tensor, len(tensors))
	for i := range tensors {
		order[i] = &tensors[i]
		if err := p.locate(order[i]); err != nil {
			return fmt.Errorf("tensor %q: %w", tensors[i].Name, err)
		}
	}
	sort.SliceStable(order, func(i, j int) bool { return order[i].Offset < order[j].Offset })
	for i, t := range order {
		var next *Tensor
		if i+1 < len(order) {
			next = order[i+1]
		}
		if err := p.decide(t, next); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

// locate makes the offset of t absolute.
func (p placement) locate(t *Tensor) error {
	if t.Offset%p.align != 0 {
		return fmt.Errorf("offset %d is not a multiple of the alignment, %d", t.Offset, p.align)
	}
	if p.data >= p.size || t.Offset >= p.size-p.data {
		return fmt.Errorf("offset %d into the data is beyond the end of the file, which has %d bytes of data: the file is truncated", t.Offset, p.size-min(p.data, p.size))
	}
	t.Offset += p.data
	return nil
}

// decide sets what t is, by its type id and the room it has up to next (nil = the end of the file).
func (p placement) decide(t, next *Tensor) error {
	room := p.size - t.Offset
	if next != nil {
		room = next.Offset - t.Offset
	}
	candidates := formatsOf(t.TypeID)
	if len(candidates) == 0 {
		return t.unsized(room)
	}
	var exact, loose []format
	var sizes []string
	for _, f := range candidates {
		size, ok := f.sizeIn(t, next)
		if !ok {
			continue
		}
		sizes = append(sizes, fmt.Sprintf("%s takes %d", f.name, size))
		switch {
		case size <= room && room-size < p.align:
			exact = append(exact, f)
		case size <= room && next == nil:
			loose = append(loose, f) // some writers leave bytes behind the last tensor
		}
	}
	if len(exact) == 0 {
		exact = loose
	}
	if len(exact) == 0 {
		return misfit(t, next, room, candidates, sizes)
	}
	t.become(p.prefer(exact), next)
	return nil
}

// prefer chooses among formats that fit. There are several only for the last tensor of a file with bytes to spare.
func (p placement) prefer(fit []format) format {
	for _, f := range fit {
		if f.ternary == p.ternary {
			return f
		}
	}
	return fit[0]
}

// sizeIn is the size of t in format f, less the tail if the scale is a tensor of its own.
func (f format) sizeIn(t, next *Tensor) (uint64, bool) {
	size, ok := f.size(t.N(), t.K())
	if ok && f.tail > 0 && next != nil && next.Name == t.Name+"_scale" {
		size -= f.tail
	}
	return size, ok
}

func (t *Tensor) become(f format, next *Tensor) {
	t.Type, t.Ternary = f.name, f.ternary
	t.Bytes, _ = f.sizeIn(t, next)
}

// unsized accepts type ids that are known by number only.
func (t *Tensor) unsized(room uint64) error {
	if name, gone := removed[t.TypeID]; gone {
		return fmt.Errorf("type %d (%s) was removed from ggml: convert the file again", t.TypeID, name)
	}
	if !slices.Contains(unsized, t.TypeID) {
		return fmt.Errorf("type %d is unknown to ggml, bitnet.cpp and ik_llama.cpp", t.TypeID)
	}
	if room == 0 {
		return errors.New("shares its offset with another tensor")
	}
	t.Type, t.Bytes = fmt.Sprintf("type %d", t.TypeID), room
	return nil
}

// misfit says why no candidate fits the room.
func misfit(t, next *Tensor, room uint64, candidates []format, sizes []string) error {
	if len(sizes) == 0 {
		return fmt.Errorf("type %d (%s) cannot hold rows of %d weights", t.TypeID, names(candidates), t.K())
	}
	takes := strings.Join(sizes, ", ")
	if next == nil {
		return fmt.Errorf("%s bytes, but the file ends %d bytes after its start: the file is truncated", takes, room)
	}
	return fmt.Errorf("%s bytes, but tensor %q begins %d bytes after its start: they overlap, leave a gap, or have another type", takes, next.Name, room)
}
