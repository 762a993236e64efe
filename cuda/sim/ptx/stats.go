package ptx

// Stats count what a launch did. They are the same in every run of the same launch, on any machine.
type Stats struct {
	Blocks, Threads      uint64
	Instructions         uint64            // of threads: an instruction of a whole warp counts 32
	WarpInstructions     uint64            // issued
	ByOpcode             map[string]uint64 // Instructions by opcode with all modifiers, as in the text
	DivergentBranches    uint64
	Barriers             uint64 // completed, of blocks
	GlobalLoads          Traffic
	GlobalStores         Traffic
	SharedRequests       uint64 // instructions of warps on shared memory
	SharedConflictCycles uint64 // accesses beyond the first that a request needs, as its words share a bank
}

// Traffic is what warps ask of global memory.
type Traffic struct {
	Requests uint64 // instructions of warps
	Sectors  uint64 // of 32 bytes, each once in a request
	Bytes    uint64 // asked for by threads
}

func (t *Traffic) add(o Traffic) {
	t.Requests += o.Requests
	t.Sectors += o.Sectors
	t.Bytes += o.Bytes
}

// add sums what two workers counted.
func (s *Stats) add(o *Stats) {
	s.Blocks += o.Blocks
	s.Threads += o.Threads
	s.Instructions += o.Instructions
	s.WarpInstructions += o.WarpInstructions
	s.DivergentBranches += o.DivergentBranches
	s.Barriers += o.Barriers
	s.GlobalLoads.add(o.GlobalLoads)
	s.GlobalStores.add(o.GlobalStores)
	s.SharedRequests += o.SharedRequests
	s.SharedConflictCycles += o.SharedConflictCycles
}
