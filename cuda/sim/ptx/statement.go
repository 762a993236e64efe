package ptx

import (
	"math"
	"strconv"
	"strings"
)

// A register of a kernel: its place among the registers, or among the predicates.
type register struct {
	index int
	typ   Type
}

// A family of registers comes from ".reg .b32 %r<10>", which declares %r0 to %r9. They are numbered as they are met, as
// a compiler declares more than it uses.
type family struct {
	prefix string
	count  uint64
	typ    Type
}

// A scope is a pair of braces: inline assembly opens one for its own registers and labels.
type scope struct {
	parent    *scope
	registers map[string]register
	families  []family
	vars      map[string]*variable
	labels    map[string]int // index of the statement that follows
}

func newScope(parent *scope) *scope {
	return &scope{parent: parent, registers: map[string]register{}, vars: map[string]*variable{}, labels: map[string]int{}}
}

// A statement is one instruction before it is compiled.
type statement struct {
	line     int
	scope    *scope
	opcode   string // with its modifiers
	guard    operand
	guarded  bool
	operands []operand
}

type operandKind uint8

const (
	nothing operandKind = iota // _
	registerOperand
	number
	symbol  // a variable, a label
	address // [base+offset]
	list    // {a, b}
)

// An operand as it is written. Names of variables and labels stay open until the kernel was read.
type operand struct {
	kind   operandKind
	name   string // of register, variable or label
	reg    register
	second *register // q of p|q
	negate bool      // !p
	offset int64     // of an address, or symbol+offset
	list   []operand

	bits     uint64 // of a number
	real     bool   // written as a float
	realBits uint   // 32 or 64 when written in hexadecimal, otherwise 0 and a double
	isSymbol bool   // the base of an address is a variable
	absolute bool   // the base of an address is a number
}

// A function collects the statements of a kernel, then compiles them.
type function struct {
	p     *parser
	k     *Kernel
	scope *scope
	body  []statement

	opcodes    map[string]int
	sharedVars map[*variable]*variable // of the module, as placed in this kernel
	constants  map[uint64]int
	specials   map[string]int
}

// block reads statements up to the closing brace.
func (p *parser) block(f *function) {
	if p.depth++; p.depth > maxDepth {
		p.fail("more than %d braces in each other", maxDepth)
	}
	defer func() { p.depth-- }()
	for {
		t := p.peek()
		if p.count++; p.count > maxStatements {
			p.fail("more than %d statements", maxStatements)
		}
		switch {
		case t.text == "":
			p.fail("a brace is never closed")
		case p.accept("}"):
			return
		case p.accept("{"):
			f.scope = newScope(f.scope)
			p.block(f)
			f.scope = f.scope.parent
		case p.accept(";"):
		case strings.HasPrefix(t.text, "."):
			p.local(f)
		case p.next+1 < len(p.tokens) && p.tokens[p.next+1].text == ":":
			if _, twice := f.scope.labels[t.text]; twice {
				p.fail("label %s stands here twice", t.text)
			}
			f.scope.labels[p.name()] = len(f.body)
			p.next++
		default:
			p.instruction(f)
		}
	}
}

// local reads a declaration inside a kernel.
func (p *parser) local(f *function) {
	switch t := p.take(); t.text {
	case ".loc", ".file":
		p.skipLine(t.line)
	case ".pragma":
		p.take()
		p.expect(";")
	case ".reg":
		p.registers(f)
	case ".shared", ".local", ".global", ".const":
		v := p.variable(spaceNames[t.text[1:]], false)
		if v.space == local {
			v.offset = uint64(alignUp(f.k.LocalBytes, v.align))
			if f.k.LocalBytes = int(v.offset) + v.size; f.k.LocalBytes > maxLocal {
				p.fail("more than %d bytes of local memory", maxLocal)
			}
		}
		p.declare(f.scope.vars, v)
	default:
		p.failAt(t.line, "%v is not simulated inside a kernel", t)
	}
}

func (p *parser) registers(f *function) {
	typ := p.typ()
	if typ.Bits() == 8 {
		p.fail("a register of 8 bits does not exist")
	}
	for {
		name := p.name()
		if p.accept("<") {
			f.scope.families = append(f.scope.families, family{name, uint64(p.integer(math.MaxInt32)), typ})
			p.expect(">")
		} else {
			if _, twice := f.scope.registers[name]; twice {
				p.fail("register %s is declared twice", name)
			}
			f.scope.registers[name] = f.newRegister(typ)
		}
		if !p.accept(",") {
			p.expect(";")
			return
		}
	}
}

func (f *function) newRegister(typ Type) register {
	if typ == "pred" {
		f.k.predicates++
		return register{f.k.predicates - 1, typ}
	}
	f.k.registers++
	return register{f.k.registers - 1, typ}
}

// register finds a declared name.
func (f *function) register(name string) (register, bool) {
	for s := f.scope; s != nil; s = s.parent {
		if r, ok := s.registers[name]; ok {
			return r, true
		}
		for _, fam := range s.families {
			digits, ok := strings.CutPrefix(name, fam.prefix)
			n, err := strconv.ParseUint(digits, 10, 32)
			if ok && err == nil && n < fam.count && strconv.FormatUint(n, 10) == digits {
				r := f.newRegister(fam.typ)
				s.registers[name] = r
				return r, true
			}
		}
	}
	return register{}, false
}

func (p *parser) instruction(f *function) {
	s := statement{line: p.peek().line, scope: f.scope}
	if p.accept("@") {
		negate := p.accept("!")
		s.guard = p.operand(f)
		s.guard.negate = negate
		if s.guarded = true; s.guard.reg.typ != "pred" {
			p.failAt(s.line, "the guard is not a predicate")
		}
	}
	t := p.take()
	s.opcode = t.text
	if t.text == "" || t.text[0] < 'a' || t.text[0] > 'z' {
		p.failAt(t.line, "%v is not an instruction", t)
	}
	if !p.accept(";") {
		s.operands = make([]operand, 0, 4)
		for {
			s.operands = append(s.operands, p.operand(f))
			if !p.accept(",") {
				break
			}
		}
		p.expect(";")
	}
	f.body = append(f.body, s)
}

// operand reads one operand; without a function, only a number.
func (p *parser) operand(f *function) operand {
	t := p.peek()
	if p.depth++; p.depth > maxDepth {
		p.fail("brackets in brackets in brackets")
	}
	defer func() { p.depth-- }()
	switch {
	case t.text == "-" || digit0(t.text):
		return p.number()
	case f == nil:
		p.fail("%v is not a number", t)
	case p.accept("["):
		return p.address(f)
	case p.accept("{"):
		o := operand{kind: list}
		for {
			o.list = append(o.list, p.operand(f))
			if !p.accept(",") {
				p.expect("}")
				return o
			}
		}
	case p.accept("!"):
		o := p.operand(f)
		o.negate = true
		return o
	case p.accept("_"):
		return operand{kind: nothing}
	case t.text != "" && letter(t.text[0]):
		return p.named(f)
	}
	p.fail("%v is not an operand", t)
	return operand{}
}

func digit0(s string) bool { return s != "" && digit(s[0]) }

func (p *parser) named(f *function) operand {
	t := p.take()
	o := operand{kind: symbol, name: t.text}
	if strings.HasPrefix(t.text, "%") {
		o.kind = registerOperand
		reg, ok := f.register(t.text)
		if !ok {
			if reg, ok = f.special(t.text); !ok {
				p.failAt(t.line, "register %s is not declared", t.text)
			}
		}
		o.reg = reg
	} else if reg, ok := f.register(t.text); ok { // inline assembly names registers without %
		o.kind, o.reg = registerOperand, reg
	}
	switch {
	case o.kind == registerOperand && p.accept("|"):
		if p.accept("_") {
			return o
		}
		q := p.named(f)
		if q.kind != registerOperand {
			p.failAt(t.line, "%s is not a register", q.name)
		}
		o.second = &q.reg
	case o.kind == symbol && p.accept("+"):
		o.offset = int64(p.number().bits)
	}
	return o
}

// address reads the inside of [base+offset].
func (p *parser) address(f *function) operand {
	o := operand{kind: address}
	t := p.peek()
	if digit0(t.text) {
		o.absolute = true
		o.offset = int64(p.number().bits)
	} else {
		base := p.named(f)
		if base.second != nil {
			p.failAt(t.line, "an address has one base")
		}
		o.name, o.reg, o.isSymbol, o.offset = base.name, base.reg, base.kind == symbol, base.offset
	}
	if p.accept("+") {
		o.offset += int64(p.number().bits)
	} else if p.peek().text == "-" {
		o.offset += int64(p.number().bits)
	}
	p.expect("]")
	return o
}

// number reads 12, -3, 0x1F, 0b101, 017, 4U, 1.5, 0f3F800000 and 0d3FF0000000000000.
func (p *parser) number() operand {
	minus := p.accept("-")
	t := p.take()
	o := operand{kind: number, name: t.text}
	var err error
	switch {
	case strings.HasPrefix(t.text, "0f") || strings.HasPrefix(t.text, "0F"):
		o.real, o.realBits = true, 32
		o.bits, err = strconv.ParseUint(t.text[2:], 16, 32)
		if minus {
			o.bits ^= 1 << 31
		}
	case strings.HasPrefix(t.text, "0d") || strings.HasPrefix(t.text, "0D"):
		o.real, o.realBits = true, 64
		o.bits, err = strconv.ParseUint(t.text[2:], 16, 64)
		if minus {
			o.bits ^= 1 << 63
		}
	case strings.Contains(t.text, "."):
		var v float64
		v, err = strconv.ParseFloat(t.text, 64)
		if minus {
			v = -v
		}
		o.real, o.bits = true, math.Float64bits(v)
	default:
		o.bits, err = strconv.ParseUint(strings.TrimRight(t.text, "U"), 0, 64)
		if minus {
			o.bits = -o.bits
		}
	}
	if err != nil {
		p.failAt(t.line, "%v is not a number", t)
	}
	return o
}

// immediate gives the bits of a number as a value of type typ.
func (p *parser) immediate(line int, o operand, typ Type) uint64 {
	if o.kind != number {
		p.failAt(line, "%s is not a number", o.name)
	}
	if !o.real {
		if typ.float() {
			p.failAt(line, "%s is not a number of type .%s", o.name, typ)
		}
		if negative := int64(o.bits)>>(typ.Bits()-1) == -1; o.bits > typ.mask() && !negative {
			p.failAt(line, "%s does not fit into .%s", o.name, typ)
		}
		return o.bits & typ.mask()
	}
	if typ.integer() && typ.Bits() != o.realBits || typ.signed() || strings.HasPrefix(string(typ), "u") {
		p.failAt(line, "%s is not a number of type .%s", o.name, typ)
	}
	v := math.Float64frombits(o.bits)
	switch {
	case typ.Bits() == o.realBits:
		return o.bits
	case o.realBits == 32:
		return math.Float64bits(float64(math.Float32frombits(uint32(o.bits))))
	case typ == "f32":
		return uint64(math.Float32bits(float32(v)))
	case typ == "f64":
		return o.bits
	}
	p.failAt(line, "%s is not a number of type .%s", o.name, typ)
	return 0
}
