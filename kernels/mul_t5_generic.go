package kernels

func init() {
	register(Kernel{
		Name: "mul/t5/generic", Rev: 1, Layout: T5, Tiles: []Tile{{1, 1}},
		Default: func(int) Blocking { return Blocking{Tile: Tile{1, 1}} },
		Mul:     mulT5Generic,
	})
}

// mulT5Generic is the reference: it takes every byte apart and multiplies.
func mulT5Generic(dst []int32, w *Packed, x *Activations, rows Rows, _ []byte, _ Blocking) {
	checkMul(dst, w, x, rows, T5)
	steps := t5Grid.steps(w.K)
	for n := rows.From; n < rows.To; n++ {
		start, stride := t5Grid.stream(w.N, w.K, n/RowAlign)
		row := w.Data[start+4*(n%RowAlign):]
		for m := range x.M {
			token := x.X[m*x.Stride:]
			var sum int32
			for s := range steps {
				for b := range 4 {
					for f, code := range t5Codes[row[s*stride+b]] {
						sum += (int32(code) - 1) * int32(token[t5Cols*s+4*f+b])
					}
				}
			}
			dst[m*w.N+n] = sum
		}
	}
}
