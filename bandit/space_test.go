package bandit_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
)

// host is a space of 3 x 4 combinations of which 10 are valid.
func host(t *testing.T) *bandit.Space {
	t.Helper()
	s, err := bandit.NewSpace([]bandit.Knob{
		{Name: "kernel", Kind: bandit.Categorical, Values: []string{"avx2", "vnni", "lut"}},
		{Name: "threads", Values: []string{"1", "2", "4", "8"}},
	}, bandit.Rule{
		Reason: "lut scales to 2 threads and from 8",
		Allows: func(v func(string) string) bool { return v("kernel") != "lut" || v("threads") != "4" },
	}, bandit.Rule{
		Reason: "8 threads need vnni or avx2",
		Allows: func(v func(string) string) bool { return v("threads") != "8" || v("kernel") != "lut" },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSpaceCutsAndNumbers(t *testing.T) {
	s := host(t)
	if s.Raw() != 12 || s.Size() != 10 {
		t.Errorf("Raw, Size = %d, %d; want 12, 10", s.Raw(), s.Size())
	}
	want := []bandit.Cut{{Reason: "lut scales to 2 threads and from 8", Points: 1}, {Reason: "8 threads need vnni or avx2", Points: 1}}
	if diff := cmp.Diff(want, s.Cuts()); diff != "" {
		t.Errorf("Cuts (-want +got):\n%s", diff)
	}
	for i := range s.Size() {
		if j, ok := s.Index(s.At(i)); !ok || i != j {
			t.Errorf("Index(At(%d)) = %d, %v", i, j, ok)
		}
	}
	for _, p := range []bandit.Point{{2, 2}, {2, 3}, {3, 0}, {0, -1}, {0}, {0, 0, 0}, nil} {
		if i, ok := s.Index(p); ok {
			t.Errorf("Index(%v) = %d; want none", p, i)
		}
	}
}

func TestSpaceLookup(t *testing.T) {
	s := host(t)
	p, ok := s.Lookup(map[string]string{"kernel": "vnni", "threads": "4", "colour": "red"})
	if diff := cmp.Diff(bandit.Point{1, 2}, p); !ok || diff != "" {
		t.Errorf("Lookup: %v (-want +got):\n%s", ok, diff)
	}
	if got := s.Value(p, "threads"); got != "4" {
		t.Errorf("Value(threads) = %q; want 4", got)
	}
	for _, values := range []map[string]string{{"kernel": "vnni"}, {"kernel": "vnni", "threads": "3"}, {"kernel": "lut", "threads": "4"}} {
		if p, ok := s.Lookup(values); ok {
			t.Errorf("Lookup(%v) = %v; want none", values, p)
		}
	}
}

func TestSpaceNeighbours(t *testing.T) {
	s := host(t)
	for _, c := range []struct {
		name string
		of   bandit.Point
		want []bandit.Point
	}{
		{"inside", bandit.Point{1, 1}, []bandit.Point{{0, 1}, {2, 1}, {1, 0}, {1, 2}}},
		{"beside a cut", bandit.Point{0, 2}, []bandit.Point{{1, 2}, {0, 1}, {0, 3}}},
		{"at the edge", bandit.Point{2, 0}, []bandit.Point{{0, 0}, {1, 0}, {2, 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, s.Neighbours(c.of)); diff != "" {
				t.Errorf("Neighbours(%v) (-want +got):\n%s", c.of, diff)
			}
		})
	}
}

func TestSpaceNeighboursSkipCuts(t *testing.T) {
	s, err := bandit.NewSpace([]bandit.Knob{{Name: "threads", Values: []string{"1", "2", "4", "8"}}}, bandit.Rule{
		Reason: "not 2", Allows: func(v func(string) string) bool { return v("threads") != "2" }})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]bandit.Point{{0}, {3}}, s.Neighbours(bandit.Point{2})); diff != "" {
		t.Errorf("Neighbours (-want +got):\n%s", diff)
	}
}

func TestNewSpaceRefuses(t *testing.T) {
	never := bandit.Rule{Reason: "nothing fits", Allows: func(func(string) string) bool { return false }}
	wide := bandit.Knob{Values: strings.Split(strings.Repeat("x", 300), "")}
	for i := range wide.Values {
		wide.Values[i] = strings.Repeat("x", i)
	}
	big := []bandit.Knob{wide, wide, wide}
	for i := range big {
		big[i].Name = string(rune('a' + i))
	}
	for _, c := range []struct {
		name  string
		knobs []bandit.Knob
		rules []bandit.Rule
		want  string
	}{
		{"no knobs", nil, nil, "no knobs"},
		{"name taken", []bandit.Knob{{Name: "a", Values: []string{"1"}}, {Name: "a", Values: []string{"1"}}}, nil, `name "a" is empty or taken`},
		{"no values", []bandit.Knob{{Name: "a"}}, nil, "want at least one"},
		{"value twice", []bandit.Knob{{Name: "a", Values: []string{"1", "1"}}}, nil, "all different"},
		{"too many", big, nil, "more than 4194304 combinations"},
		{"all cut", []bandit.Knob{{Name: "a", Values: []string{"1", "2"}}}, []bandit.Rule{never}, "none of 2 combinations: nothing fits (2)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := bandit.NewSpace(c.knobs, c.rules...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want %q in it", err, c.want)
			}
		})
	}
}

func TestStatusText(t *testing.T) {
	for status := bandit.OK; status <= bandit.Censored; status++ {
		text, err := json.Marshal(status)
		if err != nil {
			t.Fatal(err)
		}
		var back bandit.Status
		if err := json.Unmarshal(text, &back); err != nil || back != status {
			t.Errorf("%s came back as %v, %v", text, back, err)
		}
	}
	if err := new(bandit.Status).UnmarshalText([]byte("slow")); err == nil || !strings.Contains(err.Error(), `"slow": want one of ["ok"`) {
		t.Errorf("error %v; want the known names", err)
	}
}

func TestListSpace(t *testing.T) {
	knobs := []bandit.Knob{{Name: "a", Values: strings.Fields("1 2 3 4")}, {Name: "b", Values: strings.Fields("x y")}}
	s, err := bandit.ListSpace(knobs, []bandit.Point{{3, 1}, {0, 0}, {2, 1}})
	if err != nil {
		t.Fatal(err)
	}
	want := []bandit.Point{{0, 0}, {2, 1}, {3, 1}}
	got := []bandit.Point{s.At(0), s.At(1), s.At(2)}
	if diff := cmp.Diff(want, got); diff != "" || s.Size() != 3 {
		t.Errorf("Size = %d, points (-want +got):\n%s", s.Size(), diff)
	}
	if i, ok := s.Index(bandit.Point{1, 0}); ok {
		t.Errorf("Index of a point that was not listed = %d; want none", i)
	}
	for name, c := range map[string]struct {
		points []bandit.Point
		want   string
	}{
		"none":    {nil, "0 points; want at least one"},
		"twice":   {[]bandit.Point{{0, 0}, {0, 0}}, "all different"},
		"foreign": {[]bandit.Point{{4, 0}}, "point [4 0] is no combination of the 2 knobs"},
		"short":   {[]bandit.Point{{1}}, "point [1] is no combination"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := bandit.ListSpace(knobs, c.points); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want %q in it", err, c.want)
			}
		})
	}
}

// A space too large for a table of places finds its points all the same.
func TestListSpaceOfManyCombinations(t *testing.T) {
	knobs := make([]bandit.Knob, 6)
	for k := range knobs {
		knobs[k] = bandit.Knob{Name: string(rune('a' + k)), Values: strings.Fields("0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19")}
	}
	points := []bandit.Point{{19, 19, 19, 19, 19, 19}, {0, 1, 2, 3, 4, 5}, {7, 7, 7, 7, 7, 7}}
	s, err := bandit.ListSpace(knobs, points)
	if err != nil {
		t.Fatal(err)
	}
	for i := range points {
		if j, ok := s.Index(s.At(i)); !ok || i != j {
			t.Errorf("Index(At(%d)) = %d, %v", i, j, ok)
		}
	}
}
