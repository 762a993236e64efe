package enginetest

import (
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
)

func TestBestIsNotWorseThanAnyPlan(t *testing.T) {
	for seed := range uint64(20) {
		s := Draw(seed)
		best := s.Best(512, 128)
		for _, set := range []engine.Setting{nil, {"threads": "4"}, {"threads": "4", "flash-attn": "1"}, {"threads": "8", "ubatch-size": "256", "poll": "100"}} {
			if cost := s.Request(engine.Plan{engine.Decode: set, engine.Prefill: set}, 512, 128); cost < best {
				t.Errorf("seed %d: %s costs %.0f ns, less than the best plan's %.0f", seed, set, cost, best)
			}
		}
	}
}
