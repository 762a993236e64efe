package kernels

func init() {
	register(Kernel{
		Name: "mul/t5f/generic", Rev: 1, Layout: T5F, Tiles: []Tile{{1, 1}},
		Default: func(int) Blocking { return Blocking{Tile: Tile{1, 1}} },
		Mul:     mulT5FGeneric,
	})
}

func mulT5FGeneric(dst []int32, w *Packed, x *Activations, rows Rows, _ []byte, _ Blocking) {
	checkMul(dst, w, x, rows, T5F)
	t5f.mul(dst, w, x, rows)
}
