package kernels

func init() {
	register(Kernel{
		Name: "mul/i2s/generic", Rev: 1, Layout: I2S, Tiles: []Tile{{1, 1}},
		Default: func(int) Blocking { return Blocking{Tile: Tile{1, 1}} },
		Mul:     mulI2SGeneric,
	})
}

// mulI2SGeneric is the reference: it takes every weight apart and multiplies.
func mulI2SGeneric(dst []int32, w *Packed, x *Activations, rows Rows, _ []byte, _ Blocking) {
	checkMul(dst, w, x, rows, I2S)
	steps := i2sGrid.steps(w.K)
	for n := rows.From; n < rows.To; n++ {
		start, stride := i2sGrid.stream(w.N, w.K, n/RowAlign)
		row := w.Data[start+4*(n%RowAlign):]
		for m := range x.M {
			token := x.X[m*x.Stride:]
			var sum int32
			for s := range steps {
				for b := range 4 {
					code := row[s*stride+b]
					for f := range 4 {
						sum += (int32(code>>(2*f)&3) - 1) * int32(token[i2sCols*s+4*f+b])
					}
				}
			}
			dst[m*w.N+n] = sum
		}
	}
}
