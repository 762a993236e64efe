package kernels

import (
	"fmt"
	"sort"
	"unsafe"
)

// MaxCols is the largest K of a packed matrix. Up to it every intermediate sum of every kernel fits an int32: some
// keep a sum of codes up to 3 scaled by 64, and |Σ 3 * x| <= 3 * 128 * K; some one of bytes, |Σ 255 * x| <= 255 * 128 * K.
const MaxCols = 1 << 16

// DataAlign is the alignment in bytes of Packed.Data: a cache line and the widest vector.
const DataAlign = 64

// Format is the arithmetic of a layout: how many bytes a matrix takes, and how it gets in and out.
type Format struct {
	Layout Layout
	Bits   float64 // stored bits per weight, without padding
	// BlockRows is the number of rows that stay together: an n x k matrix is stored as those of BlockRows x k one after
	// the other, and one of the rows left over.
	BlockRows int
	// Bytes is the size of a packed n x k matrix.
	Bytes func(n, k int) int
	// Pack stores the row-major n x k matrix w, whose values are -1, 0 and 1, in data, which has Bytes(n, k) bytes.
	Pack func(data []byte, w []int8, n, k int)
	// Unpack is the inverse of Pack.
	Unpack func(w []int8, data []byte, n, k int)
	// Random fills data with a valid matrix of about as many -1 as 0 as 1, the same for the same seed.
	// It is meant for benchmarks and runs at memory speed; padding is what Pack would have made it.
	Random func(data []byte, n, k int, seed uint64)
}

var formats = map[Layout]Format{}

// registerFormat adds a layout; each pack_<layout>.go calls it once, from init.
func registerFormat(f Format) { formats[f.Layout] = f }

// FormatOf returns the format of a layout, and false for a layout that this build does not know.
func FormatOf(layout Layout) (Format, bool) {
	f, ok := formats[layout]
	return f, ok
}

// Layouts returns the layouts of this build in alphabetical order.
func Layouts() []Layout {
	all := make([]Layout, 0, len(formats))
	for layout := range formats {
		all = append(all, layout)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	return all
}

// Pack brings the row-major n x k matrix w into a layout. If data is nil the memory is allocated; else it must have
// exactly Bytes(n, k) bytes at an address divisible by DataAlign, and it is kept. The Scale of the result is 1.
func Pack(layout Layout, w []int8, n, k int, data []byte) (*Packed, error) {
	format, ok := FormatOf(layout)
	switch {
	case !ok:
		return nil, fmt.Errorf("kernels: pack %dx%d: unknown layout %q: one of %v", n, k, layout, Layouts())
	case n < 1 || k < 1 || k > MaxCols:
		return nil, fmt.Errorf("kernels: pack %dx%d: want at least 1 row and 1 to %d columns", n, k, MaxCols)
	case len(w)%k != 0 || len(w)/k != n: // n*k may overflow
		return nil, fmt.Errorf("kernels: pack %dx%d: %d weights, want %d x %d", n, k, len(w), n, k)
	}
	if i := firstNonTernary(w); i >= 0 {
		return nil, fmt.Errorf("kernels: pack %dx%d: weight %d in row %d, column %d: want -1, 0 or 1", n, k, w[i], i/k, i%k)
	}
	size := format.Bytes(n, k)
	switch {
	case data == nil:
		data = alignedBytes(size)
	case len(data) != size:
		return nil, fmt.Errorf("kernels: pack %dx%d as %s: %d bytes given, want %d", n, k, layout, len(data), size)
	case uintptr(unsafe.Pointer(unsafe.SliceData(data)))%DataAlign != 0:
		return nil, fmt.Errorf("kernels: pack %dx%d as %s: data is not aligned to %d bytes", n, k, layout, DataAlign)
	}
	format.Pack(data, w, n, k)
	return &Packed{Layout: layout, N: n, K: k, Data: data, Scale: 1}, nil
}

// firstNonTernary returns the index of the first value outside -1..1, or -1.
func firstNonTernary(w []int8) int {
	for i, v := range w {
		if uint8(v+1) > 2 {
			return i
		}
	}
	return -1
}

// alignedBytes returns size zero bytes at an address divisible by DataAlign.
func alignedBytes(size int) []byte {
	raw := make([]byte, size+DataAlign)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(raw)))) & (DataAlign - 1)
	return raw[skip : skip+size : skip+size]
}
