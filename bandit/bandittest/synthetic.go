package bandittest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
)

func numbers(n int) []string {
	v := make([]string, n)
	for i := range v {
		v[i] = fmt.Sprint(i + 1)
	}
	return v
}

func must(s *bandit.Space, err error) *bandit.Space {
	if err != nil {
		panic(err)
	}
	return s
}

// Synthetic returns small tables of the shapes that hosts show, different for every seed:
//
//	threads   16 points: bandwidth that saturates, then contention
//	decode    threads x kernel x prefetch x chunk, mostly additive effects in log cost
//	prefill   threads x tile x batch, the best tile depends on the batch, big ones run out of memory
//	flat      all within 0.5 %
//	rugged    no structure at all
func Synthetic(seed uint64) []*Table {
	dice := rand.New(rand.NewPCG(seed, 1))
	return []*Table{threads(dice), decode(dice), prefill(dice), flat(dice), rugged(dice)}
}

func saturating(dice *rand.Rand, cores int) func(t int) float64 {
	sat := 2 + dice.Float64()*float64(cores-2)
	cont := 0.005 + 0.03*dice.Float64()
	return func(t int) float64 {
		x := float64(t)
		c := math.Pow(math.Pow(1/x, 4)+math.Pow(1/sat, 4), 0.25)
		return c * (1 + cont*max(0, x-sat))
	}
}

func threads(dice *rand.Rand) *Table {
	s := must(bandit.NewSpace([]bandit.Knob{{Name: "threads", Values: numbers(16)}}))
	f := saturating(dice, 16)
	return fill("threads", s, 0.03, []bandit.Point{{15}}, func(p bandit.Point) float64 { return f(p[0] + 1) })
}

func fill(name string, s *bandit.Space, noise float64, start []bandit.Point, cost func(bandit.Point) float64) *Table {
	t := &Table{Name: name, Space: s, Noise: noise, Start: start, Cost: make([]float64, s.Size())}
	for i := range t.Cost {
		t.Cost[i] = cost(s.At(i))
	}
	return t
}

func decode(dice *rand.Rand) *Table {
	s := must(bandit.NewSpace([]bandit.Knob{
		{Name: "threads", Values: numbers(8)},
		{Name: "kernel", Kind: bandit.Categorical, Values: []string{"avx2", "vnni", "lut"}},
		{Name: "prefetch", Values: numbers(4)},
		{Name: "chunk", Values: numbers(3)},
	}))
	f := saturating(dice, 8)
	kernel := []float64{1, math.Exp(-0.4 * dice.Float64()), math.Exp(-0.4 + 0.8*dice.Float64())}
	sats := []float64{0.6 + 0.4*dice.Float64(), 1, 0.6 + 0.4*dice.Float64()}
	pf, pw := dice.Float64()*3, 0.02*dice.Float64()
	ck, cw := dice.Float64()*2, 0.03*dice.Float64()
	return fill("decode", s, 0.02, []bandit.Point{{7, 0, 0, 0}}, func(p bandit.Point) float64 {
		mem := f(p[0] + 1)
		comp := kernel[p[1]] * sats[p[1]] / float64(p[0]+1)
		return (mem + comp) * (1 + pw*sq(float64(p[2])-pf)) * (1 + cw*sq(float64(p[3])-ck)) * math.Exp(0.005*dice.NormFloat64())
	})
}

func sq(x float64) float64 { return x * x }

func prefill(dice *rand.Rand) *Table {
	s := must(bandit.NewSpace([]bandit.Knob{
		{Name: "threads", Values: numbers(8)},
		{Name: "tile", Kind: bandit.Categorical, Values: []string{"1x4", "1x8", "2x4", "2x8", "4x4"}},
		{Name: "batch", Values: []string{"1", "2", "4", "8", "16", "32", "64"}},
		{Name: "workspace", Values: numbers(2)},
	}, bandit.Rule{Reason: "workspace 1 holds no batch above 16", Allows: func(v func(string) string) bool {
		return v("workspace") != "1" || (v("batch") != "32" && v("batch") != "64")
	}}))
	tile := make([]float64, 5)
	want := make([]float64, 5)
	for i := range tile {
		tile[i], want[i] = math.Exp(0.5*dice.Float64()), 1+5*dice.Float64()
	}
	smt := 0.1 * dice.Float64()
	limit := 8 + dice.IntN(6)
	return fill("prefill", s, 0.03, []bandit.Point{{7, 0, 0, 0}, {7, 0, 3, 0}}, func(p bandit.Point) float64 {
		if p[0]+p[2] > limit {
			return 0
		}
		amortise := 1 + 2/math.Pow(2, float64(p[2]))
		return tile[p[1]] * amortise * (1 + 0.03*sq(float64(p[2])-want[p[1]])) * (1/float64(p[0]+1) + smt*float64(p[0]+1)/8) *
			(1 + 0.01*float64(p[3])) * math.Exp(0.01*dice.NormFloat64())
	})
}

func flat(dice *rand.Rand) *Table {
	s := must(bandit.NewSpace([]bandit.Knob{{Name: "a", Values: numbers(6)}, {Name: "b", Kind: bandit.Categorical, Values: numbers(5)}}))
	return fill("flat", s, 0.03, []bandit.Point{{0, 0}}, func(bandit.Point) float64 { return 1 + 0.005*dice.Float64() })
}

func rugged(dice *rand.Rand) *Table {
	s := must(bandit.NewSpace([]bandit.Knob{{Name: "a", Values: numbers(10)}, {Name: "b", Kind: bandit.Categorical, Values: numbers(10)}}))
	return fill("rugged", s, 0.03, []bandit.Point{{0, 0}}, func(bandit.Point) float64 { return math.Exp(0.3 * dice.NormFloat64()) })
}
