package kernels

import "encoding/binary"

// fiver is a layout of t5Grid with five weights to a byte: T5 or T5F.
type fiver struct {
	codes [256][t5Weights]uint8 // the codes w+1 of each byte
	bytes [243]byte             // the byte for Σ code[f] * 3^f; of several, the lowest
}

// newFiver takes the meaning of a byte. Byte 0 must be five times code 0.
func newFiver(codes func(byte) [t5Weights]uint8) *fiver {
	var v fiver
	for b := 255; b >= 0; b-- {
		v.codes[b] = codes(byte(b))
		v.bytes[fiveNumber(v.codes[b])] = byte(b)
	}
	return &v
}

func fiveNumber(codes [t5Weights]uint8) (number uint8) {
	for f := t5Weights - 1; f >= 0; f-- {
		number = 3*number + codes[f]
	}
	return number
}

func (v *fiver) format(layout Layout) Format {
	return Format{Layout: layout, Bits: 8. / t5Weights, BlockRows: blockGroups * RowAlign, Bytes: t5Grid.bytes, Pack: v.pack, Unpack: v.unpack, Random: v.random}
}

func (v *fiver) pack(data []byte, w []int8, n, k int) {
	t5Grid.eachDword(n, k, func(at, row, col int) {
		switch {
		case row >= n:
			clear(data[at : at+4])
		case col+t5Cols <= k:
			v.put((*[4]byte)(data[at:]), (*[t5Cols]int8)(w[row*k+col:]))
		default:
			var tail [t5Cols]int8
			for i := copy(tail[:], w[row*k+col:(row+1)*k]); i < t5Cols; i++ {
				tail[i] = -1 // code 0
			}
			v.put((*[4]byte)(data[at:]), &tail)
		}
	})
}

func (v *fiver) put(dword *[4]byte, w *[t5Cols]int8) {
	var numbers uint32 // fiveNumber of four bytes at a time: it fits a byte
	for f := t5Weights - 1; f >= 0; f-- {
		numbers = 3*numbers + fourCodes((*[4]int8)(w[4*f:]))
	}
	for b := range dword {
		dword[b] = v.bytes[numbers>>(8*b)&0xff]
	}
}

func (v *fiver) unpack(w []int8, data []byte, n, k int) {
	t5Grid.eachDword(n, k, func(at, row, col int) {
		if row >= n {
			return
		}
		for i := range min(k-col, t5Cols) {
			w[row*k+col+i] = int8(v.codes[data[at+i%4]][i/4]) - 1
		}
	})
}

// random draws bytes; the 13 that pack does not make become those that mean the same.
func (v *fiver) random(data []byte, n, k int, seed uint64) {
	var packed [256]byte
	for b, codes := range v.codes {
		packed[b] = v.bytes[fiveNumber(codes)]
	}
	rng := splitMix(seed)
	for i := 0; i < len(data); i += 8 {
		eight := (*[8]byte)(data[i:])
		binary.LittleEndian.PutUint64(eight[:], rng.next())
		for j, b := range eight {
			eight[j] = packed[b]
		}
	}
	v.clearColumns(data, n, k)
	t5Grid.clearRows(data, n, k)
}

// clearColumns sets the codes beyond column k to 0.
func (v *fiver) clearColumns(data []byte, n, k int) {
	used := k % t5Cols
	if used == 0 {
		return
	}
	for g := range groups(n) {
		start, stride := t5Grid.stream(n, k, g)
		last := data[start+(t5Grid.steps(k)-1)*stride:][:t5Grid.size]
		for i, b := range last {
			codes := v.codes[b]
			for f := range codes {
				if 4*f+i%4 >= used {
					codes[f] = 0
				}
			}
			last[i] = v.bytes[fiveNumber(codes)]
		}
	}
}

// mul takes every byte apart and multiplies: it is the reference of both layouts.
func (v *fiver) mul(dst []int32, w *Packed, x *Activations, rows Rows) {
	steps := t5Grid.steps(w.K)
	for n := rows.From; n < rows.To; n++ {
		start, stride := t5Grid.stream(w.N, w.K, n/RowAlign)
		row := w.Data[start+4*(n%RowAlign):]
		for m := range x.M {
			token := x.X[m*x.Stride:]
			var sum int32
			for s := range steps {
				for b := range 4 {
					for f, code := range v.codes[row[s*stride+b]] {
						sum += (int32(code) - 1) * int32(token[t5Cols*s+4*f+b])
					}
				}
			}
			dst[m*w.N+n] = sum
		}
	}
}
