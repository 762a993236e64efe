package main

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// disturbance is what is added to the recorded noise of a run.
type disturbance struct {
	name   string
	jitter float64 // standard deviation of the logarithm, independent from run to run
	bursts float64 // share of the runs that lie in bursts, each of which is slower by 20 to 60 %
}

// disturbances are those that are studied. 5 % of the time in bursts is what a shared host with one noisy neighbour
// shows; 2.5 % jitter is that of measuretest.SharedHost.
var disturbances = []disturbance{
	{name: "jitter and bursts", jitter: 0.025, bursts: 0.05},
	{name: "as recorded"},
}

// burstLength is how many runs a burst lasts in the mean.
const burstLength = 6

// host answers for a recorded space: a run of a configuration takes as long as one of its recorded samples, drawn at
// random, in what the host's disturbance makes of it. It counts the runs, which are what everything here costs.
type host struct {
	table *replay.Table
	noise disturbance
	dice  *rand.Rand
	runs  int
	left  int     // runs until the burst ends
	slow  float64 // by what factor they are slower
	tried map[int]bool
}

func newHost(t *replay.Table, noise disturbance, seed uint64) *host {
	return &host{table: t, noise: noise, dice: rand.New(rand.NewPCG(seed, 3)), tried: map[int]bool{}}
}

// run returns the milliseconds of a run of point i, which did not fail when it was recorded.
func (h *host) run(i int) float64 {
	h.runs++
	h.tried[i] = true
	samples := h.table.Samples(i)
	ms := float64(samples[h.dice.IntN(len(samples))]) * math.Exp(h.noise.jitter*h.dice.NormFloat64())
	begins := h.noise.bursts / (1 - h.noise.bursts) / burstLength
	if h.left == 0 && h.dice.Float64() < begins {
		h.left = 1 + int(burstLength*h.dice.ExpFloat64())
		h.slow = 1.2 + 0.4*h.dice.Float64()
	}
	if h.left > 0 {
		h.left--
		ms *= h.slow
	}
	return ms
}

// fails reports how point i failed when it was recorded. Finding out costs a run.
func (h *host) fails(i int) (bandit.Status, bool) {
	if len(h.table.Samples(i)) > 0 {
		return bandit.OK, false
	}
	h.runs++
	done, err := h.table.Answer(bandit.Trial{Point: h.table.Space.At(i)})
	if err != nil {
		panic("noise: a point of the space is not recorded")
	}
	return done.Status, true
}

// subject is point i for package measure.
func (h *host) subject(i int) measure.Subject {
	return measure.Subject{Name: strconv.Itoa(i), Run: func(_ context.Context, n int) (time.Duration, error) {
		ms := 0.0
		for range n {
			ms += h.run(i)
		}
		return time.Duration(ms * float64(time.Millisecond)), nil
	}}
}

// truth is what every point of a table truly costs: the median of its samples, and nothing where it failed.
func truth(t *replay.Table) []float64 {
	costs := make([]float64, t.Space.Size())
	for i := range costs {
		costs[i] = math.NaN()
		if s := slices.Clone(t.Samples(i)); len(s) > 0 {
			slices.Sort(s)
			costs[i] = float64(s[(len(s)-1)/2]+s[len(s)/2]) / 2
		}
	}
	return costs
}

// expert draws a default as a person with experience would have set it: one of the best 2 % of the points.
func expert(costs []float64, dice *rand.Rand) int {
	var order []int
	for i, c := range costs {
		if !math.IsNaN(c) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		if costs[a] != costs[b] {
			if costs[a] < costs[b] {
				return -1
			}
			return 1
		}
		return a - b
	})
	return order[dice.IntN(max(1, len(order)/50))]
}
