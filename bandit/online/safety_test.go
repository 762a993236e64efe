package online

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
)

// A certificate can be wrong: an arm that it praises is three times slower, or fails. Whatever happens, the share holds at
// every moment.
func TestShareHoldsAtEveryMoment(t *testing.T) {
	for _, share := range []float64{0.01, 0.05, 0.2} {
		c := New(Options{Arms: []Arm{{}, {Gain: 1.5, Low: 1.4, High: 1.6}, {Gain: 1.2, Low: 1.1, High: 1.3}}, Share: share, Memory: 200})
		dice := rand.New(rand.NewPCG(1, 1))
		tries := 0
		for request := 1; request <= 50_000; request++ {
			choice := c.Choose(Context{})
			if choice.Tried() {
				tries++
			}
			if float64(tries) > share*float64(request)+1e-6 {
				t.Fatalf("share %g: %d tries in %d requests", share, tries, request)
			}
			switch choice.Arm {
			case 2:
				c.Failed(choice)
			default:
				c.Report(choice, (1+2*float64(choice.Arm))*math.Exp(0.1*dice.NormFloat64()))
			}
		}
		if got := c.Incumbent(Context{}); got != 0 {
			t.Errorf("share %g: arm %d serves: want 0", share, got)
		}
		if tries == 0 || float64(tries) > share*50_000/4 {
			t.Errorf("share %g: %d tries of arms that are three times slower or fail: want some, and far fewer than the share", share, tries)
		}
	}
}

// An arm that is not known to be within the loss is never tried.
func TestOnlyAdmissibleArmsAreTried(t *testing.T) {
	c := New(Options{Arms: []Arm{{}, {Gain: 0.8, Low: 0.78, High: 0.82}}})
	for range 10_000 {
		choice := c.Choose(Context{})
		if choice.Arm != 0 {
			t.Fatal("an arm certified 20 % slower was tried with a loss of 10 %")
		}
		c.Report(choice, 1)
	}
}

func TestPauseStopsTries(t *testing.T) {
	paused := true
	c := New(Options{Arms: []Arm{{}, {Gain: 1.2, Low: 1.1, High: 1.3}}, Pause: func() bool { return paused }})
	tries := 0
	serve := func() {
		choice := c.Choose(Context{})
		if choice.Tried() {
			tries++
		}
		c.Report(choice, 1)
	}
	for range 1000 {
		serve()
	}
	if tries != 0 {
		t.Fatalf("%d tries while paused", tries)
	}
	paused = false
	for range 100 {
		serve()
	}
	if tries == 0 {
		t.Error("no try after the pause")
	}
}

// What is learned in one context says nothing in another.
func TestContextsLearnApart(t *testing.T) {
	c := New(Options{Arms: []Arm{{}, {}}})
	few, many := Context{Batch: 1}, Context{Batch: 64, Load: 0.9}
	dice := rand.New(rand.NewPCG(3, 3))
	for range 20_000 {
		for _, of := range []Context{few, many} {
			choice := c.Choose(of)
			cost := 1.0
			if (of == many) == (choice.Arm == 1) {
				cost = 0.8
			}
			c.Report(choice, cost*math.Exp(0.05*dice.NormFloat64()))
		}
	}
	if a, b := c.Incumbent(few), c.Incumbent(many); a != 0 || b != 1 {
		t.Errorf("arms %d and %d serve: want 0 and 1", a, b)
	}
}

// An arm that serves and fails from some moment on, several times in a row, serves no longer.
func TestAnIncumbentThatFailsIsReplaced(t *testing.T) {
	for name, faster := range map[string]int{"the first": 0, "one that was promoted": 1} {
		c := New(Options{Arms: []Arm{{}, {Gain: 1.1, Low: 1, High: 1.2}, {Gain: 0.7, Low: 0.69, High: 0.71}}})
		dice := rand.New(rand.NewPCG(4, 4))
		serve := func(bad int) (failed bool) {
			choice := c.Choose(Context{})
			if choice.Arm == bad {
				c.Failed(choice)
				return true
			}
			cost := 1.0
			if choice.Arm == faster {
				cost = 0.8
			}
			c.Report(choice, cost*math.Exp(0.05*dice.NormFloat64()))
			return false
		}
		for range 4000 {
			serve(-1)
		}
		if got := c.Incumbent(Context{}); got != faster {
			t.Fatalf("%s: arm %d serves: want %d", name, got, faster)
		}
		failed := 0
		for range 1000 {
			if serve(faster) {
				failed++
			}
		}
		if got := c.Incumbent(Context{}); got != 1-faster || failed > 2*strikes {
			t.Errorf("%s: arm %d serves after %d failures: want %d after a few", name, got, failed, 1-faster)
		}
	}
}

// Where all fail the arms take turns, so that the first that recovers serves; one alone stays.
func TestWhereAllFailTheFirstThatRecoversServes(t *testing.T) {
	c := New(Options{Arms: []Arm{{}, {Gain: 0.7, Low: 0.69, High: 0.71}, {}}})
	for range 100 {
		c.Failed(c.Choose(Context{}))
	}
	for range 100 {
		choice := c.Choose(Context{})
		if choice.Arm == 2 {
			c.Report(choice, 1)
			continue
		}
		c.Failed(choice)
	}
	if got := c.Incumbent(Context{}); got != 2 {
		t.Errorf("arm %d serves: want 2, the only one that works", got)
	}
	alone := New(Options{Arms: []Arm{{}}})
	for range 100 {
		alone.Failed(alone.Choose(Context{}))
	}
}

func TestNonsenseIsAFailure(t *testing.T) {
	c := New(Options{Arms: []Arm{{}, {Gain: 1.2, Low: 1.1, High: 1.3}}})
	for _, cost := range []float64{math.NaN(), 0, -1, math.Inf(1), math.Inf(-1)} {
		c.Report(c.Choose(Context{Batch: -3, Load: math.NaN()}), cost)
	}
	c.Report(c.Choose(Context{}), 1)
	for range 1000 {
		choice := c.Choose(Context{})
		if choice.Arm == 1 {
			c.Report(choice, math.NaN())
			continue
		}
		c.Report(choice, 1)
	}
	if c.Incumbent(Context{}) != 0 {
		t.Error("an arm that only fails serves")
	}
}

func TestManyCallers(t *testing.T) {
	c := New(Options{Arms: []Arm{{}, {Gain: 1.05, Low: 1, High: 1.1}, {}}})
	var all sync.WaitGroup
	for caller := range 8 {
		all.Go(func() {
			for i := range 2000 {
				choice := c.Choose(Context{Batch: 1 << ((caller + i) % 12), Load: float64(i%5) / 4})
				c.Report(choice, 1+float64(choice.Arm))
			}
		})
	}
	all.Wait()
}

func TestNothingIsAllocated(t *testing.T) {
	c := New(Options{Arms: []Arm{{}, {}, {}, {}}})
	c.Report(c.Choose(Context{}), 1)
	if n := testing.AllocsPerRun(1000, func() { c.Report(c.Choose(Context{}), 1) }); n != 0 {
		t.Errorf("%g allocations for a request: want 0", n)
	}
}

func BenchmarkRequest(b *testing.B) {
	c := New(Options{Arms: make([]Arm, 6)})
	dice := rand.New(rand.NewPCG(1, 2))
	costs := make([]float64, 1024)
	for i := range costs {
		costs[i] = math.Exp(0.1 * dice.NormFloat64())
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.Report(c.Choose(Context{Batch: 1, Load: 0.2}), costs[i%len(costs)])
	}
}

func BenchmarkRequestParallel(b *testing.B) {
	c := New(Options{Arms: make([]Arm, 6)})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.Report(c.Choose(Context{Batch: 1, Load: 0.2}), 1)
		}
	})
}
