package measure_test

import (
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
	"gonum.org/v1/gonum/stat/distuv"
)

// The studies below run the whole procedure, warming included, on invented hosts, each run with a seed of its own. The
// seeds are fixed, so that a study either holds or does not; where a bound allows for chance, the chance of failing with
// other seeds is stated. go test -v -run Study prints the
// figures; those of doc.go that come from more runs say so.

// host is one run of a study: two arms of which cand is truly faster by gain.
type host struct {
	*measuretest.Simulator
	timer      *measure.Timer
	base, cand measure.Subject
}

func newHost(seed uint64, m measuretest.Model, gain float64) host {
	sim := measuretest.New(seed, m.Noise...)
	base := sim.Arm("base", time.Duration(math.Round((1+gain)*float64(100*us))))
	return host{sim, sim.Timer(seed), base, sim.Arm("cand", 100*us)}
}

func (h host) compare(t *testing.T, opt measure.CompareOptions) measure.Comparison {
	c, err := h.timer.Compare(ctx, h.base, h.cand, opt)
	if err != nil {
		t.Error(err)
	}
	return c
}

// pair runs that many blocks.
func (h host) pair(t *testing.T, blocks int) *measure.Pair {
	p := h.timer.Pair(h.base, h.cand)
	for range blocks {
		if err := p.Block(ctx); err != nil {
			t.Error(err)
		}
	}
	return p
}

// repeat calls run with the seeds 0 to runs-1, on all CPUs, and returns the sum of what it returns.
func repeat(runs int, run func(seed uint64) []float64) []float64 {
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	sums := make([][]float64, workers)
	for w := range workers {
		wg.Go(func() {
			for seed := w; seed < runs; seed += workers {
				for i, v := range run(uint64(seed)) {
					for len(sums[w]) <= i {
						sums[w] = append(sums[w], 0)
					}
					sums[w][i] += v
				}
			}
		})
	}
	wg.Wait()
	total := make([]float64, len(sums[0]))
	for _, sum := range sums {
		for i, v := range sum {
			total[i] += v
		}
	}
	return total
}

func count(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// most is how often something of that probability happens in runs tries, but for one study in a million: the bound of
// a one-sided exact binomial test at 1e-6.
func most(runs int, probability float64) float64 {
	b := distuv.Binomial{N: float64(runs), P: probability}
	k := b.N * probability
	for b.Survival(k) > 1e-6 {
		k++
	}
	return k
}

func model(t *testing.T, name string) measuretest.Model {
	for _, m := range measuretest.Models() {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no noise model %q", name)
	return measuretest.Model{}
}

// TestStudyCoverage: the 95 % interval of 20 blocks holds the true ratio of 1.05, on every host.
func TestStudyCoverage(t *testing.T) {
	const runs = 1000
	for _, m := range measuretest.Models() {
		sums := repeat(runs, func(seed uint64) []float64 {
			c := newHost(seed, m, 0.05).pair(t, 20).Result()
			return []float64{count(c.Low > 1.05 || c.High < 1.05), (c.High - c.Low) / 2}
		})
		t.Logf("%-12s misses %4.1f %%, half-width %.2f %%", m.Name, 100*sums[0]/runs, 100*sums[1]/runs)
		if sums[0] > most(runs, 0.05) {
			t.Errorf("%s: %v of %d intervals miss the truth, want 5 %%", m.Name, sums[0], runs)
		}
	}
}

// TestStudyFalseAdopts: a candidate no faster than the base is adopted in less than 1 % of runs where a gain of 1 % is
// asked for, and in 2.5 % where any gain will do.
func TestStudyFalseAdopts(t *testing.T) {
	const runs, anyRuns = 2000, 1000
	for _, m := range measuretest.Models() {
		sums := repeat(runs, func(seed uint64) []float64 {
			c := newHost(seed, m, 0).compare(t, measure.CompareOptions{MinGain: 0.01})
			v := measure.Decide(c, 0.01, 0)
			return []float64{count(v == measure.Adopt), count(v == measure.Keep), float64(c.Blocks)}
		})
		anyGain := repeat(anyRuns, func(seed uint64) []float64 {
			c := newHost(seed+runs, m, 0).compare(t, measure.CompareOptions{})
			return []float64{count(measure.Decide(c, 0, 0) == measure.Adopt)}
		})
		t.Logf("%-12s adopted %.2f %%, kept %3.0f %%, %.0f blocks; any gain: adopted %.1f %%",
			m.Name, 100*sums[0]/runs, 100*sums[1]/runs, sums[2]/runs, 100*anyGain[0]/anyRuns)
		if sums[0] > 0.01*runs {
			t.Errorf("%s: %v of %d equal candidates adopted at a minimum gain of 1 %%, want less than 1 %%", m.Name, sums[0], runs)
		}
		if anyGain[0] > most(anyRuns, 0.025) {
			t.Errorf("%s: %v of %d equal candidates adopted, want 2.5 %%", m.Name, anyGain[0], anyRuns)
		}
	}
}

// TestStudyPower: a gain of 5 % is adopted in at least 95 % of runs within the default of 40 blocks, with the noise floor
// of the host taken into account. The bimodal host, where samples differ by 15 %, is left Inconclusive more often.
func TestStudyPower(t *testing.T) {
	const runs = 500
	for _, m := range measuretest.Models() {
		sums := repeat(runs, func(seed uint64) []float64 {
			h := newHost(seed, m, 0.05)
			floor, err := h.timer.NoiseFloor(ctx, h.base, 0)
			if err != nil {
				t.Error(err)
			}
			c := h.compare(t, measure.CompareOptions{MinGain: 0.01, NoiseFloor: floor})
			v := measure.Decide(c, 0.01, floor)
			return []float64{count(v == measure.Adopt), count(v == measure.Keep), float64(c.Blocks), floor}
		})
		t.Logf("%-12s adopted %5.1f %%, kept %.1f %%, %.0f blocks, noise floor %.1f %%",
			m.Name, 100*sums[0]/runs, 100*sums[1]/runs, sums[2]/runs, 100*sums[3]/runs)
		want := 0.95
		if m.Name == "bimodal" {
			want = 0.75
		}
		if sums[0] < want*runs {
			t.Errorf("%s: a gain of 5 %% adopted in %v of %d runs, want %v", m.Name, sums[0], runs, want)
		}
		if sums[1] > 0.01*runs {
			t.Errorf("%s: a gain of 5 %% ruled out in %v of %d runs", m.Name, sums[1], runs)
		}
	}
}

// TestStudyGainAtTheThreshold: a gain of just what is asked for is adopted in 2.5 % of runs, and no more.
func TestStudyGainAtTheThreshold(t *testing.T) {
	const runs = 1000
	for _, m := range measuretest.Models() {
		sums := repeat(runs, func(seed uint64) []float64 {
			c := newHost(seed, m, 0.01).compare(t, measure.CompareOptions{MinGain: 0.01})
			return []float64{count(measure.Decide(c, 0.01, 0) == measure.Adopt)}
		})
		t.Logf("%-12s adopted %.1f %%", m.Name, 100*sums[0]/runs)
		if sums[0] > most(runs, 0.025) {
			t.Errorf("%s: adopted in %v of %d runs, want 2.5 %%", m.Name, sums[0], runs)
		}
	}
}

// TestStudyPeeking: looking after every block at an interval that allows for one look adopts equal candidates
// several times as often as stated; it is what Compare's boundary is for.
func TestStudyPeeking(t *testing.T) {
	const runs = 500
	m := model(t, "shared host")
	sums := repeat(runs, func(seed uint64) []float64 {
		p := newHost(seed, m, 0).pair(t, 5)
		adopted := false
		for p.Result().Blocks < 40 && !adopted {
			if err := p.Block(ctx); err != nil {
				t.Error(err)
			}
			adopted = p.Result().Low > 1
		}
		return []float64{count(adopted)}
	})
	t.Logf("peeking after every block: adopted %.1f %%", 100*sums[0]/runs)
	if sums[0] <= most(runs, 0.025) {
		t.Errorf("only %v of %d: peeking seems harmless, so the boundary is not needed", sums[0], runs)
	}
}

// TestStudyBestOfMany: the best of eight equal candidates, judged by the blocks that made it the best, is adopted
// many times too often; judged by fresh ones it is not.
func TestStudyBestOfMany(t *testing.T) {
	const runs, arms = 400, 8
	m := model(t, "shared host")
	sums := repeat(runs, func(seed uint64) []float64 {
		h := newHost(seed, m, 0)
		var best *measure.Pair
		for range arms {
			if p := h.pair(t, 12); best == nil || p.Result().Ratio > best.Result().Ratio {
				best = p
			}
		}
		fresh := h.compare(t, measure.CompareOptions{})
		return []float64{count(best.Result().Low > 1), count(fresh.Low > 1)}
	})
	t.Logf("best of %d equal arms: adopted %.1f %% by the same blocks, %.1f %% by fresh ones", arms, 100*sums[0]/runs, 100*sums[1]/runs)
	if sums[1] > most(runs, 0.025) {
		t.Errorf("by fresh blocks %v of %d are adopted, want 2.5 %%", sums[1], runs)
	}
	if sums[0] <= most(runs, 0.025) {
		t.Errorf("by the same blocks only %v of %d are adopted: fresh ones seem not to be needed", sums[0], runs)
	}
}

// TestStudyPairing: the same number of samples, taken as all of base and then all of cand, gives a ratio several times
// as far from the truth where the host drifts.
func TestStudyPairing(t *testing.T) {
	const runs, blocks = 300, 40
	for _, c := range []struct {
		model string
		gain  float64 // how many times smaller the error of pairing is, at least
	}{{"jitter", 0.7}, {"drift", 4}, {"shared host", 1.5}} {
		m := model(t, c.model)
		sums := repeat(runs, func(seed uint64) []float64 {
			paired := math.Log(newHost(seed, m, 0.05).pair(t, blocks).Result().Ratio / 1.05)
			h := newHost(seed+runs, m, 0.05)
			base, err := h.timer.Measure(ctx, h.base, 2*blocks)
			if err != nil {
				t.Error(err)
			}
			cand, err := h.timer.Measure(ctx, h.cand, 2*blocks)
			if err != nil {
				t.Error(err)
			}
			apart := math.Log(base.Median / cand.Median / 1.05)
			return []float64{paired * paired, apart * apart}
		})
		paired, apart := math.Sqrt(sums[0]/runs), math.Sqrt(sums[1]/runs)
		t.Logf("%-12s error %.2f %% paired, %.2f %% apart: %.1f times", m.Name, 100*paired, 100*apart, apart/paired)
		if apart < c.gain*paired {
			t.Errorf("%s: pairing makes the error %.1f times smaller, want %.1f", m.Name, apart/paired, c.gain)
		}
	}
}

// TestStudyMinimum: where one sample in 32 is luckily fast, the ratio of minima is decided by luck, and more samples do
// not help.
func TestStudyMinimum(t *testing.T) {
	const runs = 400
	m := model(t, "spikes")
	errors := func(blocks int) (ours, minimum float64) {
		sums := repeat(runs, func(seed uint64) []float64 {
			c := newHost(seed, m, 0.05).pair(t, blocks).Result()
			centre := math.Log(c.Ratio / 1.05)
			lucky := math.Log(least(c.Base.Samples) / least(c.Cand.Samples) / 1.05)
			return []float64{centre * centre, lucky * lucky}
		})
		return math.Sqrt(sums[0] / runs), math.Sqrt(sums[1] / runs)
	}
	ours, minimum := errors(20)
	oursMore, minimumMore := errors(40)
	t.Logf("error of the ratio with 20 and 40 blocks: ours %.1f and %.1f %%, minimum %.1f and %.1f %%", 100*ours, 100*oursMore, 100*minimum, 100*minimumMore)
	if minimum < 5*ours {
		t.Errorf("the minimum errs %.1f times as much as the centre, want 5", minimum/ours)
	}
}

func least(x []float64) float64 {
	m := math.Inf(1)
	for _, v := range x {
		m = min(m, v)
	}
	return m
}

// TestStudyEstimators: on clean data the winsorised ranks cost little against the best rival, on spoilt data only the
// trimmed mean is as narrow, which has no exact coverage to offer.
func TestStudyEstimators(t *testing.T) {
	const runs = 500
	rivals := []struct {
		name string
		estimator
	}{{"ours", measure.Estimate}, {"mean", trimmedMean(0)}, {"trimmed 20 %", trimmedMean(0.2)}, {"Wilcoxon", wilcoxon}}
	width := map[string][]float64{}
	for _, name := range []string{"jitter", "bursts", "spikes", "shared host"} {
		m := model(t, name)
		sums := repeat(runs, func(seed uint64) []float64 {
			x := newHost(seed, m, 0.05).pair(t, 40).Result().LogRatios
			var all []float64
			for _, r := range rivals {
				_, low, high := r.estimator(x, 0.95)
				all = append(all, (high-low)/2, count(low > math.Log(1.05) || high < math.Log(1.05)))
			}
			return all
		})
		for i, r := range rivals {
			width[name] = append(width[name], sums[2*i]/runs)
			t.Logf("%-12s %-12s half-width %.2f %%, misses %.1f %%", name, r.name, 100*sums[2*i]/runs, 100*sums[2*i+1]/runs)
		}
	}
	for _, c := range []struct {
		model string
		rival int
		most  float64
	}{{"jitter", 3, 1.15}, {"jitter", 2, 1.10}, {"spikes", 3, 0.8}, {"shared host", 3, 0.8}, {"shared host", 1, 0.5}} {
		if got := width[c.model][0] / width[c.model][c.rival]; got > c.most {
			t.Errorf("%s: %.2f times as wide as %s, want at most %.2f", c.model, got, rivals[c.rival].name, c.most)
		}
	}
}
