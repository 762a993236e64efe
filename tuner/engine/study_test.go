package engine_test

import (
	"flag"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
)

var studyFrom = flag.Uint64("from", 5000, "")
var studyN = flag.Uint64("n", 1000, "")

func TestStudy(t *testing.T) {
	var regrets []float64
	parts := map[string]float64{}
	flash := map[string]int{}
	defer func() { t.Log(flash) }()
	phases, stops := map[string]int{}, map[string]int{}
	defer func() { t.Log(phases, stops) }()
	var sum float64
	var runs, all, loads float64
	for seed := *studyFrom; seed < *studyFrom+*studyN; seed++ {
		v := virtual(seed)
		c := search(t, v, engine.Options{Seed: seed})
		cost, best := v.Surface.Request(c.Closest, prompt, generate), v.Surface.Best(prompt, generate)
		regrets = append(regrets, cost/best-1)
		sum += cost/best - 1
		runs += float64(c.Searches)
		all += float64(c.Starts)
		for _, m := range c.Runs {
			if len(m.Setting) == 0 && m.Phase != "duel" {
				loads++
			}
		}
		for _, m := range c.Runs {
			name := m.Phase
			if len(m.Setting) == 0 && m.Phase != "duel" {
				name = "default"
			}
			phases[name]++
		}
		stops[c.Stopped]++
		tries := 0
		for _, m := range c.Runs {
			if m.Setting["flash-attn"] == "1" && m.Phase != "duel" {
				tries++
			}
		}
		key := "none"
		if tries > 0 {
			key = "tried"
		}
		if c.Closest[engine.Prefill]["flash-attn"] == "1" {
			key = "taken"
		}
		if v.Surface.Flash > 0 {
			key += "+"
		} else {
			key += "-"
		}
		flash[key]++
		part := func(name string, try func(engine.Plan) []engine.Plan) {
			least := cost
			for _, p := range try(c.Closest) {
				least = min(least, v.Surface.Request(p, prompt, generate))
			}
			parts[name] += cost/least - 1
		}
		vary := func(regimes []string, knob string, values ...string) func(engine.Plan) []engine.Plan {
			return func(p engine.Plan) (list []engine.Plan) {
				for _, val := range values {
					q := maps.Clone(p)
					for _, r := range regimes {
						q[r] = q[r].With(knob, val)
					}
					list = append(list, q)
				}
				return list
			}
		}
		var threads []string
		for i := 1; i <= v.Surface.Threads(); i++ {
			threads = append(threads, strconv.Itoa(i))
		}
		both := []string{engine.Decode, engine.Prefill}
		part("decode threads", vary(both[:1], "threads", threads...))
		part("prefill threads", vary(both[1:], "threads", threads...))
		part("ubatch", vary(both, "ubatch-size", "64", "128", "256", "512", "1024"))
		part("flash", vary(both, "flash-attn", "0", "1"))
		part("poll", vary(both, "poll", "0", "50", "100"))
	}
	slices.Sort(regrets)
	n := len(regrets)
	t.Logf("n %d: median %.2f mean %.2f p90 %.2f worst %.2f; search %.1f (defaults %.1f) all %.1f", n, 100*regrets[n/2], 100*sum/float64(n), 100*regrets[n*9/10], 100*regrets[n-1], runs/float64(n), loads/float64(n), all/float64(n))
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		t.Logf("  %s %.2f", name, 100*parts[name]/float64(n))
	}
}
