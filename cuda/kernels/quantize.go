package kernels

import (
	"fmt"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// Quantizer is one way to bring float32 tokens to int8, with the result of the CPU's Activations.Quantize bit for bit: of
// src/quantize.cu. A block has a token for itself.
type Quantizer struct {
	Name    string // "quantize/t256": a path, stable, never reused
	Rev     int
	Needs   Capability
	Threads int // of a block
}

// QuantizeParams are the parameters of every Quantizer, as driver.Params packs them.
type QuantizeParams struct {
	Out    driver.Ptr // M x Stride int8
	Sum    driver.Ptr // M int32
	Scale  driver.Ptr // M float32
	X      driver.Ptr // M x K float32, at an address divisible by 16
	K      int32
	Stride int32 // Stride(K)
}

// Quantizers returns all of them, from the fewest threads to the most.
func Quantizers() []Quantizer {
	var all []Quantizer
	for _, threads := range []int{128, 256, 512, 1024} {
		all = append(all, Quantizer{Name: fmt.Sprintf("quantize/t%d", threads), Rev: 1, Needs: DP4A, Threads: threads})
	}
	return all
}

// Stride is the bytes from one token of k columns to the next: whole tiles, and one more, as the last tile of TL2's rest
// may begin anywhere in the last 128 columns.
func Stride(k int) int { return ceilDiv(k, tileCols)*tileCols + tileCols }

// Shape is the launch for m tokens.
func (q Quantizer) Shape(m int) driver.Launch {
	return driver.Launch{
		Grid:        [3]uint32{uint32(m), 1, 1},
		Block:       [3]uint32{uint32(q.Threads), 1, 1},
		SharedBytes: uint32(4 * q.Threads / 32), // a word of each warp
	}
}

// Symbol is the name of the kernel in its PTX.
func (q Quantizer) Symbol() string { return symbol(q.Name) }

func (q Quantizer) unit() string { return "quantize" }

func (q Quantizer) needs() Capability { return q.Needs }

func (q Quantizer) declaration() string {
	return fmt.Sprintf("QUANTIZE(%s, %d, token<%d>)", q.Symbol(), q.Threads, q.Threads)
}
