package tuner

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// A row of a comparison with too few blocks for an interval has none, and marshals.
func TestBenchRow(t *testing.T) {
	unbounded := measure.Comparison{Ratio: 0.5, Low: 0, High: math.MaxFloat64, Blocks: 3, Base: measure.Summary{N: 6, Median: 2e6, CV: 0.01}}
	bounded := unbounded
	bounded.Low, bounded.High, bounded.Blocks = 0.4, 0.8, 10
	for name, test := range map[string]struct {
		c         measure.Comparison
		low, high float64
	}{
		"no interval": {unbounded, 0, 0},
		"interval":    {bounded, 1.25, 2.5},
	} {
		t.Run(name, func(t *testing.T) {
			row := Bench{N: 64, K: 128, M: 4, WorkingSetBytes: 20480}
			row.fill(test.c, 1, 10)
			if row.FractionOfLimit != 2 || math.Abs(row.Low-test.low) > 1e-12 || math.Abs(row.High-test.high) > 1e-12 {
				t.Errorf("fraction %v in %v to %v; want 2 in %v to %v", row.FractionOfLimit, row.Low, row.High, test.low, test.high)
			}
			if want := 2e6 * 4 / 10 / 1e9; math.Abs(row.MedianSeconds-want) > 1e-15 {
				t.Errorf("median %v s, want %v", row.MedianSeconds, want)
			}
			if _, err := json.Marshal(row); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBenchWarningsAreToldOnce(t *testing.T) {
	b := &bench{report: &BenchReport{}}
	for _, doubt := range []error{fmt.Errorf("%w: 9.1 %%", measure.ErrNoisy), measure.ErrUnsteady, fmt.Errorf("%w: 9.2 %%", measure.ErrNoisy)} {
		b.warn(kind(doubt))
	}
	if want := []string{measure.ErrNoisy.Error(), measure.ErrUnsteady.Error()}; !slices.Equal(b.report.Warnings, want) {
		t.Errorf("%q, want %q", b.report.Warnings, want)
	}
}

func TestBenchThreads(t *testing.T) {
	for usable, want := range map[int][]int{0: nil, 1: {1}, 2: {1, 2}, 6: {1, 2, 4, 6}, 8: {1, 2, 4, 8}} {
		if got := BenchThreads(usable); !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", usable, got, want)
		}
	}
}
