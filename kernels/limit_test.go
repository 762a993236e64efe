package kernels_test

import (
	"fmt"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// limitSets are the sets of extensions between which the limit loops distinguish.
var limitSets = []probe.Feature{0, probe.AVX2, probe.AVX2 | probe.AVX512, probe.AVX2 | probe.AVX512 | probe.AVX512VNNI}

// TestReadLoopReadsEverything flips one bit anywhere: the checksum must change.
func TestReadLoopReadsEverything(t *testing.T) {
	forEach(t, limitSets, func(t *testing.T, set probe.Feature) {
		checkReads(t, kernels.ReadLoop(set))
		if read := kernels.PrefetchingReadLoop(set, 4096); read != nil {
			checkReads(t, read)
		}
	})
}

func checkReads(t *testing.T, read func([]byte) uint64) {
	t.Helper()
	for _, size := range []int{0, 1, 7, 8, 31, 32, 255, 256, 257, 511, 512, 600, 1500, 1<<20 + 513} {
		data := make([]byte, size)
		before := read(data)
		for at := 0; at < size; at += max(1, size/200) {
			data[at] ^= 0x10
			if read(data) == before {
				t.Fatalf("%d bytes: the one at %d is not read", size, at)
			}
			data[at] ^= 0x10
		}
	}
}

func TestPeakLoop(t *testing.T) {
	forEach(t, limitSets, func(t *testing.T, set probe.Feature) {
		loop, operations, name := kernels.PeakLoop(set)
		loop(0)
		loop(1<<16 + 1)
		if operations <= 0 || name == "" {
			t.Errorf("%d operations of %q", operations, name)
		}
	})
}

func BenchmarkReadLoop(b *testing.B) {
	memory := hugePages(b, 1<<30)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	for _, set := range limitSets {
		for _, ahead := range []int{0, 2048, 4096, 8192} {
			read := kernels.ReadLoop(set)
			if ahead > 0 {
				read = kernels.PrefetchingReadLoop(set, ahead)
			}
			if read == nil {
				continue
			}
			for name, stretch := range map[string]int{"memory": 16 << 20, "l2": 512 << 10} {
				b.Run(fmt.Sprintf("isa=%s/from=%s/ahead=%d", set, name, ahead), func(b *testing.B) {
					needs(b, set)
					b.SetBytes(int64(stretch))
					at := 0
					for b.Loop() {
						read(memory[at : at+stretch])
						if name == "memory" {
							at = (at + stretch) % len(memory)
						}
					}
				})
			}
		}
	}
}

func BenchmarkPeakLoop(b *testing.B) {
	for _, set := range limitSets {
		loop, operations, name := kernels.PeakLoop(set)
		b.Run(fmt.Sprintf("isa=%s/what=%s", set, name), func(b *testing.B) {
			needs(b, set)
			const iterations = 1 << 18
			for b.Loop() {
				loop(iterations)
			}
			b.ReportMetric(float64(operations)*iterations*float64(b.N)/b.Elapsed().Seconds()/1e9, "GOPS")
		})
	}
}
