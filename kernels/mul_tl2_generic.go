package kernels

func init() {
	register(Kernel{
		Name: "mul/tl2/generic", Rev: 1, Layout: TL2, Tiles: []Tile{{1, 1}},
		Default: func(int) Blocking { return Blocking{Tile: Tile{1, 1}} },
		Mul:     mulTL2Generic,
	})
}

// mulTL2Generic is the reference: it takes the weights apart and multiplies.
func mulTL2Generic(dst []int32, w *Packed, x *Activations, rows Rows, _ []byte, _ Blocking) {
	checkMul(dst, w, x, rows, TL2)
	for n := rows.From; n < rows.To; n++ {
		for m := range x.M {
			dst[m*w.N+n] = 0
		}
		rowCellsTL2(w.Data, w.K, n, func(c cellTL2) {
			var weights [tl2Fold]int8
			c.get(&weights)
			for m := range x.M {
				token := x.X[m*x.Stride+c.col:]
				for i, weight := range weights[:c.cols] {
					dst[m*w.N+n] += int32(weight) * int32(token[i])
				}
			}
		})
	}
}
