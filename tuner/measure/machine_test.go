package measure_test

import (
	"context"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

var sink uint64

// spin is real work: that many steps of a generator that no compiler can shorten.
func spin(name string, steps int) measure.Subject {
	return measure.Subject{Name: name, Run: func(ctx context.Context, n int) (time.Duration, error) {
		x := sink | 1
		begin := time.Now()
		for range n * steps {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		took := time.Since(begin)
		sink = x
		return took, nil
	}}
}

// TestThisMachine compares real work with itself and with half as much. Only the interval is judged, and against wide
// bounds: the busier the machine, the wider it is, and that is what it is for.
func TestThisMachine(t *testing.T) {
	var timer measure.Timer
	for _, c := range []struct {
		name        string
		base        int // steps; the candidate has 20,000
		least, most float64
	}{{"itself", 20_000, 0.5, 2}, {"half the work", 40_000, 1.2, 4}} {
		got, err := timer.Compare(ctx, spin(c.name+" base", c.base), spin(c.name+" candidate", 20_000), measure.CompareOptions{Blocks: 30, Looks: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: ratio %.3f in (%.3f, %.3f), %v", c.name, got.Ratio, got.Low, got.High, got.Warnings)
		if got.Blocks != 30 || got.High < c.least || got.Low > c.most {
			t.Errorf("%s: ratio in (%.3f, %.3f) of %d blocks, want one between %v and %v of 30", c.name, got.Low, got.High, got.Blocks, c.least, c.most)
		}
	}
}
