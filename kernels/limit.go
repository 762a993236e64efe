package kernels

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// limit is what a host with the extensions of needs can at best do with one thread.
type limit struct {
	needs      probe.Feature
	read       func([]byte) uint64
	peak       func(iterations int)
	operations int // int8 multiplications and additions per iteration of peak
	name       string
}

// limits are ordered from the weakest to the strongest; the last one that a host can run is its limit.
var limits = []limit{{read: readGeneric, peak: peakGeneric, operations: 8, name: "Go int32 multiply-add"}}

func limitOf(have probe.Feature) limit {
	best := limits[0]
	for _, l := range limits[1:] {
		if have.Has(l.needs) {
			best = l
		}
	}
	return best
}

// ReadLoop returns a function that does nothing but read data once, from the lowest address to the highest, with the
// widest loads of the host: the time it takes is the limit of a kernel that must read as many
// bytes of weights. It returns a checksum, so that the reads cannot be left out.
func ReadLoop(have probe.Feature) func(data []byte) uint64 { return limitOf(have).read }

// PeakLoop returns a loop that does nothing but the int8 multiply-adds of the host, from registers to registers; how
// many operations (a multiplication and an addition are two) one iteration is; and what it consists of:
//
//	"vpdpbusd zmm"    AVX-512 VNNI: products and their sums in int32
//	"vpmaddubsw ymm"  AVX2: products and the sums of pairs in int16 alone. Adding those up, which every kernel must,
//	                  is not in it: it is an upper bound that cannot be reached.
//	"sdot 4s"         dotprod: products and their sums in int32
//	"smlal 8h"        NEON: products and their sums in int16; adding those up is not in it
//	"Go int32 multiply-add"  anything else, and every purego build
func PeakLoop(have probe.Feature) (loop func(iterations int), operations int, name string) {
	l := limitOf(have)
	return l.peak, l.operations, l.name
}

func readGeneric(data []byte) uint64 {
	var a, b, c, d uint64
	for len(data) >= 32 {
		a ^= binary.LittleEndian.Uint64(data)
		b ^= binary.LittleEndian.Uint64(data[8:])
		c ^= binary.LittleEndian.Uint64(data[16:])
		d ^= binary.LittleEndian.Uint64(data[24:])
		data = data[32:]
	}
	for _, v := range data {
		a ^= uint64(v)
	}
	return a ^ b ^ c ^ d
}

// peakSink keeps the compiler from leaving peakGeneric's work out.
var peakSink atomic.Int32

func peakGeneric(iterations int) {
	var a, b, c, d int32 = 1, 2, 3, 4
	x := int32(iterations)
	for range iterations {
		a += a * x
		b += b * x
		c += c * x
		d += d * x
	}
	peakSink.Store(a ^ b ^ c ^ d)
}
