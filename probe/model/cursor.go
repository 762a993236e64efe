package model

import (
	"encoding/binary"
	"fmt"
	"io"
)

// windowBytes is how much of the header is read at a time.
const windowBytes = 64 << 10

// cursor reads the header of a GGUF file front to back through a window, so that what is skipped costs no memory and,
// beyond the window, no reading. The first error sticks: every later read returns zero, and err tells why.
type cursor struct {
	src    io.ReaderAt
	limit  int64 // first byte that may not be read
	pos    int64 // next byte
	window []byte
	at     int64 // position of window[0]
	order  binary.ByteOrder
	wide   bool // counts and lengths have 64 bits; 32 in version 1
	err    error
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// within names the place of an error, if there is one.
func (c *cursor) within(format string, args ...any) {
	if c.err != nil {
		c.err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), c.err)
	}
}

// remaining is how many bytes are left; no count or length in a sound file is larger.
func (c *cursor) remaining() uint64 { return uint64(c.limit - c.pos) }

// has reports whether n more bytes exist, and fails if they do not.
func (c *cursor) has(n uint64) bool {
	if c.err == nil && n > c.remaining() {
		c.fail("%d bytes wanted at byte %d, but only %d are left: the file is truncated or a length in it is wrong", n, c.pos, c.remaining())
	}
	return c.err == nil
}

// take returns the next n bytes, which stay valid until the next take; nil after an error. n is at most windowBytes.
func (c *cursor) take(n int) []byte {
	if !c.has(uint64(n)) {
		return nil
	}
	if from := c.pos - c.at; from < 0 || from+int64(n) > int64(len(c.window)) {
		c.fill()
	}
	if c.err != nil {
		return nil
	}
	from := c.pos - c.at
	c.pos += int64(n)
	return c.window[from : from+int64(n)]
}

// fill moves the window to pos.
func (c *cursor) fill() {
	size := min(windowBytes, c.limit-c.pos)
	if c.window = c.window[:cap(c.window)]; int64(len(c.window)) < size {
		c.window = make([]byte, size)
	}
	c.window, c.at = c.window[:size], c.pos
	if n, err := c.src.ReadAt(c.window, c.pos); n < len(c.window) {
		c.fail("read at byte %d: %w", c.pos, err)
	}
}

// skip passes over n bytes.
func (c *cursor) skip(n uint64) {
	if c.has(n) {
		c.pos += int64(n)
	}
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return c.order.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return c.order.Uint64(b)
	}
	return 0
}

// count reads a count, length or dimension in the width of the file's version.
func (c *cursor) count() uint64 {
	if c.wide {
		return c.u64()
	}
	return uint64(c.u32())
}

// countBytes is the size of what count reads.
func (c *cursor) countBytes() uint64 {
	if c.wide {
		return 8
	}
	return 4
}

// text reads a string of at most most bytes; longer ones are an error.
func (c *cursor) text(what string, most uint64) string {
	n := c.count()
	if n > most {
		c.fail("%s of %d bytes: want at most %d", what, n, most)
	}
	return string(c.take(int(min(n, most))))
}
