package ptx

import (
	"slices"
	"strings"
)

// A constant is a register that holds one value in all threads, for ever: so an operand is always a register.
type constant struct {
	register int
	value    uint64
}

// A special is a register that the hardware fills before a block starts.
type special struct {
	register int
	fill     func(w *warp, r *lanes)
}

// A builder compiles one statement: it takes modifiers from the left, then operands by position, and complains about
// whatever is left over or does not fit.
type builder struct {
	f    *function
	s    *statement
	name string   // the opcode without modifiers
	mods []string // not yet taken
	used int      // operands looked at
	in   inst
}

// compile turns the statements into code and checks them against version and target.
func (f *function) compile() {
	f.placeShared()
	for i := range f.body {
		s := &f.body[i]
		parts := strings.Split(s.opcode, ".")
		b := &builder{f: f, s: s, name: parts[0], mods: parts[1:], in: inst{guard: -1, line: s.line, opcode: f.opcode(s.opcode)}}
		build, ok := opcodes[b.name]
		if !ok {
			b.fail("opcode %s is not known", b.name)
		}
		if s.guarded {
			b.in.guard, b.in.negate = s.guard.reg.index, s.guard.negate
		}
		f.p.lint = append(f.p.lint, f.check(s, parts)...)
		build(b)
		b.finish()
		f.k.code = append(f.k.code, b.in)
	}
	f.k.code = append(f.k.code, inst{flow: exit, guard: -1, line: f.p.peek().line})
	f.k.ConstBytes = len(f.p.m.data)
}

func (f *function) check(s *statement, parts []string) []error {
	var errs []error
	for _, why := range unmet(parts[0], parts[1:], f.p.m.Version, f.p.m.Target) {
		func() {
			defer func() { errs = append(errs, recover().(bail).error) }()
			f.p.failAt(s.line, "%s", why)
		}()
	}
	return errs
}

// opcode numbers the opcodes that occur.
func (f *function) opcode(name string) int {
	n, ok := f.opcodes[name]
	if !ok {
		n = len(f.k.instructions)
		f.opcodes[name] = n
		f.k.instructions = append(f.k.instructions, name)
	}
	return n
}

// placeShared lays out the shared variables that the kernel names: its own and those of the module, static before
// dynamic.
func (f *function) placeShared() {
	var dynamic []*variable
	placed := map[*variable]bool{}
	place := func(s *scope, name string) {
		v := f.variable(s, name)
		if v == nil || v.space != shared || placed[v] {
			return
		}
		placed[v] = true
		if v.dynamic {
			dynamic = append(dynamic, v)
			return
		}
		v.offset = uint64(alignUp(f.k.SharedBytes, v.align))
		f.k.SharedBytes = int(v.offset) + v.size
	}
	for _, s := range f.body {
		for _, o := range s.operands {
			if o.kind == symbol || o.kind == address && o.isSymbol {
				place(s.scope, o.name)
			}
		}
	}
	// 16: what the hardware promises for dynamic shared memory.
	end := alignUp(f.k.SharedBytes, 16)
	for _, v := range dynamic {
		end = alignUp(end, v.align)
	}
	if len(dynamic) > 0 {
		f.k.SharedBytes = end
	}
	for _, v := range dynamic {
		v.offset = uint64(end)
	}
	if f.k.SharedBytes > maxStatic {
		f.p.fail("%d bytes of static shared memory, more than the %d allowed", f.k.SharedBytes, maxStatic)
	}
}

// variable finds a name from a scope outwards. A shared variable of the module has a place in each kernel of its own.
func (f *function) variable(s *scope, name string) *variable {
	for ; s != nil; s = s.parent {
		if v := s.vars[name]; v != nil {
			return v
		}
	}
	v := f.p.symbols[name]
	if v == nil || v.space != shared {
		return v
	}
	if f.sharedVars[v] == nil {
		own := *v
		f.sharedVars[v] = &own
	}
	return f.sharedVars[v]
}

func (f *function) label(s *scope, name string) (int, bool) {
	for ; s != nil; s = s.parent {
		if at, ok := s.labels[name]; ok {
			return at, true
		}
	}
	return 0, false
}

// constant returns the register that holds a value.
func (f *function) constant(value uint64) int {
	if r, ok := f.constants[value]; ok {
		return r
	}
	r := f.newRegister("b64").index
	f.constants[value] = r
	f.k.constants = append(f.k.constants, constant{r, value})
	return r
}

func (b *builder) fail(format string, args ...any) { b.f.p.failAt(b.s.line, format, args...) }

// take removes the next modifier if it is one of those named; otherwise it returns "".
func (b *builder) take(names ...string) string {
	if len(b.mods) > 0 && slices.Contains(names, b.mods[0]) {
		name := b.mods[0]
		b.mods = b.mods[1:]
		return name
	}
	return ""
}

func (b *builder) has(name string) bool { return b.take(name) != "" }

// need is take for a modifier that must be there.
func (b *builder) need(names ...string) string {
	name := b.take(names...)
	if name == "" {
		b.wrong("one of " + strings.Join(names, ", "))
	}
	return name
}

// typ takes a type; with some named, one of those.
func (b *builder) typ(allowed ...Type) Type {
	if len(b.mods) == 0 {
		b.wrong("a type")
	}
	t := Type(b.mods[0])
	if !t.known() || len(allowed) > 0 && !slices.Contains(allowed, t) {
		b.wrong("a type that " + b.name + " has")
	}
	b.mods = b.mods[1:]
	return t
}

func (b *builder) wrong(want string) {
	if len(b.mods) == 0 {
		b.fail("%s lacks %s", b.name, want)
	}
	b.fail("%s.%s where %s belongs", b.name, b.mods[0], want)
}

func (b *builder) finish() {
	if len(b.mods) > 0 {
		b.fail("%s has no modifier .%s here", b.name, b.mods[0])
	}
	if b.used < len(b.s.operands) {
		b.fail("%s takes %d operands, not %d", b.name, b.used, len(b.s.operands))
	}
}

// operand returns operand i as it was written.
func (b *builder) operand(i int) *operand {
	if i >= len(b.s.operands) {
		b.fail("%s lacks operand %d", b.name, i+1)
	}
	b.used = max(b.used, i+1)
	return &b.s.operands[i]
}

func (b *builder) operands() int { return len(b.s.operands) }

// dst is the register that operand i writes.
func (b *builder) dst(i int, t Type) int { return b.into(b.operand(i), t, false) }

func (b *builder) into(o *operand, t Type, wider bool) int {
	if o.kind == nothing {
		return b.f.newRegister(t).index
	}
	if o.kind != registerOperand || o.second != nil || o.negate || b.f.isFixed(o.reg) {
		b.fail("%s cannot write %s", b.name, o.name)
	}
	if !o.reg.typ.fits(t, wider) {
		b.fail("%s is a .%s, not a .%s", o.name, o.reg.typ, t)
	}
	return o.reg.index
}

// src is the register that operand i reads; a number becomes a constant.
func (b *builder) src(i int, t Type) int { return b.from(b.operand(i), t, false) }

func (b *builder) from(o *operand, t Type, wider bool) int {
	switch o.kind {
	case number:
		return b.f.constant(b.f.p.immediate(b.s.line, *o, t))
	case registerOperand:
		if o.second != nil || o.negate {
			break
		}
		if !o.reg.typ.fits(t, wider) {
			b.fail("%s is a .%s, not a .%s", o.name, o.reg.typ, t)
		}
		return o.reg.index
	case symbol:
		if o.name == "WARP_SZ" {
			return b.f.constant(warpSize)
		}
	}
	b.fail("%s cannot read %s", b.name, o.name)
	return 0
}

// fixed is the number that operand i must be.
func (b *builder) fixed(i int, least, most int64) int64 {
	o := b.operand(i)
	if o.kind != number || o.real || int64(o.bits) < least || int64(o.bits) > most {
		b.fail("operand %d of %s is a number from %d to %d", i+1, b.name, least, most)
	}
	return int64(o.bits)
}

// pred is the predicate of an operand.
func (b *builder) pred(o *operand) int {
	if o.kind != registerOperand || o.reg.typ != "pred" || o.second != nil {
		b.fail("%s is not a predicate", o.name)
	}
	return o.reg.index
}

// predDst is the predicate that operand i writes.
func (b *builder) predDst(i int) int {
	o := b.operand(i)
	if o.kind == nothing {
		return b.f.newRegister("pred").index
	}
	if o.negate {
		b.fail("%s cannot write !%s", b.name, o.name)
	}
	return b.pred(o)
}

// vector is the elements of an operand in braces, or the operand alone.
func (b *builder) vector(i, n int) []operand {
	o := b.operand(i)
	if o.kind != list && n == 1 {
		return []operand{*o}
	}
	if o.kind != list || len(o.list) != n {
		b.fail("operand %d of %s is a list of %d in braces", i+1, b.name, n)
	}
	return o.list
}

// isFixed says whether a register keeps the value that it was given before the start.
func (f *function) isFixed(r register) bool {
	return r.typ != "pred" && slices.ContainsFunc(f.k.specials, func(s special) bool { return s.register == r.index })
}

// zero stands where an instruction has no operand.
func (b *builder) zero() int { return b.f.constant(0) }

// An op computes all threads of a warp at once. d may be one of the others.
type op func(d, a, b, c *lanes)

// emit compiles an instruction on registers.
func (b *builder) emit(d, x, y, z int, f op) {
	b.in.run = func(w *warp, m uint32) {
		if ready := w.def[x] & w.def[y] & w.def[z]; m&^ready != 0 {
			w.undefined(m, x, y, z)
			return
		}
		if m == fullWarp {
			f(&w.r[d], &w.r[x], &w.r[y], &w.r[z])
		} else {
			f(&w.scratch, &w.r[x], &w.r[y], &w.r[z])
			blend(&w.r[d], &w.scratch, m)
		}
		w.def[d] |= m
	}
}

func blend(d, a *lanes, m uint32) {
	for ; m != 0; m &= m - 1 {
		d[first(m)] = a[first(m)]
	}
}

// undefined is the fault of an operand without a value.
func (w *warp) undefined(m uint32, registers ...int) {
	for _, r := range registers {
		if missing := m &^ w.def[r]; missing != 0 {
			w.fail(Uninitialised, first(missing), 0, "an operand has no value")
			return
		}
	}
}

// ready says whether registers have values in all threads of m, and fails if not.
func (w *warp) ready(m uint32, registers ...int) bool {
	for _, r := range registers {
		if m&^w.def[r] != 0 {
			w.undefined(m, r)
			return false
		}
	}
	return true
}

// lift makes an op of a function of one thread, for instructions that are not worth a loop of their own.
func lift(f func(a, b, c uint64) uint64) op {
	return func(d, a, b, c *lanes) {
		for i := range d {
			d[i] = f(a[i], b[i], c[i])
		}
	}
}
