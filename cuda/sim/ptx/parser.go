package ptx

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Parse reads PTX and checks it as the assembler of a driver would: every opcode, modifier, type, register, symbol and
// label must be known and fit, and .version and .target must allow every instruction. An error names line and text.
//
// What is sound PTX but has no simulation here (a call, a texture) is an error too, except for the instructions of
// sm_90a, which Launch refuses instead.
func Parse(text string) (*Module, error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens, m: &Module{lines: strings.Split(text, "\n")}, symbols: map[string]*variable{}}
	if err := p.module(); err != nil {
		return nil, err
	}
	if err := errors.Join(p.lint...); err != nil {
		return nil, err
	}
	return p.m, nil
}

// A parser goes through the tokens once. The first error of syntax ends it; those of version and target are collected.
type parser struct {
	tokens []token
	next   int
	m      *Module

	symbols map[string]*variable // of the module
	body    []statement          // room for those of a kernel
	lint    []error
	count   int // statements
	depth   int // of braces and brackets
}

// bail carries an error out of the parser; module recovers it.
type bail struct{ error }

func (p *parser) failAt(line int, format string, args ...any) {
	text := ""
	if line-1 < len(p.m.lines) {
		text = strings.TrimSpace(p.m.lines[line-1])
	}
	panic(bail{fmt.Errorf("ptx: line %d: %q: %s", line, text, fmt.Sprintf(format, args...))})
}

func (p *parser) peek() token { return p.tokens[p.next] }

func (p *parser) fail(format string, args ...any) { p.failAt(p.peek().line, format, args...) }

func (p *parser) take() token {
	t := p.peek()
	if t.text != "" {
		p.next++
	}
	return t
}

func (p *parser) accept(text string) bool {
	if p.peek().text == text {
		p.next++
		return true
	}
	return false
}

func (p *parser) expect(text string) {
	if !p.accept(text) {
		p.fail("%v where %q belongs", p.peek(), text)
	}
}

func (p *parser) name() string {
	t := p.peek()
	if t.text == "" || !letter(t.text[0]) || strings.Contains(t.text, ".") {
		p.fail("%v is not a name", t)
	}
	return p.take().text
}

// integer reads a constant from 0 to max.
func (p *parser) integer(max int) int {
	t := p.take()
	n, err := strconv.ParseUint(strings.TrimSuffix(t.text, "U"), 0, 63)
	if err != nil || n > uint64(max) {
		p.failAt(t.line, "%v is not a whole number up to %d", t, max)
	}
	return int(n)
}

func (p *parser) typ() Type {
	t := p.take()
	typ := Type(strings.TrimPrefix(t.text, "."))
	if !strings.HasPrefix(t.text, ".") || !typ.known() {
		p.failAt(t.line, "%v is not a type", t)
	}
	return typ
}

func (p *parser) module() (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case bail:
			err = r.error
		default:
			panic(r)
		}
	}()
	p.header()
	for p.peek().text != "" {
		p.directive()
	}
	return nil
}

func (p *parser) header() {
	p.expect(".version")
	t := p.take()
	major, minor, _ := strings.Cut(t.text, ".")
	v := Version{}
	var err1, err2 error
	v.Major, err1 = strconv.Atoi(major)
	v.Minor, err2 = strconv.Atoi(minor)
	if err1 != nil || err2 != nil {
		p.failAt(t.line, "%v is not a version like 7.8", t)
	}
	if newestVersion.less(v) {
		p.failAt(t.line, "version %v is newer than %v, the newest that is understood here", v, newestVersion)
	}
	p.m.Version = v
	p.expect(".target")
	t = p.take()
	target, ok := parseTarget(t.text)
	if !ok {
		p.failAt(t.line, "%v is not a target like sm_80", t)
	}
	p.m.Target = target
	if err := targetAllowed(target, v); err != nil {
		p.failAt(t.line, "%v", err)
	}
	for p.accept(",") { // texmode_independent, debug
		p.name()
	}
	p.expect(".address_size")
	if t := p.take(); t.text != "64" {
		p.failAt(t.line, "addresses have 64 bits, not %v", t)
	}
}

// directive reads one declaration of the module.
func (p *parser) directive() {
	external := false
	for {
		switch t := p.take(); t.text {
		case ".visible", ".weak", ".common":
		case ".extern":
			external = true
		case ".file", ".loc":
			p.skipLine(t.line)
			return
		case ".section":
			p.skipSection()
			return
		case ".pragma":
			p.take()
			p.expect(";")
			return
		case ".entry":
			p.kernel()
			return
		case ".func":
			p.function(external)
			return
		case ".global", ".const", ".shared":
			v := p.variable(spaceNames[t.text[1:]], external)
			p.declare(p.symbols, v)
			return
		default:
			p.failAt(t.line, "%v is not a directive of a module", t)
		}
	}
}

func (p *parser) skipLine(line int) {
	for t := p.peek(); t.text != "" && t.line == line; t = p.peek() {
		p.next++
	}
}

// skipSection skips debug information.
func (p *parser) skipSection() {
	for !p.accept("}") {
		if p.take().text == "" {
			p.fail("the section has no end")
		}
	}
}

// function accepts the declaration of a foreign function, which may stand there unused.
func (p *parser) function(external bool) {
	if !external {
		p.fail("functions that are called are not simulated: let the compiler inline this one")
	}
	for !p.accept(";") {
		if p.take().text == "" {
			p.fail("the declaration has no end")
		}
	}
}

func (p *parser) declare(symbols map[string]*variable, v *variable) {
	if symbols[v.name] != nil {
		p.fail("%s is declared twice", v.name)
	}
	symbols[v.name] = v
}

// variable reads ".align 4 .b8 name[16] = {1, 2}" after its space.
func (p *parser) variable(in space, external bool) *variable {
	v := &variable{space: in}
	if p.accept(".align") {
		v.align = p.alignment()
	}
	typ := p.typ()
	if v.align == 0 {
		v.align = typ.Size()
	}
	if typ == "pred" {
		p.fail("a predicate has no place in memory")
	}
	v.name = p.name()
	count := 1
	open := false
	for p.accept("[") {
		if p.accept("]") {
			open = true
			continue
		}
		count *= p.integer(maxData)
		if count > maxData {
			p.fail("%s is larger than the %d bytes allowed", v.name, maxData)
		}
		p.expect("]")
	}
	v.size = count * typ.Size()
	if v.dynamic = open && external && in == shared; open && !v.dynamic {
		p.fail("%s has no size", v.name)
	}
	if limit := map[space]int{shared: maxStatic, local: maxLocal}[in]; limit > 0 && v.size > limit {
		p.fail("%s has %d bytes, more than the %d allowed", v.name, v.size, limit)
	}
	if in == global || in == constantSpace {
		if external {
			p.fail("%s lives in another module, and modules are not linked here", v.name)
		}
		p.place(v)
	}
	if p.accept("=") {
		p.initialiser(v, typ, count)
	}
	p.expect(";")
	return v
}

func (p *parser) alignment() int {
	line := p.peek().line
	n := p.integer(1 << 12)
	if n == 0 || n&(n-1) != 0 {
		p.failAt(line, "an alignment is a power of two, not %d", n)
	}
	return n
}

// place gives a .global or .const variable its bytes.
func (p *parser) place(v *variable) {
	v.offset = uint64(alignUp(len(p.m.data), v.align))
	end := int(v.offset) + v.size
	if end > maxData {
		p.fail("the variables of the module have more than %d bytes", maxData)
	}
	p.m.data = append(p.m.data, make([]byte, end-len(p.m.data))...)
}

func (p *parser) initialiser(v *variable, typ Type, count int) {
	if v.space != global && v.space != constantSpace {
		p.fail("%s cannot be initialised in its space", v.name)
	}
	at := 0
	element := func() {
		o := p.operand(nil)
		if at == count {
			p.fail("%s has more values than places", v.name)
		}
		value := p.immediate(p.peek().line, o, typ)
		put(p.m.data[int(v.offset)+at*typ.Size():], typ.Size(), value)
		at++
	}
	if !p.accept("{") {
		element()
		return
	}
	for !p.accept("}") {
		element()
		if !p.accept(",") {
			p.expect("}")
			return
		}
	}
}

// put writes the low bytes of value, get reads them: devices are little-endian.
func put(b []byte, size int, value uint64) {
	for i := range size {
		b[i] = byte(value >> (8 * i))
	}
}

func (p *parser) kernel() {
	k := &Kernel{module: p.m, Name: p.name(), sharedAlign: 1}
	for _, other := range p.m.Kernels {
		if other.Name == k.Name {
			p.fail("kernel %s is defined twice", k.Name)
		}
	}
	f := &function{p: p, k: k, opcodes: map[string]int{}, sharedVars: map[*variable]*variable{}, constants: map[uint64]int{}, specials: map[string]int{}}
	f.scope, f.body = newScope(nil), p.body[:0]
	if p.accept("(") && !p.accept(")") {
		p.params(f)
	}
	p.performance(k)
	p.expect("{")
	p.block(f)
	f.compile()
	p.body = f.body
	p.m.Kernels = append(p.m.Kernels, k)
}

func (p *parser) params(f *function) {
	k := f.k
	for {
		p.expect(".param")
		param := Param{}
		if p.accept(".align") {
			param.Align = p.alignment()
		}
		param.Type = p.typ()
		for p.accept(".ptr") { // a promise about where the pointer points, of no use here
			for p.accept(".global") || p.accept(".shared") || p.accept(".const") || p.accept(".local") {
			}
			if p.accept(".align") {
				p.alignment()
			}
		}
		param.Size = param.Type.Size()
		param.Align = max(param.Align, param.Size)
		param.Name = p.name()
		if p.accept("[") {
			param.Size *= p.integer(maxParams)
			p.expect("]")
		}
		if param.Size == 0 {
			p.fail("parameter %s has no size", param.Name)
		}
		param.Offset = alignUp(k.ParamBytes, param.Align)
		if k.ParamBytes = param.Offset + param.Size; k.ParamBytes > maxParams {
			p.fail("the parameters have more than %d bytes", maxParams)
		}
		p.declare(f.scope.vars, &variable{name: param.Name, space: parameter, size: param.Size, align: param.Align, offset: uint64(param.Offset)})
		k.Params = append(k.Params, param)
		if !p.accept(",") {
			p.expect(")")
			return
		}
	}
}

// performance reads the directives between the parameters and the body.
func (p *parser) performance(k *Kernel) {
	for {
		switch p.peek().text {
		case ".maxntid", ".reqntid":
			p.next++
			k.MaxThreads = [3]int{1, 1, 1}
			for i := range 3 {
				k.MaxThreads[i] = p.integer(1024)
				if !p.accept(",") {
					break
				}
			}
		case ".minnctapersm":
			p.next++
			k.MinBlocks = p.integer(1 << 10)
		case ".maxnreg":
			p.next++
			k.MaxRegisters = p.integer(1 << 10)
		case ".pragma":
			p.next++
			p.take()
			p.expect(";")
		default:
			return
		}
	}
}
