package kernels

// checkMul panics where the arguments of a Kernel.Mul would make it read or write what it must not. Every kernel
// calls it first, so that the assembly needs no bounds of its own.
func checkMul(dst []int32, w *Packed, x *Activations, rows Rows, layout Layout) {
	switch {
	case w.Layout != layout:
		panic("kernels: weights in another layout than the kernel's")
	case w.N < 1 || w.K < 1 || w.K > MaxCols:
		panic("kernels: weights without rows or columns, or with more than MaxCols")
	case len(w.Data) < formats[layout].Bytes(w.N, w.K):
		panic("kernels: weight data too short")
	case x.K != w.K:
		panic("kernels: activations of another K than the weights")
	case x.M < 0 || x.Stride < paddedCols(x.K) || len(x.X) < x.M*x.Stride || len(x.Sum) < x.M:
		panic("kernels: activations too short")
	case rows.From < 0 || rows.From > rows.To || rows.To > w.N:
		panic("kernels: rows out of range")
	case rows.From%RowAlign != 0 || rows.To%RowAlign != 0 && rows.To != w.N:
		panic("kernels: rows not aligned to RowAlign")
	case len(dst) < x.M*w.N:
		panic("kernels: dst too short")
	}
}
