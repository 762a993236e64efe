//go:build !purego

package kernels

import (
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// These are assembly because they are to show what the instructions can do, not what a compiler makes of Go.

// readRound is what readNEON loads per round: eight vectors.
const readRound = 128

//go:noescape
func readNEON(p *byte, rounds int) uint64

func peakSMLAL(iterations int)

func peakSDOT(iterations int)

func init() {
	limits = append(limits,
		limit{probe.NEON, readBlocks, inBlocks(peakSMLAL), 16 * 16, "smlal 8h"},
		limit{probe.NEON | probe.DotProd, readBlocks, inBlocks(peakSDOT), 16 * 32, "sdot 4s"},
	)
}

// Assembly cannot be preempted: 1 MiB of reads and 64 Ki iterations take well under a millisecond.

func readBlocks(data []byte) (sum uint64) {
	for block := range slices.Chunk(data, 1<<20) {
		rounds := len(block) / readRound
		if rounds > 0 {
			sum ^= readNEON(&block[0], rounds)
		}
		sum ^= readGeneric(block[rounds*readRound:])
	}
	return sum
}

func inBlocks(peak func(int)) func(int) {
	return func(iterations int) {
		for ; iterations > 0; iterations -= 1 << 16 {
			peak(min(iterations, 1<<16))
		}
	}
}
