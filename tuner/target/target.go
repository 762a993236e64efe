package target

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// Regime is a way in which the ternary matmuls of a model are called. Regimes are tuned apart: what is best for one
// is often bad for another.
type Regime string

// The three regimes.
const (
	Decode     Regime = "decode"      // one token at a time, bound by reading the weights
	SmallBatch Regime = "small_batch" // a few sequences at once
	Prefill    Regime = "prefill"     // a prompt, bound by arithmetic
)

// Arm is the setting of one regime that can be measured. The zero Blocking and the zero Launch are the kernel's own
// default. Threads and Blocking are of the CPU, Launch of a GPU.
type Arm struct {
	Layout   kernels.Layout   `json:"layout"`
	Kernel   string           `json:"kernel"`
	Threads  int              `json:"threads"`
	Batch    int              `json:"batch"` // tokens per call; 1 for Decode
	Blocking kernels.Blocking `json:"blocking"`
	Launch   Launch           `json:"launch,omitzero"`
}

// Launch is how a GPU kernel is built and started.
type Launch struct {
	// SplitK is how many parts a row is cut into, which different blocks sum up. If 0, 1 is used.
	SplitK int `json:"split_k,omitempty"`
	// MaxRegisters bounds the registers of a thread when the driver compiles the kernel. If 0, the compiler chooses.
	MaxRegisters int `json:"max_registers,omitempty"`
}

// text continues the short form of an arm.
func (l Launch) text() string {
	var text string
	if l.SplitK > 1 {
		text = fmt.Sprintf(", rows in %d parts", l.SplitK)
	}
	if l.MaxRegisters > 0 {
		text += fmt.Sprintf(", at most %d registers", l.MaxRegisters)
	}
	return text
}

// String is the short form for people; arms that differ read differently:
// "mul/i2s/avx512vnni 4x8, 2 threads, batch 128, prefetch 4096".
func (a Arm) String() string {
	text := a.Kernel
	if a.Threads > 0 {
		text = fmt.Sprintf("%s %s, %d threads", a.Kernel, a.Blocking.Tile, a.Threads)
	}
	if a.Threads == 1 {
		text = strings.TrimSuffix(text, "s")
	}
	if a.Batch > 1 {
		text += fmt.Sprintf(", batch %d", a.Batch)
	}
	if a.Blocking.PrefetchBytes > 0 {
		text += fmt.Sprintf(", prefetch %d", a.Blocking.PrefetchBytes)
	}
	if a.Blocking.ChunkRows > 0 {
		text += fmt.Sprintf(", chunks of %d rows", a.Blocking.ChunkRows)
	}
	return text + a.Launch.text()
}

// Target is something on which arms can be measured: the live CPU, a GPU, an engine's command, a recorded table.
type Target interface {
	// Name is "cpu", "cuda", "engine:NAME" or what a test calls itself.
	Name() string
	// Prepare makes arm ready, proves it correct, and returns it as a subject whose unit is one token through all
	// ternary matmuls of the model. Its errors wrap ErrMismatch, ErrRejected or ErrOutOfMemory; any other error is
	// a crash of this arm. A subject stays valid until Close.
	Prepare(ctx context.Context, regime Regime, arm Arm) (measure.Subject, error)
	Close() error
}

// Why an arm could not be measured.
var (
	ErrMismatch    = errors.New("result differs from the reference")
	ErrRejected    = errors.New("not possible on this target")
	ErrOutOfMemory = errors.New("out of memory")
)
