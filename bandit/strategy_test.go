package bandit_test

import (
	"flag"
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

func TestGoldenRecommendations(t *testing.T) {
	var got strings.Builder
	for _, name := range bandit.Names() {
		for line := range strings.Lines(bandittest.Recommendations(t, factory(name))) {
			got.WriteString(name + " " + line)
		}
	}
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
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("recommendations changed (-want +got):\n%s\nif that is meant: go test ./bandit -run Golden -update, and say in the commit why", diff)
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
		"unknown strategy":    {"best", bandit.Options{}, `bandit: new strategy "best": want one of auto, exhaustive`},
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
