package ptx

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// A Version is that of the PTX language: {7, 8} of ".version 7.8".
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

func (v Version) less(other Version) bool {
	return v.Major < other.Major || v.Major == other.Major && v.Minor < other.Minor
}

// A Target is the architecture that a module is written for. Exact says that it runs on that one alone: the a of sm_90a.
type Target struct {
	SM    int // 10 major + minor
	Exact bool
}

func (t Target) String() string {
	if t.Exact {
		return fmt.Sprintf("sm_%da", t.SM)
	}
	return fmt.Sprintf("sm_%d", t.SM)
}

func parseTarget(name string) (Target, bool) {
	digits, ok := strings.CutPrefix(name, "sm_")
	digits, exact := strings.CutSuffix(digits, "a")
	sm, err := strconv.Atoi(digits)
	return Target{SM: sm, Exact: exact}, ok && err == nil && sm > 0
}

// A Module is PTX that was read and checked, ready to run. Its .global variables are part of it, so a Module belongs to
// one device.
type Module struct {
	Version Version
	Target  Target
	Kernels []*Kernel // in the order of the text

	lines []string
	data  []byte // .global and .const variables
}

// Kernel finds an entry point by name.
func (m *Module) Kernel(name string) (*Kernel, error) {
	for _, k := range m.Kernels {
		if k.Name == name {
			return k, nil
		}
	}
	return nil, fmt.Errorf("ptx: no kernel %q in the module", name)
}

// A Param is a parameter of a kernel; Offset is its place in Launch.Params.
type Param struct {
	Name                string
	Type                Type // b8 for an array or a struct
	Size, Align, Offset int
}

// A Kernel is an entry point.
type Kernel struct {
	Name       string
	Params     []Param
	ParamBytes int

	SharedBytes int // static shared memory of a block
	LocalBytes  int // local memory of a thread
	ConstBytes  int // of the module

	MaxThreads   [3]int // .maxntid; zeros: not given
	MinBlocks    int    // .minnctapersm; 0: not given
	MaxRegisters int    // .maxnreg; 0: not given

	module       *Module
	code         []inst
	constants    []constant // registers that hold one value for ever
	specials     []special  // registers that the hardware fills
	registers    int
	predicates   int
	cacheSlots   int
	sharedAlign  int
	instructions []string  // the opcodes that occur; inst.opcode indexes it
	refused      error     // why it cannot run here, though it is sound
	idle         sync.Pool // of *worker: what a launch of any number of blocks leaves to the next
}

// space is where an address points.
type space uint8

const (
	generic space = iota
	global
	shared
	local
	constantSpace
	parameter
)

var spaceNames = map[string]space{
	"global": global, "shared": shared, "shared::cta": shared, "local": local, "const": constantSpace, "param": parameter,
}

func (s space) String() string {
	return [...]string{"generic", "global", "shared", "local", "const", "param"}[s]
}

// Generic addresses from Windows on are not of global memory: a Memory must hand out none of them.
const (
	Windows       = uint64(1) << 60
	sharedWindow  = 1 * Windows
	localWindow   = 2 * Windows
	dataWindow    = 3 * Windows // .global and .const variables, which have their address in every space
	windowMask    = Windows - 1
	maxStatic     = 48 << 10 // of shared memory; more has to be dynamic
	maxLocal      = 512 << 10
	maxParams     = 4352    // bytes before PTX 8.1
	maxData       = 4 << 20 // more has no place in a kernel's text
	maxStatements = 1 << 20
	maxDepth      = 64
)

// A variable has a name and bytes in a space.
type variable struct {
	name    string
	space   space
	size    int
	align   int
	offset  uint64 // in its space
	dynamic bool   // extern .shared
}

// address is what mov gives for the name.
func (v *variable) address() uint64 {
	if v.space == global || v.space == constantSpace {
		return dataWindow + v.offset
	}
	return v.offset
}

func alignUp[T int | uint64](n, align T) T { return (n + align - 1) / align * align }
