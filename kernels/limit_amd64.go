//go:build !purego

package kernels

import "github.com/bitnet-autotune/bitnet-autotune/probe"

//go:generate _asm/generate.sh limit limit_amd64.s

// These are assembly because they are to show what the instructions can do, not what a compiler makes of Go.
//
// Prefetching 2 to 8 KiB ahead changed a read of 1 GB in huge pages by about 5 % either way on Zen 5 and on a noisy Cascade
// Lake VM; which way depends on host and threads, so a benchmark takes the better of both. From L2 it cost the zmm loop of
// the latter about 30 % (one pass, not paired). Four streams at once made no difference.

//go:noescape
func readAVX2(p *byte, rounds int) uint64

//go:noescape
func readAheadAVX2(p *byte, rounds int, ahead int) uint64

//go:noescape
func readAVX512(p *byte, rounds int) uint64

//go:noescape
func readAheadAVX512(p *byte, rounds int, ahead int) uint64

func peakAVX2(iterations int)

func peakVNNI(iterations int)

func init() {
	limits = append(limits,
		limit{probe.AVX2, readInChunks(readAVX2, 256), inChunks(peakAVX2), 12 * 64, "vpmaddubsw ymm"},
		limit{probe.AVX512, readInChunks(readAVX512, 512), inChunks(peakAVX2), 12 * 64, "vpmaddubsw ymm"},
		limit{probe.AVX512 | probe.AVX512VNNI, readInChunks(readAVX512, 512), inChunks(peakVNNI), 16 * 128, "vpdpbusd zmm"},
	)
	prefetchingReads = append(prefetchingReads,
		prefetchingRead{probe.AVX2, aheadInChunks(readAheadAVX2, 256)},
		prefetchingRead{probe.AVX512, aheadInChunks(readAheadAVX512, 512)},
	)
}

// aheadInChunks makes the read loop for a distance from a routine that prefetches.
func aheadInChunks(read func(p *byte, rounds int, ahead int) uint64, round int) func(int) func([]byte) uint64 {
	return func(ahead int) func([]byte) uint64 {
		return readInChunks(func(p *byte, rounds int) uint64 { return read(p, rounds, ahead) }, round)
	}
}
