package tuner_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

func Example() {
	ctx := context.Background()
	t, err := tuner.Open(tuner.Options{Store: os.Getenv("STORE")}) // "" keeps nothing
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()

	plan, err := t.Plan(ctx, "bitnet-b1.58-2b-4t") // at once; never measures
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plan.Source, plan.Config.Layout)

	if plan.Source == tuner.Heuristic && os.Getenv("STORE") != "" {
		cert, err := t.Tune(ctx, "bitnet-b1.58-2b-4t", tuner.Budget{Time: time.Minute}) // measures
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(cert.Verdict, cert.Ratio.Estimate)
	}
	// Output: heuristic i2s
}
