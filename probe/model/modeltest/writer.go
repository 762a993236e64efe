package modeltest

import (
	"encoding/binary"
	"math"
)

// Value types of GGUF metadata.
const (
	Uint8 = iota
	Int8
	Uint16
	Int16
	Uint32
	Int32
	Float32
	Bool
	String
	Array
	Uint64
	Int64
	Float64
)

// Writer puts together a GGUF header. The zero value writes version 3 in little-endian order.
type Writer struct {
	Version   uint32 // 0 = 3
	BigEndian bool
	Align     int    // of the data behind the header; 0 = 32
	Keys      uint64 // how many keys the header claims to have; 0 = as many as were added
	Tensors   uint64 // likewise

	keys, tensors   []byte
	nKeys, nTensors uint64
}

// order is the byte order of the file.
func (w *Writer) order() interface {
	binary.ByteOrder
	binary.AppendByteOrder
} {
	if w.BigEndian {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// Number returns v in n bytes of the byte order of the file.
func (w *Writer) Number(v uint64, n int) []byte {
	switch n {
	case 1:
		return []byte{byte(v)}
	case 2:
		return w.order().AppendUint16(nil, uint16(v))
	case 4:
		return w.order().AppendUint32(nil, uint32(v))
	case 8:
		return w.order().AppendUint64(nil, v)
	}
	panic("modeltest: a number has 1, 2, 4 or 8 bytes")
}

// Count returns v as a count, length or dimension, whose width depends on the version.
func (w *Writer) Count(v uint64) []byte {
	if w.Version == 1 {
		return w.Number(v, 4)
	}
	return w.Number(v, 8)
}

// Text returns s with its length in front.
func (w *Writer) Text(s string) []byte { return append(w.Count(uint64(len(s))), s...) }

// Key adds a key of any type with the bytes of its value, which Number, Text and Count make.
func (w *Writer) Key(name string, kind uint32, value ...[]byte) {
	w.keys = append(append(w.keys, w.Text(name)...), w.Number(uint64(kind), 4)...)
	for _, v := range value {
		w.keys = append(w.keys, v...)
	}
	w.nKeys++
}

// Uint32 adds a key with a u32.
func (w *Writer) Uint32(name string, v int) { w.Key(name, Uint32, w.Number(uint64(v), 4)) }

// Float32 adds a key with an f32.
func (w *Writer) Float32(name string, v float32) {
	w.Key(name, Float32, w.Number(uint64(math.Float32bits(v)), 4))
}

// Text adds a key with a string.
func (w *Writer) String(name, v string) { w.Key(name, String, w.Text(v)) }

// Strings adds a key with an array of n strings, the i-th of which is of(i).
func (w *Writer) Strings(name string, n int, of func(i int) string) {
	value := append(w.Number(String, 4), w.Count(uint64(n))...)
	for i := range n {
		value = append(value, w.Text(of(i))...)
	}
	w.Key(name, Array, value)
}

// Tensor adds a tensor at offset behind the start of the data; dims[0] is the length of a row.
func (w *Writer) Tensor(name string, kind uint32, offset uint64, dims ...uint64) {
	w.TensorBytes(name, uint32(len(dims)), kind, offset, dims...)
}

// TensorBytes is Tensor with a number of dimensions that need not be that of dims.
func (w *Writer) TensorBytes(name string, nDims, kind uint32, offset uint64, dims ...uint64) {
	w.tensors = append(append(w.tensors, w.Text(name)...), w.Number(uint64(nDims), 4)...)
	for _, d := range dims {
		w.tensors = append(w.tensors, w.Count(d)...)
	}
	w.tensors = append(append(w.tensors, w.Number(uint64(kind), 4)...), w.Number(offset, 8)...)
	w.nTensors++
}

// Header returns the header, padded to the start of the data.
func (w *Writer) Header() []byte {
	version, tensors, keys, align := w.Version, w.Tensors, w.Keys, w.Align
	if version == 0 {
		version = 3
	}
	if tensors == 0 {
		tensors = w.nTensors
	}
	if keys == 0 {
		keys = w.nKeys
	}
	if align == 0 {
		align = 32
	}
	b := append([]byte("GGUF"), w.Number(uint64(version), 4)...)
	b = append(append(b, w.Count(tensors)...), w.Count(keys)...)
	b = append(append(b, w.keys...), w.tensors...)
	return append(b, make([]byte, (align-len(b)%align)%align)...)
}
