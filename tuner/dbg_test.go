package tuner

import (
	"fmt"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
	"testing"
	"time"
)

func TestDbg(t *testing.T) {
	for seed := range uint64(20) {
		s := &simulated{host: measuretest.New(seed, measuretest.SharedHost()...), cost: planted}
		st := time.Now()
		cert, err := s.open(t, "", seed).Tune(t.Context(), anyModel, Budget{Time: time.Minute, Objective: ObjectiveDecode, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		r := cert.Regimes[0]
		fmt.Printf("%d %s floor %.4f ratio %.3f [%.3f %.3f] blocks %d evals %d/%d stopped %q el %.1f real %.2f\n", seed, cert.Verdict, cert.NoiseFloor, r.Ratio.Estimate, r.Ratio.Low, r.Ratio.High, r.Blocks, r.Evaluations, r.SpaceSize, r.Stopped, cert.Elapsed, time.Since(st).Seconds())
	}
}
