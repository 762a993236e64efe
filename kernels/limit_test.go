package kernels_test

import (
	"fmt"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// limitSets are the feature sets between which the limit loops distinguish, as far as this host has them.
func limitSets(t testing.TB) []probe.Feature {
	sets := []probe.Feature{0}
	for _, set := range []probe.Feature{probe.AVX2, probe.AVX2 | probe.AVX512, probe.AVX2 | probe.AVX512 | probe.AVX512VNNI} {
		switch {
		case host().Has(set):
			sets = append(sets, set)
		case set&required(t) != 0:
			t.Fatalf("BITNET_AUTOTUNE_REQUIRE asks for %s, which this host lacks", set)
		default:
			t.Logf("NOT TESTED: the limit loops for %s: not on this host", set)
		}
	}
	return sets
}

// TestReadLoopReadsEverything flips one bit anywhere: the checksum must change.
func TestReadLoopReadsEverything(t *testing.T) {
	for _, set := range limitSets(t) {
		read := kernels.ReadLoop(set)
		for _, size := range []int{0, 1, 7, 8, 31, 32, 255, 256, 257, 511, 512, 600, 1500, 1<<20 + 513} {
			data := make([]byte, size)
			before := read(data)
			for at := 0; at < size; at += max(1, size/200) {
				data[at] ^= 0x10
				if read(data) == before {
					t.Fatalf("%s: %d bytes: the one at %d is not read", set, size, at)
				}
				data[at] ^= 0x10
			}
		}
	}
}

func TestPeakLoop(t *testing.T) {
	for _, set := range limitSets(t) {
		loop, operations, name := kernels.PeakLoop(set)
		loop(0)
		loop(1<<16 + 1)
		if operations <= 0 || name == "" {
			t.Errorf("%s: %d operations of %q", set, operations, name)
		}
	}
}

func BenchmarkReadLoop(b *testing.B) {
	memory := hugePages(b, 1<<30)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	for _, set := range limitSets(b) {
		read := kernels.ReadLoop(set)
		for name, stretch := range map[string]int{"memory": 16 << 20, "l2": 512 << 10} {
			b.Run(fmt.Sprintf("isa=%s/from=%s", set, name), func(b *testing.B) {
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

func BenchmarkPeakLoop(b *testing.B) {
	for _, set := range limitSets(b) {
		loop, operations, name := kernels.PeakLoop(set)
		b.Run("what="+name, func(b *testing.B) {
			const iterations = 1 << 18
			for b.Loop() {
				loop(iterations)
			}
			b.ReportMetric(float64(operations)*iterations*float64(b.N)/b.Elapsed().Seconds()/1e9, "GOPS")
		})
	}
}
