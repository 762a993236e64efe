package ptx

import "fmt"

// A FaultKind is what a kernel did wrong.
type FaultKind string

// The faults that a launch can end with.
const (
	OutOfBounds        FaultKind = "out of bounds"
	Misaligned         FaultKind = "misaligned address"
	Uninitialised      FaultKind = "uninitialised value"
	Race               FaultKind = "race"
	BarrierDivergence  FaultKind = "barrier divergence"
	Deadlock           FaultKind = "deadlock"
	IllegalInstruction FaultKind = "illegal instruction"
	Trap               FaultKind = "trap"
	Timeout            FaultKind = "timeout" // more instructions than Launch.MaxInstructions
)

// A Fault is the error of a launch that the kernel itself is to blame for.
type Fault struct {
	Kind    FaultKind
	Kernel  string
	Line    int    // in the text given to Parse
	Text    string // of that line
	Other   int    // line of the second party of a race, otherwise 0
	Block   [3]int
	Thread  [3]int
	Address uint64 // 0 where no address is concerned
	Detail  string

	unwritten bool // a read of shared memory that nobody wrote
}

func (f *Fault) Error() string {
	s := fmt.Sprintf("ptx: kernel %s: %s in block %v, thread %v, at line %d: %q", f.Kernel, f.Kind, f.Block, f.Thread, f.Line, f.Text)
	if f.Other != 0 {
		s += fmt.Sprintf(", against line %d", f.Other)
	}
	if f.Detail != "" {
		s += ": " + f.Detail
	}
	return s
}
