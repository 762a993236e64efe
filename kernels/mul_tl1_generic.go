package kernels

func init() {
	register(Kernel{
		Name: "mul/tl1/generic", Rev: 1, Layout: TL1, Tiles: []Tile{{1, 1}},
		Default: func(int) Blocking { return Blocking{Tile: Tile{1, 1}} },
		Mul:     mulTL1Generic,
	})
}

// mulTL1Generic is the reference: it takes every index apart and multiplies.
func mulTL1Generic(dst []int32, w *Packed, x *Activations, rows Rows, _ []byte, _ Blocking) {
	checkMul(dst, w, x, rows, TL1)
	steps := tl1Grid.steps(w.K)
	for n := rows.From; n < rows.To; n++ {
		start, stride := tl1Grid.stream(w.N, w.K, n/RowAlign)
		row := w.Data[start+n%RowAlign:]
		for m := range x.M {
			token := x.X[m*x.Stride:]
			var sum int32
			for s := range steps {
				for v := range 4 {
					pairs := row[s*stride+v*RowAlign]
					four := token[tl1Grid.cols*s+4*v:][:4]
					low, high := int32(pairs&15), int32(pairs>>4)
					sum += (low/3-1)*int32(four[0]) + (low%3-1)*int32(four[1])
					sum += (high/3-1)*int32(four[2]) + (high%3-1)*int32(four[3])
				}
			}
			dst[m*w.N+n] = sum
		}
	}
}
