//go:build !purego

package kernels

import "github.com/bitnet-autotune/bitnet-autotune/probe"

//go:generate _asm/generate.sh limit limit_amd64.s

// These are assembly because they are to show what the instructions can do, not what a compiler makes of Go.
//
// The read loops do not prefetch: over 1 GB in huge pages that made 0.99 (8 KiB ahead) and 0.95 (4 KiB) of the plain
// loop with one thread and 1.01 to 1.03 and 0.96 to 1.00 with two. Four streams at once made no difference either.

//go:noescape
func readAVX2(p *byte, rounds int) uint64

//go:noescape
func readAVX512(p *byte, rounds int) uint64

func peakAVX2(iterations int)

func peakVNNI(iterations int)

func init() {
	limits = append(limits,
		limit{probe.AVX2, readInChunks(readAVX2, 256), inChunks(peakAVX2), 12 * 64, "vpmaddubsw ymm"},
		limit{probe.AVX512, readInChunks(readAVX512, 512), inChunks(peakAVX2), 12 * 64, "vpmaddubsw ymm"},
		limit{probe.AVX512 | probe.AVX512VNNI, readInChunks(readAVX512, 512), inChunks(peakVNNI), 16 * 128, "vpdpbusd zmm"},
	)
}

// A chunk of assembly cannot be preempted: 1 MiB of reads and 64 Ki iterations take well under a millisecond.
const (
	chunkBytes      = 1 << 20
	chunkIterations = 1 << 16
)

func readInChunks(read func(p *byte, rounds int) uint64, round int) func([]byte) uint64 {
	return func(data []byte) (sum uint64) {
		for len(data) >= round {
			rounds := min(len(data), chunkBytes) / round
			sum ^= read(&data[0], rounds)
			data = data[rounds*round:]
		}
		return sum ^ readGeneric(data)
	}
}

func inChunks(peak func(int)) func(int) {
	return func(iterations int) {
		for ; iterations > 0; iterations -= chunkIterations {
			peak(min(iterations, chunkIterations))
		}
	}
}
