package ptx

import "fmt"

func buildBranch(b *builder) {
	b.has("uni")
	o := b.operand(0)
	at, ok := b.f.label(b.s.scope, o.name)
	if o.kind != symbol || !ok {
		b.fail("label %s does not exist", o.name)
	}
	b.in.flow, b.in.target = branch, at
}

func buildExit(b *builder) {
	if b.name == "ret" {
		b.has("uni")
	}
	b.in.flow = exit
}

func buildTrap(b *builder) {
	b.in.run = func(w *warp, m uint32) { w.fail(Trap, first(m), 0, "") }
}

// nothingToDo compiles what has no effect in the simulation: memory is always up to date, and time does not pass.
func (b *builder) nothingToDo() {
	b.in.run = func(*warp, uint32) {}
}

func buildFence(b *builder) {
	switch {
	case b.name == "membar":
		b.need("cta", "gl", "sys")
	case b.has("proxy"):
		b.need("alias", "async")
		b.take("global", "shared::cta", "shared::cluster")
	default:
		b.take("sc", "acq_rel")
		b.need("cta", "cluster", "gpu", "sys")
	}
	b.nothingToDo()
}

func buildSleep(b *builder) {
	b.typ("u32")
	b.src(0, "u32")
	b.nothingToDo()
}

func buildDependency(b *builder) {
	b.need("launch_dependents", "wait")
	b.nothingToDo()
}

func buildPrefetch(b *builder) {
	if b.name == "prefetchu" {
		b.need("L1")
	} else {
		b.take("global", "local")
		b.need("L1", "L2", "L2::evict_last", "L2::evict_normal")
	}
	b.addressOf(0)
	b.nothingToDo()
}

// buildPolicy makes a cache policy: here a number that only loads and stores take.
func buildPolicy(b *builder) {
	b.need("fractional")
	b.need("L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged")
	b.take("L2::evict_first", "L2::evict_unchanged")
	b.typ("b64")
	if b.operands() > 1 {
		b.src(1, "f32")
	}
	b.emit(b.dst(0, "b64"), b.zero(), b.zero(), b.zero(), copyLoop)
}

// buildRefused takes instructions that are checked for version and target alone: the kernel loads and does not run.
func buildRefused(b *builder) {
	b.mods, b.used = nil, len(b.s.operands)
	b.nothingToDo()
	b.f.k.refused = fmt.Errorf("ptx: kernel %s: line %d: %s is not simulated", b.f.k.Name, b.s.line, b.s.opcode)
}
