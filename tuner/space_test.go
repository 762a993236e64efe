package tuner

import (
	"slices"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

func TestThreadCounts(t *testing.T) {
	for _, c := range []struct {
		bound, physical int
		want            []int
	}{
		{1, 1, []int{1}},
		{2, 2, []int{1, 2}},
		{6, 3, []int{1, 2, 3, 4, 5, 6}},
		{10, 10, []int{1, 2, 3, 4, 5, 6, 7, 8, 10}},
		{24, 12, []int{1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24}},
		{128, 64, []int{1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128}},
	} {
		if got := threadCounts(c.bound, c.physical); !slices.Equal(got, c.want) {
			t.Errorf("threadCounts(%d, %d) = %v, want %v", c.bound, c.physical, got, c.want)
		}
	}
}

// Every arm of a space is possible on its host, goes to a point and back, and the default and the heuristic are in it.
func TestSpaceHoldsOnlyWhatIsPossible(t *testing.T) {
	one := *fourCores()
	one.CPU.UsableCores, one.CPU.UsablePhysical = 1, 1
	bare := *fourCores()
	bare.CPU.Features = 0
	tiny := *fourCores()
	tiny.Memory.AvailableBytes = 8 << 20
	for name, host := range map[string]probe.Host{"four cores": *fourCores(), "one core": one, "no SIMD": bare, "8 MiB left": tiny} {
		p := problemOn(host)
		for _, r := range Regimes {
			s, err := p.Space(r)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, r, err)
			}
			for i := range s.Size() {
				a := p.ArmAt(s, s.At(i))
				if err := p.domain().judge(r, a); err != nil {
					t.Errorf("%s, %s: %v", name, r, err)
				}
				back, ok := p.pointOf(s, a)
				if j, _ := s.Index(back); !ok || j != i {
					t.Errorf("%s, %s: point %d is arm %+v, which is point %d", name, r, i, a, j)
				}
			}
			for role, c := range map[string]Config{"default": p.Default(), "heuristic": p.Heuristic()} {
				if _, ok := p.pointOf(s, c.Arm(r)); !ok && name != "8 MiB left" {
					t.Errorf("%s, %s: the space lacks the %s %+v", name, r, role, c.Arm(r))
				}
			}
		}
	}
}

func TestCutsHaveReasonsAndAddUp(t *testing.T) {
	s, err := problemOn(*fourCores()).Space(target.Prefill)
	if err != nil {
		t.Fatal(err)
	}
	cut := 0
	for _, c := range s.Cuts() {
		if c.Reason == "" {
			t.Errorf("a cut of %d points has no reason", c.Points)
		}
		cut += c.Points
	}
	if s.Size()+cut != s.Raw() {
		t.Errorf("%d points and %d cut are not the %d raw ones", s.Size(), cut, s.Raw())
	}
}

func TestConfigRefusesWhatTheHostCannotDo(t *testing.T) {
	h := *fourCores()
	good := problemOn(h).Heuristic()
	if err := good.Validate(h); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Config){
		"strategy": func(c *Config) { c.Strategy = "gpu_only" },
		"layout":   func(c *Config) { c.Layout = "q4" },
		"kernel":   func(c *Config) { c.Decode.Kernel = "mul/i2s/abacus" },
		"threads":  func(c *Config) { c.Prefill.Threads = 5 },
		"no batch": func(c *Config) { c.Prefill.Batch = 0 },
		"decode":   func(c *Config) { c.Decode.Batch = 2 },
	} {
		c := good
		spoil(&c)
		if err := c.Validate(h); err == nil {
			t.Errorf("%s: accepted, want an error", name)
		}
	}
	for _, k := range kernels.All() {
		if k.Needs != 0 {
			h.CPU.Features = 0
			c := good
			c.Decode.Kernel = k.Name
			if err := c.Validate(h); err == nil {
				t.Errorf("%s accepted on a host without SIMD", k.Name)
			}
		}
	}
}
