package measure_test

import (
	"context"
	"fmt"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
)

// A candidate that is truly 5 % faster, on an invented host with the noise of a small virtual machine.
func Example() {
	host := measuretest.New(1, measuretest.SharedHost()...)
	base := host.Arm("default", 105*time.Microsecond)
	cand := host.Arm("candidate", 100*time.Microsecond)
	timer := host.Timer(1) // on a real machine: measure.Timer{Watch: measure.Local()}

	ctx := context.Background()
	floor, err := timer.NoiseFloor(ctx, base, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := timer.Compare(ctx, base, cand, measure.CompareOptions{MinGain: 0.01, NoiseFloor: floor})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.3f (%.3f to %.3f) after %d blocks: %s\n", c.Ratio, c.Low, c.High, c.Blocks, measure.Decide(c, 0.01, floor))
	// Output: 1.041 (1.025 to 1.068) after 30 blocks: ADOPT
}

// A race adds blocks to a pair as long as its interval leaves hope; what wins it still has to win a Compare.
func ExampleTimer_Pair() {
	host := measuretest.New(2, measuretest.SharedHost()...)
	timer := host.Timer(2)
	pair := timer.Pair(host.Arm("incumbent", 100*time.Microsecond), host.Arm("slower", 130*time.Microsecond))
	for pair.Result().High > 1 {
		if err := pair.Block(context.Background()); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("given up after", pair.Result().Blocks, "blocks")
	// Output: given up after 14 blocks
}
