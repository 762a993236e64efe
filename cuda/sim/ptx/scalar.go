package ptx

// Type is a fundamental type of PTX, as written after the dot: "b32", "s8", "f32", "pred".
type Type string

// kind sorts types into those that PTX lets meet in one operand.
type kind uint8

const (
	untyped kind = iota // .b8 to .b64
	signed
	unsigned
	float
	predicate
)

var scalars = map[Type]struct {
	bits uint
	kind kind
}{
	"b8": {8, untyped}, "b16": {16, untyped}, "b32": {32, untyped}, "b64": {64, untyped},
	"u8": {8, unsigned}, "u16": {16, unsigned}, "u32": {32, unsigned}, "u64": {64, unsigned},
	"s8": {8, signed}, "s16": {16, signed}, "s32": {32, signed}, "s64": {64, signed},
	"f16": {16, float}, "bf16": {16, float}, "f32": {32, float}, "f64": {64, float},
	"pred": {1, predicate},
}

// Bits is the width of a value, 0 for an unknown type.
func (t Type) Bits() uint { return scalars[t].bits }

// Size is the width in memory in bytes.
func (t Type) Size() int { return int(scalars[t].bits / 8) }

func (t Type) known() bool   { return scalars[t].bits != 0 }
func (t Type) signed() bool  { return scalars[t].kind == signed }
func (t Type) float() bool   { return scalars[t].kind == float }
func (t Type) integer() bool { return scalars[t].bits > 1 && scalars[t].kind != float }

// mask covers the bits of a value.
func (t Type) mask() uint64 { return ^uint64(0) >> (64 - t.Bits()) }

// fits says whether an instruction of type want takes a register declared with type t: widths agree, and a float does
// not meet an integer but through an untyped register. With wider, an integer register may have room to spare, as
// loads, stores and conversions allow.
func (t Type) fits(want Type, wider bool) bool {
	have, need := scalars[t], scalars[want]
	if have.kind == predicate || need.kind == predicate {
		return have.kind == need.kind
	}
	if wider && have.kind != float && need.kind != float && have.bits >= need.bits {
		return true
	}
	if have.bits != need.bits {
		return false
	}
	// .f16 and .bf16 live in registers of 16 bits of whatever name.
	return have.kind == untyped || need.kind == untyped || (have.kind == float) == (need.kind == float)
}

// An extender brings the low bits of a value that hold a type into a register: the sign is carried on, all above the
// register is zero.
type extender struct {
	unused uint // bits of a word above the type
	signed bool
	keep   uint64
}

// extender is that of a type for a register of the given width.
func (t Type) extender(register uint) extender {
	return extender{64 - t.Bits(), t.signed(), ^uint64(0) >> (64 - register)}
}

func (e extender) of(v uint64) uint64 {
	if e.signed {
		return uint64(int64(v<<e.unused)>>e.unused) & e.keep
	}
	return v << e.unused >> e.unused & e.keep
}

func (t Type) extend(v uint64, register uint) uint64 { return t.extender(register).of(v) }
