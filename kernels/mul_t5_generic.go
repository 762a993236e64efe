package kernels

func init() {
	register(Kernel{
		Name: "mul/t5/generic", Rev: 1, Layout: T5, Tiles: []Tile{{1, 1}},
		Default: func(int) Blocking { return Blocking{Tile: Tile{1, 1}} },
		Mul:     mulT5Generic,
	})
}

func mulT5Generic(dst []int32, w *Packed, x *Activations, rows Rows, _ []byte, _ Blocking) {
	checkMul(dst, w, x, rows, T5)
	t5.mul(dst, w, x, rows)
}
