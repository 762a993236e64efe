package ptx

// uniform is a special register that is the same in all threads of a block.
func uniform(value func(w *warp) uint64) func(w *warp, r *lanes) {
	return func(w *warp, r *lanes) {
		v := value(w)
		for i := range r {
			r[i] = v
		}
	}
}

// perLane is a special register that depends on the lane alone.
func perLane(value func(lane int) uint32) func(w *warp, r *lanes) {
	return func(_ *warp, r *lanes) {
		for i := range r {
			r[i] = uint64(value(i))
		}
	}
}

func threadIndex(axis int) func(w *warp, r *lanes) {
	return func(w *warp, r *lanes) {
		for i := range r {
			r[i] = uint64(w.b.thread(w.id*warpSize + i)[axis])
		}
	}
}

// specialRegisters are those that are read. Clocks and the place on a multiprocessor are missing: what a kernel did with
// them could not be repeated.
var specialRegisters = map[string]func(w *warp, r *lanes){
	"%laneid":      perLane(func(lane int) uint32 { return uint32(lane) }),
	"%lanemask_eq": perLane(func(lane int) uint32 { return 1 << lane }),
	"%lanemask_lt": perLane(func(lane int) uint32 { return 1<<lane - 1 }),
	"%lanemask_le": perLane(func(lane int) uint32 { return 2<<lane - 1 }),
	"%lanemask_gt": perLane(func(lane int) uint32 { return -(2 << lane) }),
	"%lanemask_ge": perLane(func(lane int) uint32 { return -(1 << lane) }),
	"%warpid":      uniform(func(w *warp) uint64 { return uint64(w.id) }),
	"%nwarpid":     uniform(func(*warp) uint64 { return maxWarps }),

	"%dynamic_smem_size": uniform(func(w *warp) uint64 { return uint64(w.b.worker.run.Launch.SharedBytes) }),
	"%total_smem_size":   uniform(func(w *warp) uint64 { return uint64(len(w.b.shared)) }),
}

func init() {
	for axis, name := range []string{".x", ".y", ".z"} {
		specialRegisters["%tid"+name] = threadIndex(axis)
		specialRegisters["%ntid"+name] = uniform(func(w *warp) uint64 { return uint64(w.b.dims[axis]) })
		specialRegisters["%ctaid"+name] = uniform(func(w *warp) uint64 { return uint64(w.b.index[axis]) })
		specialRegisters["%nctaid"+name] = uniform(func(w *warp) uint64 { return uint64(w.b.worker.run.Launch.Grid[axis]) })
	}
}

// special finds or makes the register of a special name.
func (f *function) special(name string) (register, bool) {
	fill, ok := specialRegisters[name]
	if !ok {
		return register{}, false
	}
	if r, ok := f.specials[name]; ok {
		return register{r, "u32"}, true
	}
	r := f.newRegister("u32")
	f.specials[name] = r.index
	f.k.specials = append(f.k.specials, special{r.index, fill})
	return r, true
}
