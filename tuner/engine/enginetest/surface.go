package enginetest

import (
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
)

// Surface is what settings cost on an invented machine.
type Surface struct {
	Cores      int     // physical; there are twice as many threads
	Saturation float64 // threads that fill the memory bandwidth
	Contention float64 // of decode, for each thread beyond the cores
	Twins      float64 // what a second thread of a core adds to prefill
	BestBatch  float64 // ubatch-size
	Flash      float64 // gain of flash attention in prefill; half of it in decode
	Poll       float64 // gain of busy waiting in decode
}

// Draw is a surface by lot.
func Draw(seed uint64) Surface {
	r := rand.New(rand.NewPCG(seed, 1))
	between := func(low, high float64) float64 { return low + (high-low)*r.Float64() }
	return Surface{
		Cores: 4 << r.IntN(3), Saturation: between(2, 7), Contention: between(0.02, 0.08), Twins: between(-0.1, 0.4),
		BestBatch: between(128, 1024), Flash: between(-0.08, 0.12), Poll: between(-0.02, 0.03),
	}
}

// Threads is how many may be used.
func (s Surface) Threads() int { return 2 * s.Cores }

// own is what the stand-in takes where it is told nothing: every hardware thread, as an engine does that counts them.
func (s Surface) own() map[string]string {
	return map[string]string{"threads": strconv.Itoa(s.Threads()), "ubatch-size": "512", "batch-size": "2048", "flash-attn": "0", "mmap": "1", "poll": "50", "prio": "0", "cpu-strict": "0"}
}

// Cost is ns per token of a regime.
func (s Surface) Cost(set engine.Setting, regime string) float64 {
	get := func(knob string) float64 {
		text, ok := set[knob]
		if !ok {
			text = s.own()[knob]
		}
		n, _ := strconv.ParseFloat(text, 64)
		return n
	}
	threads, cores := get("threads"), float64(s.Cores)
	beyond := max(0, threads-cores)
	if regime == engine.Decode {
		rate := 4 / math.Pow(math.Pow(threads, -4)+math.Pow(s.Saturation, -4), 0.25)
		rate *= 1 - min(0.8, s.Contention*beyond)
		rate *= 1 + s.Flash/2*get("flash-attn") + s.Poll*(get("poll")-50)/50
		return 1e9 / rate
	}
	rate := 40 * (min(threads, cores) + s.Twins*beyond)
	rate *= math.Exp(-0.05 * math.Pow(math.Log2(min(get("ubatch-size"), get("batch-size"))/s.BestBatch), 2))
	rate *= 1 + s.Flash*get("flash-attn")
	return 1e9 / rate
}

// Request is the cost in ns of a request of a prompt and an answer with a plan.
func (s Surface) Request(p engine.Plan, prompt, generate int) float64 {
	return float64(prompt)*s.Cost(p[engine.Prefill], engine.Prefill) + float64(generate)*s.Cost(p[engine.Decode], engine.Decode)
}

// Best is the cost of a request with the best plan there is, by trying all.
func (s Surface) Best(prompt, generate int) float64 {
	best := math.Inf(1)
	for _, flash := range []string{"0", "1"} {
		shared := engine.Setting{"flash-attn": flash}
		prefill, decode := math.Inf(1), math.Inf(1)
		for t := 1; t <= s.Threads(); t++ {
			at := shared.With("threads", strconv.Itoa(t))
			for _, poll := range []string{"0", "50", "100"} {
				decode = min(decode, s.Cost(at.With("poll", poll), engine.Decode))
			}
			for _, u := range []string{"32", "64", "128", "256", "512", "1024", "2048"} {
				if n, _ := strconv.Atoi(u); n < 2*prompt {
					prefill = min(prefill, s.Cost(at.With("ubatch-size", u), engine.Prefill))
				}
			}
		}
		best = min(best, float64(prompt)*prefill+float64(generate)*decode)
	}
	return best
}

// Noise is how a process and its repetitions differ from the surface. The zero value is none.
type Noise struct{ rand *rand.Rand }

// NewNoise is a source of noise.
func NewNoise(seed uint64) Noise { return Noise{rand.New(rand.NewPCG(seed, 2))} }

// Process is the factor of one process.
func (n Noise) Process() float64 {
	if n.rand == nil {
		return 1
	}
	return math.Exp(0.02 * n.rand.NormFloat64())
}

// Repetition is the factor of one repetition.
func (n Noise) Repetition() float64 {
	if n.rand == nil {
		return 1
	}
	factor := math.Exp(0.05 * n.rand.NormFloat64())
	if n.rand.IntN(16) == 0 {
		factor *= 1.3
	}
	return factor
}
