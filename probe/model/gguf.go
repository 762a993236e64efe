package model

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
)

// File is the header of a GGUF file, read and checked, with access to the data behind it.
type File struct {
	Version uint32
	Keys    map[string]any // uint64, int64, float64, bool, string or Skipped
	Tensors []Tensor       // in the order of the file

	path  string
	src   io.ReaderAt
	order binary.ByteOrder
}

// Open reads the header of the GGUF file at path. The data stays in the file: Close it when done.
func Open(path string) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("model: open %s: %w", printable(path), cause(err))
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("model: open %s: is not a regular file: want a GGUF file", printable(path))
	}
	src, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("model: open %s: %w", printable(path), cause(err))
	}
	f, err := read(src, info.Size())
	if err != nil {
		src.Close()
		return nil, fmt.Errorf("model: open %s: %w", printable(path), err)
	}
	f.path = path
	return f, nil
}

// cause strips the path, which the message has already, from an error of package os.
func cause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// Read reads a GGUF header from the first size bytes of r, which stays in use by the File.
func Read(r io.ReaderAt, size int64) (*File, error) {
	f, err := read(r, size)
	if err != nil {
		return nil, fmt.Errorf("model: read GGUF: %w", err)
	}
	return f, nil
}

func read(r io.ReaderAt, size int64) (*File, error) {
	c := &cursor{src: r, limit: min(size, maxHeaderBytes)}
	f := &File{src: r}
	f.Version = c.start()
	f.order = c.order
	tensors, keys := c.claims()
	if c.err == nil {
		f.Keys = c.keys(keys)
	}
	if c.err == nil {
		f.Tensors = c.tensors(tensors)
	}
	if c.err != nil {
		return nil, c.err
	}
	align, err := f.alignment()
	if err != nil {
		return nil, err
	}
	p := placement{data: (uint64(c.pos) + align - 1) / align * align, size: uint64(size), align: align, ternary: f.saysTL2()}
	return f, p.place(f.Tensors)
}

// Close closes what Open opened.
func (f *File) Close() error {
	if src, ok := f.src.(io.Closer); ok && f.path != "" {
		return src.Close()
	}
	return nil
}

// alignment is that of the tensors: general.alignment, a power of two from 8 on, or 32.
func (f *File) alignment() (uint64, error) {
	value, given := f.Keys["general.alignment"]
	if !given {
		return 32, nil
	}
	align, ok := value.(uint64)
	if !ok {
		return 0, fmt.Errorf("key \"general.alignment\": is %s: want a u32", quote(value))
	}
	if align < 8 || align > maxAlignment || align&(align-1) != 0 {
		return 0, fmt.Errorf("key \"general.alignment\": %d: want a power of two from 8 to %d", align, maxAlignment)
	}
	return align, nil
}

// saysTL2 reports whether type id 39 is likely TL2 rather than MXFP4, by what the file says of itself. File types are
// ambiguous too: 39 is TL2 in bitnet.cpp and NVFP4 in mainline, 38 is TL1 there and MXFP4 here.
func (f *File) saysTL2() bool {
	arch, _ := f.Keys["general.architecture"].(string)
	kind, _ := f.Keys["general.file_type"].(uint64)
	return kind == 39 || strings.HasPrefix(arch, "bitnet") && kind != 38
}

// quote writes a metadata value with its type, for messages.
func quote(value any) string {
	switch v := value.(type) {
	case nil:
		return "missing"
	case Skipped:
		return fmt.Sprintf("%d x %s", v.Count, v.Type)
	case string:
		return fmt.Sprintf("the string %q", shorten(v))
	default:
		return fmt.Sprintf("%T %v", v, v)
	}
}

// printable replaces what could break a line or a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// shorten cuts a name that is too long for a message.
func shorten(s string) string {
	if len(s) > maxNameBytes {
		return s[:maxNameBytes] + "…"
	}
	return s
}
