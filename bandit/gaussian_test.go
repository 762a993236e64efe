package bandit

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// hill is a space of two ordinal knobs of 12 values and a categorical one of 3, and a smooth log cost over it, to which
// the last knob does nothing.
func hill(t *testing.T) (*Space, func(Point) float64) {
	t.Helper()
	values := func(n int) []string {
		v := make([]string, n)
		for i := range v {
			v[i] = strconv.Itoa(i)
		}
		return v
	}
	s, err := NewSpace([]Knob{{Name: "a", Values: values(12)}, {Name: "b", Values: values(12)}, {Name: "c", Kind: Categorical, Values: values(3)}})
	if err != nil {
		t.Fatal(err)
	}
	return s, func(p Point) float64 {
		a, b := float64(p[0])/11, float64(p[1])/11
		return math.Cos(3*a) + a*b
	}
}

func sampled(s *Space, cost func(Point) float64, n int) []datum {
	dice := rand.New(rand.NewPCG(1, 2))
	var data []datum
	for _, i := range dice.Perm(s.Size())[:n] {
		data = append(data, datum{point: i, cost: cost(s.At(i)), effort: 0.5})
	}
	return data
}

// 40 of 432 points of a smooth function give the others to within 0.05, a fortieth of its range, and what is uncertain
// by a standard deviation of s lies within 4 s: with normal errors one of 392 fails in 40 runs. The seed is fixed.
func TestGaussianPredicts(t *testing.T) {
	s, cost := hill(t)
	data := sampled(s, cost, 40)
	g := newGaussian(s, data)
	g.condition(data)
	for i := range s.Size() {
		cross := g.cross(s.At(i), make([]float64, len(data)))
		mean, effort := g.cost.at(cross), g.effort.at(cross)
		deviation := g.deviation(1 - g.factor.whiten(cross, 0, len(data)))
		if wrong := math.Abs(mean - cost(s.At(i))); wrong > 0.05 || wrong > 4*deviation {
			t.Errorf("point %v: predicted %.3f ± %.3f; want %.3f", s.At(i), mean, deviation, cost(s.At(i)))
		}
		if math.Abs(effort-0.5) > 1e-9 {
			t.Errorf("point %v: effort %v; want the 0.5 of all points", s.At(i), effort)
		}
	}
}

// The reach of a knob that does nothing becomes long, that of one that does something stays.
func TestGaussianFindsWhatMatters(t *testing.T) {
	s, cost := hill(t)
	g := newGaussian(s, sampled(s, cost, 40))
	if g.reach[2] <= g.reach[0] || g.reach[2] < 2 {
		t.Errorf("reach %v; want the last, of a knob without effect, to be the longest", g.reach)
	}
}

// Building a triangle knob by knob gives what cross gives, and leaving a knob out and putting it back changes nothing.
func TestGramIsCov(t *testing.T) {
	s, cost := hill(t)
	data := sampled(s, cost, 9)
	g := newGaussian(s, data)
	n := len(data)
	for skip := range g.varied {
		a := g.times(g.gram(skip), skip)
		for i := range n {
			for j, want := range g.cross(s.At(data[i].point), make([]float64, i)) {
				if math.Abs(a[i*n+j]-want) > 1e-14 {
					t.Fatalf("knob %d: element %d, %d is %v; want %v", skip, i, j, a[i*n+j], want)
				}
			}
		}
	}
}

// By hand: without uncertainty the improvement is the gain; at no gain it is deviation/√(2π); the tail joins.
func TestLogImprovement(t *testing.T) {
	for _, c := range []struct{ gain, deviation, want, within float64 }{
		{3, 1e-6, math.Log(3), 1e-9},
		{0, 2, math.Log(2 / math.Sqrt(2*math.Pi)), 1e-12},
		{-5, 1, math.Log(5.346e-8), 1e-3}, // φ(5) - 5 Φ(-5)
		{-5.001, 1, math.Log(5.346e-8) - 0.0053, 0.12},
	} {
		if got := logImprovement(c.gain, c.deviation); math.Abs(got-c.want) > c.within {
			t.Errorf("logImprovement(%v, %v) = %v; want %v", c.gain, c.deviation, got, c.want)
		}
	}
}

// Neither the order of the tells nor what was told before counts for the process.
func TestProcessIsAFunctionOfTheData(t *testing.T) {
	s, cost := hill(t)
	data := sampled(s, cost, 60)
	build := func(told []datum) *bayes {
		l, err := newLedger(s, Options{Samples: 1, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		b := &bayes{ledger: l}
		for n, d := range told {
			b.Tell(Trial{Point: s.At(d.point), Costs: []float64{math.Exp(d.cost)}})
			if n > 20 {
				b.process() // fills the memo
			}
		}
		return b
	}
	backwards := make([]datum, len(data))
	for i, d := range data {
		backwards[len(data)-1-i] = d
	}
	one, other := build(data), build(backwards)
	x, y := one.process(), other.process()
	for i := range x.reach {
		if x.reach[i] != y.reach[i] || x.nugget != y.nugget {
			t.Fatalf("scales %v %v and %v %v; want the same", x.reach, x.nugget, y.reach, y.nugget)
		}
	}
}

func TestStrangers(t *testing.T) {
	s, _ := hill(t)
	l, err := newLedger(s, Options{Samples: 1})
	if err != nil {
		t.Fatal(err)
	}
	dice := rand.New(rand.NewPCG(1, 1))
	for i := range s.Size() - 3 {
		l.Tell(Trial{Point: s.At(i), Costs: []float64{1}})
	}
	if got := l.strangers(10, dice); len(got) != 3 {
		t.Errorf("strangers = %v; want the 3 that are left", got)
	}
	if got := l.strangers(1, dice); len(got) != 1 {
		t.Errorf("strangers = %v; want one", got)
	}
	for i := range 3 {
		l.Tell(Trial{Point: s.At(s.Size() - 1 - i), Costs: []float64{1}})
	}
	if got := l.strangers(10, dice); len(got) != 0 {
		t.Errorf("strangers = %v; want none", got)
	}
}
