package bandit_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/bandit/bandittest"
)

var update = flag.Bool("update", false, "rewrite testdata/recommend.golden")

func factory(name string) bandittest.Factory {
	return func(s *bandit.Space, opt bandit.Options) (bandit.Strategy, error) { return bandit.New(name, s, opt) }
}

func TestConformance(t *testing.T) {
	for _, name := range bandit.Names() {
		t.Run(name, func(t *testing.T) { bandittest.Run(t, factory(name)) })
	}
}

// oneSample makes strategies for which one sample of a point is enough: auto is the portfolio then.
func oneSample(name string) bandittest.Factory {
	return func(s *bandit.Space, opt bandit.Options) (bandit.Strategy, error) {
		if opt.Samples == 0 {
			opt.Samples = 1
		}
		return bandit.New(name, s, opt)
	}
}

func TestConformanceOfOneSample(t *testing.T) {
	for _, name := range []string{"auto", "bayes", "descent"} {
		t.Run(name, func(t *testing.T) { bandittest.Run(t, oneSample(name)) })
	}
}

// bowl lets auto ask n of 8,000 points, whose least cost is 1, and returns the numbers asked and the least cost found.
func bowl(t *testing.T, n int) (asked []int, best float64) {
	t.Helper()
	values := strings.Fields("0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19")
	space, err := bandit.NewSpace([]bandit.Knob{{Name: "a", Values: values}, {Name: "b", Values: values}, {Name: "c", Values: values}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := oneSample("auto")(space, bandit.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	best = math.Inf(1)
	for range n {
		asks := s.Ask(1)
		if len(asks) != 1 {
			t.Fatalf("asked %v; want one of %d points", asks, space.Size())
		}
		p, cost := asks[0].Point, 1.0
		for k, goal := range []int{13, 4, 17} {
			cost += 0.01 * float64((p[k]-goal)*(p[k]-goal))
		}
		i, _ := space.Index(p)
		asked, best = append(asked, i), min(best, cost)
		s.Tell(bandit.Trial{Point: p, Costs: []float64{cost}})
	}
	return asked, best
}

// In 200 answers all parts of auto have their turn.
func TestAutoFindsTheBottom(t *testing.T) {
	if _, best := bowl(t, 200); best > 1 {
		t.Errorf("least cost after 200 of 8000 points of a bowl is %.2f; want 1", best)
	}
}

// The golden file holds on every platform: make emulate runs this test on arm64, which rounds otherwise, since it fuses
// multiplications with additions and has none of gonum's assembly.
func TestGoldenSearches(t *testing.T) {
	var got strings.Builder
	for _, name := range bandit.Names() {
		for line := range strings.Lines(bandittest.Searches(t, factory(name), 1)) {
			got.WriteString(name + " " + line)
		}
	}
	asked, _ := bowl(t, 200)
	fmt.Fprintln(&got, "auto bowl exact:", asked)
	golden := filepath.Join("testdata", "recommend.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("searches changed (-want +got):\n%s\nif that is meant: go test ./bandit -run Golden -update, and say in the commit why", diff)
	}
}

func TestNewRefuses(t *testing.T) {
	space, err := bandit.NewSpace([]bandit.Knob{{Name: "threads", Values: []string{"1", "2"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		strategy string
		opt      bandit.Options
		want     string
	}{
		"unknown strategy":    {"best", bandit.Options{}, `bandit: new strategy "best": want one of auto, bayes`},
		"foreign start point": {"auto", bandit.Options{Start: []bandit.Point{{2}}}, `start point [2]: not in the space`},
		"negative budget":     {"auto", bandit.Options{Budget: -1}, `budget -1, samples 0, margin 0: want none below 0`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := bandit.New(c.strategy, space, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want %q in it", err, c.want)
			}
		})
	}
}

func TestTellPanicsOnABadCost(t *testing.T) {
	space, err := bandit.NewSpace([]bandit.Knob{{Name: "threads", Values: []string{"1"}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := bandit.New("auto", space, bandit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a cost of 0 was taken; want a panic")
		}
	}()
	s.Tell(bandit.Trial{Point: bandit.Point{0}, Costs: []float64{0}})
}
