package kernels

// checkMul panics where the arguments of a Kernel.Mul would make it read or write what it must not. Every kernel
// calls it first, so that the assembly needs no bounds of its own. It divides where a product could overflow.
func checkMul(dst []int32, w *Packed, x *Activations, rows Rows, layout Layout) {
	switch {
	case w.Layout != layout:
		panic("kernels: weights in another layout than the kernel's")
	case w.N < 1 || w.K < 1 || w.K > MaxCols:
		panic("kernels: weights without rows or columns, or with more than MaxCols")
	case w.N > 8*len(w.Data)/w.K || len(w.Data) < formats[layout].Bytes(w.N, w.K): // a weight takes a bit at least
		panic("kernels: weight data too short")
	case x.K != w.K:
		panic("kernels: activations of another K than the weights")
	case x.M < 0 || x.Stride < Stride(x.K) || x.M > len(x.X)/x.Stride || len(x.Sum) < x.M:
		panic("kernels: activations too short")
	case rows.From < 0 || rows.From > rows.To || rows.To > w.N:
		panic("kernels: rows out of range")
	case rows.From%RowAlign != 0 || rows.To%RowAlign != 0 && rows.To != w.N:
		panic("kernels: rows not aligned to RowAlign")
	case !holds(len(dst), x.M, w.N):
		panic("kernels: dst too short")
	}
}

// holds reports whether m rows of n elements fit into size.
func holds(size, m, n int) bool { return m >= 0 && n >= 0 && (m == 0 || n <= size/m) }
