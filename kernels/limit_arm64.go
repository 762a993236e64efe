//go:build !purego

package kernels

import "github.com/bitnet-autotune/bitnet-autotune/probe"

// These are assembly because they are to show what the instructions can do, not what a compiler makes of Go.

//go:noescape
func readNEON(p *byte, rounds int) uint64

func peakSMLAL(iterations int)

func peakSDOT(iterations int)

func init() {
	limits = append(limits,
		limit{probe.NEON, readInChunks(readNEON, 128), inChunks(peakSMLAL), 16 * 16, "smlal 8h"},
		limit{probe.NEON | probe.DotProd, readInChunks(readNEON, 128), inChunks(peakSDOT), 16 * 32, "sdot 4s"},
	)
}
