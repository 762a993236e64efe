package online

import (
	"math"
	"math/rand/v2"
	"testing"
)

// service is a simulated service: what an arm truly costs at a step, and how its reports scatter about that.
type service struct {
	name  string
	arms  []Arm
	cost  func(arm, step int) float64 // before what is common to all arms
	all   func(step int) float64      // common to all arms: bursts, load; nil = 1
	noise func(r *rand.Rand) float64  // of the log
}

const steps = 40_000

func normal(deviation float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return deviation * r.NormFloat64() }
}

// spiky has one report in 50 three times too long.
func spiky(deviation float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 {
		y := deviation * r.NormFloat64()
		if r.IntN(50) == 0 {
			y += math.Log(3)
		}
		return y
	}
}

func fixed(costs ...float64) func(int, int) float64 {
	return func(arm, _ int) float64 { return costs[arm] }
}

// after returns before's costs up to a step and then's from there on.
func after(at int, before, then []float64) func(int, int) float64 {
	return func(arm, step int) float64 {
		if step < at {
			return before[arm]
		}
		return then[arm]
	}
}

func bursts(step int) float64 {
	if step%1500 < 120 {
		return 2.5
	}
	return 1 + 0.15*math.Sin(float64(step)/400)
}

// certified is what a certificate says of arms whose costs were as given when it was made.
func certified(costs ...float64) []Arm {
	arms := make([]Arm, len(costs))
	for i, c := range costs {
		gain := costs[0] / c
		arms[i] = Arm{Gain: gain, Low: gain / 1.03, High: gain * 1.03}
	}
	return arms
}

var services = []service{
	{"the incumbent is the best", certified(1, 1.02, 1.04, 1.2), fixed(1, 1.02, 1.04, 1.2), nil, normal(0.1)},
	{"all alike", certified(1, 1, 1, 1), fixed(1, 1, 1, 1.001), nil, normal(0.1)},
	{"another is 6 % better under this load", certified(1, 1.01, 1.02), fixed(1, 0.94, 1.02), nil, normal(0.1)},
	{"another is 15 % better, reports with spikes", certified(1, 1.01, 1.02), fixed(1, 1.02, 0.85), nil, spiky(0.12)},
	{"bursts", certified(1, 1.02, 1.05, 1.3), fixed(1, 1.02, 1.05, 1.3), bursts, normal(0.1)},
	{"bursts, another is 10 % better", certified(1, 1.02, 1.05), fixed(1, 0.9, 1.05), bursts, normal(0.1)},
	{"the incumbent slows by 20 %", certified(1, 1.03, 1.08), after(steps/2, []float64{1, 1.03, 1.08}, []float64{1.2, 1.03, 1.08}), nil, normal(0.1)},
	{"the incumbent slows by 20 % amid bursts", certified(1, 1.03, 1.08), after(steps/2, []float64{1, 1.03, 1.08}, []float64{1.2, 1.03, 1.08}), bursts, spiky(0.1)},
	{"the best changes twice", certified(1, 1.02, 1.04), func(arm, step int) float64 {
		phase := [][]float64{{1, 1.02, 1.04}, {1.15, 1.1, 1}, {1, 1.1, 1.12}}[min(step/(steps/3), 2)]
		return phase[arm]
	}, nil, normal(0.08)},
	{"an arm collapses", certified(1, 0.99, 1.01), after(steps/3, []float64{1, 0.97, 1.01}, []float64{1, 1.6, 1.01}), nil, normal(0.1)},
}

// player is a way of choosing.
type player interface {
	choose() int
	report(arm int, cost float64)
}

// play returns the cumulative regret in steps' worth of the best arm, and how many of the requests went to an arm that
// costs more than the loss above the incumbent to begin with or the best, whichever is dearer.
func play(s service, p player, seed uint64) (regret float64, unsafe int) {
	dice := rand.New(rand.NewPCG(seed, 7))
	for step := range steps {
		arm := p.choose()
		common := 1.0
		if s.all != nil {
			common = s.all(step)
		}
		cost, best := s.cost(arm, step), math.Inf(1)
		for a := range s.arms {
			best = math.Min(best, s.cost(a, step))
		}
		regret += cost/best - 1
		if cost > math.Max(best, s.cost(0, step))*1.10 {
			unsafe++
		}
		p.report(arm, 1e6*common*cost*math.Exp(s.noise(dice)))
	}
	return regret, unsafe
}

type chooserPlayer struct {
	c    *Chooser
	last Choice
}

func (p *chooserPlayer) choose() int                { p.last = p.c.Choose(Context{Batch: 1}); return p.last.Arm }
func (p *chooserPlayer) report(_ int, cost float64) { p.c.Report(p.last, cost) }

// greedy is epsilon-greedy with the means of all it saw.
type greedy struct {
	dice    *rand.Rand
	epsilon float64
	n, sum  []float64
}

func (g *greedy) choose() int {
	for a, n := range g.n {
		if n == 0 {
			return a
		}
	}
	if g.dice.Float64() < g.epsilon {
		return g.dice.IntN(len(g.n))
	}
	best := 0
	for a := range g.n {
		if g.sum[a]/g.n[a] < g.sum[best]/g.n[best] {
			best = a
		}
	}
	return best
}

func (g *greedy) report(arm int, cost float64) { g.n[arm]++; g.sum[arm] += math.Log(cost) }

// ucb1 is Auer et al. (2002) on rewards in [0, 1]: the log cost between that of half and of twice the first.
type ucb1 struct {
	n, sum []float64
	first  float64
}

func (u *ucb1) choose() int {
	total := 0.0
	for a, n := range u.n {
		if n == 0 {
			return a
		}
		total += n
	}
	best, most := 0, math.Inf(-1)
	for a, n := range u.n {
		if v := u.sum[a]/n + math.Sqrt(2*math.Log(total)/n); v > most {
			best, most = a, v
		}
	}
	return best
}

func (u *ucb1) report(arm int, cost float64) {
	if u.first == 0 {
		u.first = cost
	}
	u.n[arm]++
	u.sum[arm] += math.Max(0, math.Min(1, 0.5-math.Log(cost/u.first)/math.Log(16)))
}

type uniform struct {
	dice *rand.Rand
	n    int
}

func (u uniform) choose() int         { return u.dice.IntN(u.n) }
func (u uniform) report(int, float64) {}

type always int

func (a always) choose() int         { return int(a) }
func (a always) report(int, float64) {}

func TestRegret(t *testing.T) {
	seeds := uint64(5) // the figures in doc.go are their means
	if testing.Short() {
		seeds = 1
	}
	for _, s := range services {
		t.Run(s.name, func(t *testing.T) {
			var ours, eps, ucb, random float64
			worst := 0
			for seed := range seeds {
				n := len(s.arms)
				r, unsafe := play(s, &chooserPlayer{c: New(Options{Arms: s.arms, Seed: seed})}, seed)
				ours += r / float64(seeds)
				worst = max(worst, unsafe)
				r, _ = play(s, &greedy{dice: rand.New(rand.NewPCG(seed, 1)), epsilon: 0.1, n: make([]float64, n), sum: make([]float64, n)}, seed)
				eps += r / float64(seeds)
				r, _ = play(s, &ucb1{n: make([]float64, n), sum: make([]float64, n)}, seed)
				ucb += r / float64(seeds)
				r, _ = play(s, uniform{rand.New(rand.NewPCG(seed, 2)), n}, seed)
				random += r / float64(seeds)
			}
			fix := math.Inf(1)
			for a := range s.arms {
				r, _ := play(s, always(a), 0)
				fix = math.Min(fix, r)
			}
			first, _ := play(s, always(0), 0)
			t.Logf("regret: ours %.0f, epsilon-greedy %.0f, UCB1 %.0f, random %.0f, fixed best %.0f, untouched %.0f; worse than the loss %d (%.2f %%)", ours, eps, ucb, random, fix, first, worst, 100*float64(worst)/steps)
			if ours >= eps || ours >= ucb {
				t.Errorf("regret %.0f: want less than epsilon-greedy %.0f and UCB1 %.0f", ours, eps, ucb)
			}
			if bound := 0.05*steps + 1; float64(worst) > bound {
				t.Errorf("%d requests on arms worse than the loss: want at most %.0f", worst, bound)
			}
		})
	}
}
