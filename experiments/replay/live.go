package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
)

// Live is a space as a live search meets it: what is measured is noisy, and what a point truly costs only the judge knows.
type Live struct {
	Name               string
	Space              *bandit.Space
	Starts             []bandit.Point
	Default, Yardstick int
	// Best is the number of the point that the judge holds for the best.
	Best int
	// Truth is the cost of each point over the yardstick's; NaN of one that fails.
	Truth []float64
	// Measure returns what a paired block says of a point, and how long it takes; first is that the point was not yet
	// prepared.
	Measure func(point int, first bool, dice *rand.Rand) bandit.Trial
}

// Live splits the samples of every point at random: one half answers the search, the other knows the truth. Best is what
// all of the first half say, so that no luck of the judging half makes it too good to be reached.
//
// A point with less than half as many samples as another was given up by the record for being slow. Its few samples are
// not split: half of them would be one lucky value told again and again, which no live search meets. Its truth is the
// median of all, and what is told of it deviates from that as the samples of the other points do from theirs.
func (s *Samples) Live(seed uint64) (Live, error) {
	l := Live{Name: s.Name, Space: s.Space, Best: -1, Truth: make([]float64, len(s.Rows))}
	var err error
	if l.Default, err = s.Find(s.Default); err != nil {
		return l, err
	}
	if l.Yardstick, err = s.Find(s.Yardstick); err != nil {
		return l, err
	}
	for _, setting := range s.Starts {
		i, err := s.Find(setting)
		if err != nil {
			return l, err
		}
		l.Starts = append(l.Starts, s.Space.At(i))
	}
	pool, enough := s.deviations()
	dice, told, least := rand.New(rand.NewPCG(seed, 0)), make([][]float64, len(s.Rows)), math.Inf(1)
	for i, row := range s.Rows {
		l.Truth[i] = math.NaN()
		n := len(row.Ratios)
		switch {
		case row.Status != bandit.OK:
		case n < 2:
			return l, fmt.Errorf("replay: space %s: %d samples of %v; want at least 2", s.Name, n, row.Point)
		case n < enough:
			l.Truth[i] = middle(row.Ratios)
		default:
			shuffled := slices.Clone(row.Ratios)
			dice.Shuffle(n, func(a, b int) { shuffled[a], shuffled[b] = shuffled[b], shuffled[a] })
			l.Truth[i], told[i] = middle(shuffled[:n/2]), shuffled[n/2:]
			if m := middle(told[i]); m < least {
				l.Best, least = i, m
			}
		}
	}
	if l.Best < 0 {
		return l, fmt.Errorf("replay: space %s: no point that works", s.Name)
	}
	sample := func(i int, dice *rand.Rand) float64 {
		if known := told[i]; known != nil {
			return known[dice.IntN(len(known))]
		}
		return l.Truth[i] * pool[dice.IntN(len(pool))]
	}
	block := 2 * middle(s.Rows[l.Yardstick].ElapsedMs)
	l.Measure = func(i int, first bool, dice *rand.Rand) bandit.Trial {
		row := s.Rows[i]
		t := bandit.Trial{Point: s.Space.At(i), Status: row.Status}
		ms := 0.0
		if first {
			ms = row.SetupMs
		}
		if row.Status == bandit.OK {
			t.Costs = []float64{math.Sqrt(sample(i, dice) * sample(i, dice))} // a paired block has two samples of the point
			ms += block + 2*middle(row.ElapsedMs)
		}
		t.Elapsed = time.Duration(ms * float64(time.Millisecond))
		return t
	}
	return l, nil
}

// deviations are those of all samples from the medians of their points, as factors, of the points that have enough
// samples: half as many as any.
func (s *Samples) deviations() (pool []float64, enough int) {
	for _, row := range s.Rows {
		enough = max(enough, (len(row.Ratios)+1)/2)
	}
	for _, row := range s.Rows {
		if len(row.Ratios) >= enough {
			m := middle(row.Ratios)
			for _, x := range row.Ratios {
				pool = append(pool, x/m)
			}
		}
	}
	return pool, enough
}

// middle is the median; NaN of none.
func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Regret is by how much a point is slower than the best; +Inf of one that fails.
func (l Live) Regret(point int) float64 {
	if math.IsNaN(l.Truth[point]) {
		return math.Inf(1)
	}
	return l.Truth[point]/l.Truth[l.Best] - 1
}

// Standing is where a search was when it had evaluated so many points and was about to try another one.
type Standing struct {
	Blocks  int           // paired blocks so far, of all points
	Elapsed time.Duration // what they took
	Point   int           // the recommended one
	Regret  float64
	Tried   float64 // the regret of the best of the points evaluated: what there was to be recommended
}

// Search lets a strategy search as the live tuner does, until it has evaluated so many points, spent so many blocks, or asks
// nothing more. Its standings are by number of points evaluated, from 1; the last one holds where it ended earlier. The
// yardstick is known to cost 1 from the start, and is recommended before anything is.
func (l Live) Search(s bandit.Strategy, seed uint64, points, blocks int) ([]Standing, error) {
	r, ok := s.(bandit.Recommender)
	if !ok {
		return nil, fmt.Errorf("replay: space %s: a strategy that recommends nothing", l.Name)
	}
	dice, seen := rand.New(rand.NewPCG(seed, 1)), map[int]bool{}
	s.Tell(bandit.Trial{Point: l.Space.At(l.Yardstick), Status: bandit.OK, Costs: []float64{1, 1, 1, 1}})
	var standings []Standing
	now := Standing{Tried: math.Inf(1)}
	stand := func() {
		now.Point = l.Yardstick
		if best := r.Recommend(1); len(best) > 0 {
			now.Point, _ = l.Space.Index(best[0])
		}
		now.Regret = l.Regret(now.Point)
		standings = append(standings, now)
	}
	for now.Blocks < blocks {
		asked := s.Ask(1)
		if len(asked) == 0 {
			break
		}
		i, ok := l.Space.Index(asked[0].Point)
		if !ok {
			return nil, fmt.Errorf("replay: space %s: point %v is not in it", l.Name, asked[0].Point)
		}
		if !seen[i] && len(seen) > 0 {
			stand()
		}
		if !seen[i] && len(seen) == points {
			return standings, nil
		}
		done := l.Measure(i, !seen[i], dice)
		for range asked[0].Want - 1 {
			more := l.Measure(i, false, dice)
			done.Costs, done.Elapsed = append(done.Costs, more.Costs...), done.Elapsed+more.Elapsed
		}
		seen[i], now.Tried = true, min(now.Tried, l.Regret(i))
		now.Blocks, now.Elapsed = now.Blocks+max(1, asked[0].Want), now.Elapsed+done.Elapsed
		s.Tell(done)
	}
	stand()
	return standings, nil
}
