package kernels

import (
	"encoding/binary"
	"unsafe"
)

// I2S stores a weight in two bits, as the code w+1.
//
// Sixteen rows by sixteen columns are one 64-byte vector: dword lane r belongs to row r, and field f (bits 2f and
// 2f+1) of its byte b to column 4f + b. So one field of a vector meets four consecutive activations, which are
// broadcast as a dword, and no sum ever crosses lanes.
//
// Rows are padded to 16 and columns to 16 with code 0; see grid for the order of the vectors.
const I2S Layout = "i2s"

const i2sCols = 16 // columns per vector

var i2sGrid = grid{cols: i2sCols, size: 64}

func init() {
	registerFormat(Format{Layout: I2S, Bits: 2, BlockRows: blockGroups * RowAlign, Bytes: i2sGrid.bytes, Pack: packI2S, Unpack: unpackI2S, Random: randomI2S})
}

func packI2S(data []byte, w []int8, n, k int) {
	i2sGrid.eachDword(n, k, func(at, row, col int) {
		var dword uint32
		switch {
		case row >= n:
		case col+i2sCols <= k:
			dword = codesI2S((*[i2sCols]int8)(w[row*k+col:]))
		default:
			tail := [i2sCols]int8{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1} // code 0
			copy(tail[:], w[row*k+col:(row+1)*k])
			dword = codesI2S(&tail)
		}
		binary.LittleEndian.PutUint32(data[at:], dword)
	})
}

// codesI2S packs sixteen weights into a dword: field f of byte b is w[4f+b] + 1.
func codesI2S(w *[i2sCols]int8) uint32 {
	var dword uint32
	for f := range 4 {
		dword |= fourCodes((*[4]int8)(w[4*f:])) << (2 * f)
	}
	return dword
}

// fourCodes returns w+1, a byte each.
func fourCodes(w *[4]int8) uint32 {
	const low2, one = 0x03030303, 0x01010101
	four := binary.LittleEndian.Uint32((*[4]byte)(unsafe.Pointer(w))[:])
	return (four&low2 + one) & low2 // -1, 0, 1 end in 3, 0, 1; no byte carries into the next
}

func unpackI2S(w []int8, data []byte, n, k int) {
	i2sGrid.eachDword(n, k, func(at, row, col int) {
		if row >= n {
			return
		}
		dword := binary.LittleEndian.Uint32(data[at:])
		for i := range min(k-col, i2sCols) {
			code := dword >> (8*(i%4) + 2*(i/4)) & 3
			w[row*k+col+i] = int8(code) - 1
		}
	})
}

func randomI2S(data []byte, n, k int, seed uint64) {
	rng := splitMix(seed)
	for i := 0; i < len(data); i += 8 {
		binary.LittleEndian.PutUint64(data[i:], rng.codesI2S())
	}
	clearPaddingI2S(data, n, k)
}

// codesI2S draws two bits per code; where they are 3 it draws once more, and a second 3 becomes 1: the codes 0, 1
// and 2 come with probability 5/16, 6/16 and 5/16.
func (s *splitMix) codesI2S() uint64 {
	const low = 0x5555555555555555
	codes := s.next()
	three := codes & (codes >> 1) & low
	codes ^= (three | three<<1) &^ s.next()
	three = codes & (codes >> 1) & low
	return codes &^ (three << 1)
}

// clearPaddingI2S sets the codes beyond row n and column k to 0.
func clearPaddingI2S(data []byte, n, k int) {
	steps := i2sGrid.steps(k)
	if used := k % i2sCols; used != 0 {
		var mask uint32
		for i := range used {
			mask |= 3 << (8*(i%4) + 2*(i/4))
		}
		for g := range groups(n) {
			start, stride := i2sGrid.stream(n, k, g)
			last := data[start+(steps-1)*stride:][:i2sGrid.size]
			for i := 0; i < len(last); i += 4 {
				binary.LittleEndian.PutUint32(last[i:], binary.LittleEndian.Uint32(last[i:])&mask)
			}
		}
	}
	i2sGrid.clearRows(data, n, k)
}

// splitMix is the SplitMix64 generator: Steele, Lea, Flood (2014), "Fast splittable pseudorandom number generators".
type splitMix uint64

func (s *splitMix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
