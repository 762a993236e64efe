package model

import (
	"encoding/binary"
	"math"
)

// Limits on what a header may claim. They are far above every published model (the largest have a few thousand
// tensors and about 300 thousand tokens) and bound the work that a hostile file can cause.
const (
	maxKeys        = 4096
	maxTensors     = 65536
	maxStringBytes = 64 << 20
	maxElements    = 16 << 20
	maxHeaderBytes = 256 << 20
	maxKeyBytes    = 1<<16 - 1 // GGUF specification
	maxNameBytes   = 64        // GGUF specification
	maxAlignment   = 1 << 20
	keepBytes      = 4 << 10 // strings longer than this are skipped: chat templates, licences
)

// Value types of GGUF metadata.
const (
	typeUint8 = iota
	typeInt8
	typeUint16
	typeInt16
	typeUint32
	typeInt32
	typeFloat32
	typeBool
	typeString
	typeArray
	typeUint64
	typeInt64
	typeFloat64
)

var valueNames = [...]string{"u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"}

// scalarBytes is the size of a value; 0 where it has no fixed size.
var scalarBytes = [...]uint64{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

// Skipped stands for a value that the reader passed over: an array, or a string longer than 4 KiB.
type Skipped struct {
	Type  string // "u8" … "f64", "bool" or "string": of the elements of an array
	Count uint64 // elements of an array; bytes of a string
}

// start reads magic, version and byte order, and returns the version.
func (c *cursor) start() uint32 {
	if c.limit == 0 {
		c.fail("the file is empty: want a GGUF file")
	}
	if magic := c.take(int(min(4, c.limit))); string(magic) != "GGUF" {
		c.fail("magic: %q is not \"GGUF\": not a GGUF file", magic)
	}
	c.order = binary.LittleEndian
	version := c.u32()
	if version != 0 && version&0xffff == 0 {
		c.order = binary.BigEndian
		version = swap32(version)
	}
	if c.err == nil && (version < 1 || version > 3) {
		c.fail("version: %d is unknown: want 1, 2 or 3", version)
	}
	c.wide = version > 1
	return version
}

func swap32(v uint32) uint32 {
	return binary.BigEndian.Uint32(binary.LittleEndian.AppendUint32(nil, v))
}

// claims reads how many tensors and keys follow, and refuses what the file is too short to hold.
func (c *cursor) claims() (tensors, keys uint64) {
	tensors, keys = c.count(), c.count()
	if tensors > maxTensors {
		c.fail("tensor count: %d is more than the %d that are allowed", tensors, maxTensors)
	}
	if keys > maxKeys {
		c.fail("key count: %d is more than the %d that are allowed", keys, maxKeys)
	}
	leastKey := c.countBytes() + 1 + 4 + 1      // length, name, type, value
	leastTensor := 2*c.countBytes() + 4 + 4 + 8 // length, dimensions, one dimension, type, offset
	if c.err == nil && tensors*leastTensor+keys*leastKey > c.remaining() {
		c.fail("%d tensors and %d keys are claimed, but only %d bytes follow: the file is truncated", tensors, keys, c.remaining())
	}
	return tensors, keys
}

// keys reads n metadata entries.
func (c *cursor) keys(n uint64) map[string]any {
	keys := make(map[string]any, n)
	for i := uint64(0); i < n && c.err == nil; i++ {
		name := c.text("name", maxKeyBytes)
		_, twice := keys[name]
		switch {
		case c.err != nil:
			c.within("key %d of %d", i+1, n)
			return keys
		case name == "":
			c.fail("the name is empty")
		case twice:
			c.fail("occurs twice")
		}
		keys[name] = c.value(c.u32())
		c.within("key %q", shorten(name))
	}
	return keys
}

// value reads one metadata value as uint64, int64, float64, bool, string or Skipped.
func (c *cursor) value(kind uint32) any {
	switch {
	case c.err != nil:
		return nil
	case kind == typeString:
		return c.stringValue()
	case kind == typeArray:
		return c.array()
	case int(kind) < len(scalarBytes):
		return c.scalar(kind)
	}
	c.fail("value type %d is unknown: want 0 to %d", kind, len(scalarBytes)-1)
	return nil
}

func (c *cursor) scalar(kind uint32) any {
	b := c.take(int(scalarBytes[kind]))
	if b == nil {
		return nil
	}
	switch kind {
	case typeUint8:
		return uint64(b[0])
	case typeInt8:
		return int64(int8(b[0]))
	case typeUint16:
		return uint64(c.order.Uint16(b))
	case typeInt16:
		return int64(int16(c.order.Uint16(b)))
	case typeUint32:
		return uint64(c.order.Uint32(b))
	case typeInt32:
		return int64(int32(c.order.Uint32(b)))
	case typeFloat32:
		return float64(math.Float32frombits(c.order.Uint32(b)))
	case typeBool:
		return b[0] != 0
	case typeUint64:
		return c.order.Uint64(b)
	case typeInt64:
		return int64(c.order.Uint64(b))
	default:
		return math.Float64frombits(c.order.Uint64(b))
	}
}

func (c *cursor) stringValue() any {
	n := c.count()
	if n > maxStringBytes {
		c.fail("string of %d bytes: want at most %d", n, maxStringBytes)
	}
	if n > keepBytes {
		c.skip(n)
		return Skipped{Type: "string", Count: n}
	}
	return string(c.take(int(n)))
}

// array passes over an array; only its type and length are of interest.
func (c *cursor) array() any {
	kind, n := c.u32(), c.count()
	switch {
	case c.err != nil:
		return nil
	case kind == typeArray:
		c.fail("array of arrays: want an array of scalars or strings")
	case int(kind) >= len(scalarBytes):
		c.fail("array of unknown type %d: want 0 to %d", kind, len(scalarBytes)-1)
	case n > maxElements:
		c.fail("array of %d elements: want at most %d", n, maxElements)
	case kind == typeString:
		c.skipStrings(n)
	default:
		c.skip(n * scalarBytes[kind])
	}
	if c.err != nil {
		return nil
	}
	return Skipped{Type: valueNames[kind], Count: n}
}

func (c *cursor) skipStrings(n uint64) {
	if !c.has(n * c.countBytes()) {
		return
	}
	for range n {
		if c.skip(c.count()); c.err != nil {
			return
		}
	}
}
