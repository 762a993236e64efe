package target

import "github.com/bitnet-autotune/bitnet-autotune/probe/gpu"

// Card is a GPU as a tuning knows it: what decides which settings are possible on it, and whether what was learned holds
// for it. Unknown is 0 or "".
type Card struct {
	UUID            string
	Name            string
	Capability      gpu.Capability
	TotalBytes      uint64
	DriverVersion   int // 1000 major + 10 minor of the CUDA that the driver was made for
	Multiprocessors int
	SharedBytes     int    // the most shared memory that a block may ask for
	L2Bytes         uint64 // of the last-level cache
}
