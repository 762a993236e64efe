package bandit_test

import (
	"math/rand/v2"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/bandit/bandittest"
)

// BenchmarkSearch measures one question and its answer, in a search of 40 samples that starts anew each time.
func BenchmarkSearch(b *testing.B) {
	table := bandittest.Synthetic(1)[1]
	for _, name := range bandit.Names() {
		b.Run("strategy="+name, func(b *testing.B) {
			dice := rand.New(rand.NewPCG(1, 1))
			var s bandit.Strategy
			for i := 0; b.Loop(); i++ {
				if i%40 == 0 {
					s, _ = bandit.New(name, table.Space, bandit.Options{Seed: uint64(i), Start: table.Start})
				}
				for _, ask := range s.Ask(1) {
					s.Tell(table.Run(ask, dice))
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "evaluations/s")
		})
	}
}

// BenchmarkRecommend measures a recommendation after 40 samples, of which nothing is known yet.
func BenchmarkRecommend(b *testing.B) {
	table := bandittest.Synthetic(1)[1]
	dice := rand.New(rand.NewPCG(1, 1))
	s, err := bandit.New("random", table.Space, bandit.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for range 40 {
		s.Tell(table.Run(s.Ask(1)[0], dice))
	}
	for b.Loop() {
		s.Tell(bandit.Trial{Point: table.Space.At(0)}) // empty, but makes what was computed stale
		s.(bandit.Recommender).Recommend(3)
	}
}

// BenchmarkAsk measures one question in a space of 8,000 points of which 500 are known, and handing it back.
func BenchmarkAsk(b *testing.B) {
	values := make([]string, 20)
	for i := range values {
		values[i] = string(rune('a' + i))
	}
	space, err := bandit.NewSpace([]bandit.Knob{{Name: "a", Values: values}, {Name: "b", Values: values}, {Name: "c", Values: values}})
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"auto", "bayes", "descent"} {
		b.Run("strategy="+name, func(b *testing.B) {
			dice := rand.New(rand.NewPCG(1, 1))
			s, err := bandit.New(name, space, bandit.Options{Samples: 1})
			if err != nil {
				b.Fatal(err)
			}
			for range 500 {
				s.Tell(bandit.Trial{Point: space.At(dice.IntN(space.Size())), Costs: []float64{1 + dice.Float64()}})
			}
			for b.Loop() {
				s.Tell(s.Ask(1)...)
			}
		})
	}
}
