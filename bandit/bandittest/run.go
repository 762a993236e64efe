package bandittest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
)

// Factory makes the strategy under test for a space.
type Factory func(*bandit.Space, bandit.Options) (bandit.Strategy, error)

// Run checks that a strategy keeps the promises of bandit.Strategy and bandit.Recommender. Each subtest is named by
// the promise.
func Run(t *testing.T, factory Factory) {
	promises := []struct {
		name  string
		check func(*testing.T, Factory)
	}{
		{"same seed and same answers give the same questions", sameSeed},
		{"questions are valid, new and at most n", validAsks},
		{"start points come first, in order", startFirst},
		{"open questions are not asked again", openAsks},
		{"a question handed back may be asked again", handBack},
		{"a failed point is neither asked again nor recommended", failures},
		{"all points failing ends the search with nothing to recommend", allFail},
		{"answers count in any order", anyOrder},
		{"a log told to a new strategy resumes the old one", restart},
		{"the same answer twice is evidence twice", twice},
		{"answers never asked for are welcome, foreign points are ignored", unasked},
		{"a space of one point ends", onePoint},
		{"ties end", ties},
		{"a lucky sample does not win", luckySample},
		{"not worse than random", notWorseThanRandom},
	}
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) { p.check(t, factory) })
	}
}

// strategy is both interfaces that every strategy has.
type strategy interface {
	bandit.Strategy
	bandit.Recommender
}

func start(t *testing.T, factory Factory, s *bandit.Space, opt bandit.Options) strategy {
	t.Helper()
	made, err := factory(s, opt)
	if err != nil {
		t.Fatal(err)
	}
	both, ok := made.(strategy)
	if !ok {
		t.Fatalf("%T has no Recommend; want a bandit.Recommender", made)
	}
	return both
}

// search runs a strategy on a table for a number of samples, or until it asks nothing, and returns what was told.
func search(s bandit.Strategy, table *Table, seed uint64, samples, parallel int) []bandit.Trial {
	dice := rand.New(rand.NewPCG(seed, 2))
	var log []bandit.Trial
	for used := 0; used < samples; {
		asks := s.Ask(parallel)
		if len(asks) == 0 {
			break
		}
		for _, ask := range asks {
			done := table.Run(ask, dice)
			used += max(1, len(done.Costs))
			log = append(log, done)
			s.Tell(done)
		}
	}
	return log
}

// small is a table with failures, interactions and both kinds of knob.
func small() *Table { return prefill(rand.New(rand.NewPCG(7, 1))) }

func sameSeed(t *testing.T, factory Factory) {
	table := small()
	opt := bandit.Options{Seed: 3, Start: table.Start}
	first := search(start(t, factory, table.Space, opt), table, 5, 30, 2)
	second := search(start(t, factory, table.Space, opt), table, 5, 30, 2)
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("second run differs (-first +second):\n%s", diff)
	}
}

func validAsks(t *testing.T, factory Factory) {
	table := small()
	s := start(t, factory, table.Space, bandit.Options{Seed: 1})
	if asks := s.Ask(0); len(asks) != 0 {
		t.Errorf("Ask(0) = %v; want none", asks)
	}
	dice := rand.New(rand.NewPCG(1, 2))
	for round := range 10 {
		asks := s.Ask(round)
		if len(asks) > round {
			t.Fatalf("Ask(%d) returned %d trials", round, len(asks))
		}
		for _, ask := range asks {
			if _, ok := table.Space.Index(ask.Point); !ok {
				t.Errorf("asked %v, which is not in the space", ask.Point)
			}
			if ask.Want < 1 || len(ask.Costs) != 0 || ask.Status != bandit.OK {
				t.Errorf("asked %+v; want Want >= 1 and no answer", ask)
			}
			s.Tell(table.Run(ask, dice))
		}
	}
}

func startFirst(t *testing.T, factory Factory) {
	table := small()
	want := []bandit.Point{table.Space.At(9), table.Space.At(3), table.Space.At(40)}
	s := start(t, factory, table.Space, bandit.Options{Start: append(want, want[0])})
	var got []bandit.Point
	for _, ask := range s.Ask(len(want)) {
		got = append(got, ask.Point)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("first questions (-want +got):\n%s", diff)
	}
}

func openAsks(t *testing.T, factory Factory) {
	table := small()
	s := start(t, factory, table.Space, bandit.Options{Seed: 2})
	search(s, table, 1, 10, 1)
	open := map[string]bool{}
	for range 20 {
		for _, ask := range s.Ask(1) {
			if open[key(ask.Point)] {
				t.Fatalf("asked %v again while it was open", ask.Point)
			}
			open[key(ask.Point)] = true
		}
	}
	if len(open) < 2 {
		t.Errorf("%d questions open at once; want several, so that hosts can measure in parallel", len(open))
	}
}

func key(p bandit.Point) string { return fmt.Sprint(p) }

func handBack(t *testing.T, factory Factory) {
	s := start(t, factory, onlyPoint(), bandit.Options{})
	first := s.Ask(1)
	s.Tell(first...)
	if again := s.Ask(1); len(again) != 1 {
		t.Errorf("after handing back %v, Ask = %v; want it again", first, again)
	}
	if best := s.Recommend(1); len(best) != 0 {
		t.Errorf("Recommend = %v; want none, for nothing was measured", best)
	}
}

func failures(t *testing.T, factory Factory) {
	table := small()
	for status := bandit.Timeout; status <= bandit.Censored; status++ {
		s := start(t, factory, table.Space, bandit.Options{Seed: 4, Start: table.Start[:1]})
		ask := s.Ask(1)[0]
		s.Tell(bandit.Trial{Point: ask.Point, Costs: []float64{0.001}})
		s.Tell(bandit.Trial{Point: ask.Point, Status: status})
		for _, done := range search(s, table, 4, 12, 1) {
			if key(done.Point) == key(ask.Point) {
				t.Errorf("%v: asked %v again", status, ask.Point)
			}
		}
		for _, p := range s.Recommend(table.Space.Size()) {
			if key(p) == key(ask.Point) {
				t.Errorf("%v: recommended %v", status, p)
			}
		}
	}
}

func allFail(t *testing.T, factory Factory) {
	table := flat(rand.New(rand.NewPCG(1, 1)))
	clear(table.Cost)
	s := start(t, factory, table.Space, bandit.Options{Seed: 1})
	log := search(s, table, 1, math.MaxInt, 3)
	if len(log) != table.Space.Size() {
		t.Errorf("%d questions; want every one of %d points once", len(log), table.Space.Size())
	}
	if best := s.Recommend(3); len(best) != 0 {
		t.Errorf("Recommend = %v; want none", best)
	}
}

func anyOrder(t *testing.T, factory Factory) {
	table := small()
	opt := bandit.Options{Seed: 6}
	log := search(start(t, factory, table.Space, opt), table, 6, 30, 2)
	inOrder, shuffled := start(t, factory, table.Space, opt), start(t, factory, table.Space, opt)
	inOrder.Tell(log...)
	rand.New(rand.NewPCG(8, 8)).Shuffle(len(log), func(i, j int) { log[i], log[j] = log[j], log[i] })
	for _, done := range log {
		shuffled.Tell(done)
	}
	sameState(t, inOrder, shuffled)
}

// sameState compares what two strategies recommend and what they ask next.
func sameState(t *testing.T, want, got strategy) {
	t.Helper()
	if diff := cmp.Diff(want.Recommend(10), got.Recommend(10)); diff != "" {
		t.Errorf("recommendations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Ask(3), got.Ask(3)); diff != "" {
		t.Errorf("next questions (-want +got):\n%s", diff)
	}
}

func restart(t *testing.T, factory Factory) {
	table := small()
	opt := bandit.Options{Seed: 9, Start: table.Start}
	old := start(t, factory, table.Space, opt)
	log := search(old, table, 9, 30, 1)
	resumed := start(t, factory, table.Space, opt)
	resumed.Tell(log...)
	sameState(t, old, resumed)
}

func twice(t *testing.T, factory Factory) {
	s := start(t, factory, onlyPoint(), bandit.Options{Samples: 2})
	ask := s.Ask(1)[0]
	ask.Costs = []float64{1}
	s.Tell(ask)
	s.Tell(ask)
	if again := s.Ask(1); len(again) != 0 {
		t.Errorf("asked %v after two samples; want none, for two are enough", again)
	}
}

func unasked(t *testing.T, factory Factory) {
	table := small()
	s := start(t, factory, table.Space, bandit.Options{Seed: 1})
	want := table.Space.At(17)
	s.Tell(bandit.Trial{Point: want, Costs: []float64{0.5, 0.51, 0.49}}, bandit.Trial{Point: bandit.Point{99, 0, 0, 0}, Costs: []float64{0.1}},
		bandit.Trial{Point: bandit.Point{1}, Costs: []float64{0.1}})
	if diff := cmp.Diff([]bandit.Point{want}, s.Recommend(5)); diff != "" {
		t.Errorf("recommendation (-want +got):\n%s", diff)
	}
}

func onlyPoint() *bandit.Space {
	return must(bandit.NewSpace([]bandit.Knob{{Name: "only", Values: []string{"one"}}}))
}

func onePoint(t *testing.T, factory Factory) {
	table := fill("one", onlyPoint(), 0.03, nil, func(bandit.Point) float64 { return 2 })
	s := start(t, factory, table.Space, bandit.Options{})
	log := search(s, table, 1, 1000, 4)
	if len(log) == 0 || len(log) > 8 {
		t.Errorf("%d questions; want 1 to 8", len(log))
	}
	if diff := cmp.Diff([]bandit.Point{{0}}, s.Recommend(2)); diff != "" {
		t.Errorf("recommendation (-want +got):\n%s", diff)
	}
}

func ties(t *testing.T, factory Factory) {
	table := flat(rand.New(rand.NewPCG(1, 1)))
	for i := range table.Cost {
		table.Cost[i] = 1
	}
	table.Noise = 0
	s := start(t, factory, table.Space, bandit.Options{})
	const enough = 8
	samples := 0
	for _, done := range search(s, table, 1, math.MaxInt, 1) {
		samples += len(done.Costs)
	}
	if samples > enough*table.Space.Size() {
		t.Errorf("%d samples of %d points; want at most %d each", samples, table.Space.Size(), enough)
	}
	if got := len(s.Recommend(1)); got != 1 {
		t.Errorf("%d recommendations; want 1", got)
	}
}

// luckySample tells six firm arms, and one whose single sample is 1 % below the best of them: 1 % is a third of the
// prior noise, so that its posterior must stay above the best.
func luckySample(t *testing.T, factory Factory) {
	space := must(bandit.NewSpace([]bandit.Knob{{Name: "a", Kind: bandit.Categorical, Values: numbers(12)}}))
	s := start(t, factory, space, bandit.Options{})
	for i := range 6 {
		c := 1 + 0.02*float64(i)
		s.Tell(bandit.Trial{Point: bandit.Point{i}, Costs: []float64{c * 0.99, c, c * 1.01, c * 0.98, c * 1.02, c}})
	}
	s.Tell(bandit.Trial{Point: bandit.Point{8}, Costs: []float64{0.99}})
	if diff := cmp.Diff([]bandit.Point{{0}}, s.Recommend(1)); diff != "" {
		t.Errorf("recommendation (-want +got):\n%s", diff)
	}
}

// notWorseThanRandom compares the log regret after 30 samples with random search's, paired over the same tables. The
// tolerance is 6 standard errors of the mean difference: a strategy as good as random fails 1 run in 1e9.
func notWorseThanRandom(t *testing.T, factory Factory) {
	random := func(s *bandit.Space, opt bandit.Options) (bandit.Strategy, error) {
		return bandit.New("random", s, opt)
	}
	var sum, squares, n float64
	for seed := range uint64(3) {
		for _, table := range Synthetic(seed) {
			d := logRegret(t, factory, table, seed) - logRegret(t, random, table, seed+1000)
			sum, squares, n = sum+d, squares+d*d, n+1
		}
	}
	mean := sum / n
	if deviation := math.Sqrt((squares/n - mean*mean) / n); mean > 6*deviation {
		t.Errorf("mean log regret is %.3f above random's; want at most 6 standard errors of %.3f", mean, deviation)
	}
}

func logRegret(t *testing.T, factory Factory, table *Table, seed uint64) float64 {
	s := start(t, factory, table.Space, bandit.Options{Seed: seed, Start: table.Start, Budget: 30})
	return math.Log1p(Regrets(s, table, seed, []int{30})[0])
}

// questions is how many a golden search asks: bayes, descent and thompson then have long had their say.
const questions = 60

// Searches returns, one line per search of a synthetic table, what a strategy asks and then recommends. In one search of
// a table samples are noisy and questions come singly; in the other one sample tells the cost, takes time, and three
// questions are open at once. A test compares the text with a golden file, so that no change of a strategy goes unnoticed,
// and no platform whose rounding decides something.
func Searches(t *testing.T, factory Factory, seed uint64) string {
	t.Helper()
	var text strings.Builder
	for _, table := range Synthetic(seed) {
		noisy := start(t, factory, table.Space, bandit.Options{Seed: seed, Start: table.Start, Budget: questions})
		fmt.Fprintf(&text, "%s noisy: %s\n", table.Name, tell(noisy, table, 1))
		table.Noise = 0
		exact := start(t, factory, table.Space, bandit.Options{Seed: seed, Start: table.Start, Budget: questions, Samples: 1})
		fmt.Fprintf(&text, "%s exact: %s\n", table.Name, tell(exact, table, 3))
	}
	return text.String()
}

// tell lets a strategy search a table, so many questions at a time, and returns the numbers of the points that it asked
// for, a failure marked, and of those that it recommends.
func tell(s strategy, table *Table, parallel int) string {
	dice := rand.New(rand.NewPCG(1, 2))
	number := func(p bandit.Point) int { i, _ := table.Space.Index(p); return i }
	var text strings.Builder
	for asked := 0; asked < questions; {
		asks := s.Ask(min(parallel, questions-asked))
		if len(asks) == 0 {
			break
		}
		for i := range asks {
			fmt.Fprintf(&text, "%d", number(asks[i].Point))
			asks[i] = table.Run(asks[i], dice)
			if asks[i].Status != bandit.OK {
				text.WriteByte('!')
			}
			for _, c := range asks[i].Costs {
				asks[i].Elapsed += time.Duration(c * float64(time.Second))
			}
			text.WriteByte(' ')
		}
		asked += len(asks)
		s.Tell(asks...)
	}
	text.WriteString("-> best")
	for _, p := range s.Recommend(3) {
		fmt.Fprintf(&text, " %d", number(p))
	}
	return text.String()
}
