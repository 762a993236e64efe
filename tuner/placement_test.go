package tuner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/sim"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// aCard is one that any CUDA kernel of this build runs on.
func aCard() *target.Card {
	return &target.Card{
		UUID: "GPU-00000000-0000-0000-0000-000000000001", Name: "Simulated GPU", Capability: gpu.Capability{Major: 9}, TotalBytes: 24 << 30,
		DriverVersion: 12080, Multiprocessors: 132, SharedBytes: 227 << 10, L2Bytes: 50 << 20,
	}
}

func onGPU() Problem {
	p := problemOn(*fourCores()).on(targetCUDA).in("")
	p.Card = aCard()
	return p
}

// Every arm of a CUDA space is possible on its card, goes to a point and back, and the default and the heuristic are in it.
func TestCUDASpaceHoldsOnlyWhatIsPossible(t *testing.T) {
	old, tiny := onGPU(), onGPU()
	old.Card.Capability = gpu.Capability{Major: 6, Minor: 1}
	tiny.Card.TotalBytes, tiny.Card.SharedBytes, tiny.Card.Multiprocessors = 2<<30, 48<<10, 8
	for name, p := range map[string]Problem{"H100": onGPU(), "GTX 1060": old, "small": tiny} {
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
					t.Fatalf("%s, %s: point %d is arm %+v, which is point %d", name, r, i, a, j)
				}
			}
			for role, c := range map[string]Config{"default": p.Default(), "heuristic": p.Heuristic()} {
				if _, ok := p.pointOf(s, c.Arm(r)); !ok {
					t.Errorf("%s, %s: the space lacks the %s %+v", name, r, role, c.Arm(r))
				}
			}
			t.Logf("%s, %s: %d of %d points", name, r, s.Size(), s.Raw())
		}
		if err := p.validate(p.Heuristic()); err != nil {
			t.Errorf("%s: heuristic: %v", name, err)
		}
	}
}

// card is a simulated host's driver with one GPU.
func card(name string) func() (*driver.Driver, error) {
	return func() (*driver.Driver, error) {
		m, err := sim.New(sim.Config{Devices: []sim.DeviceSpec{{Name: name, TotalBytes: 24 << 30}}})
		if err != nil {
			return nil, err
		}
		return driver.Open(m.Table())
	}
}

// withGPU is a simulated host with a card on which a token takes so many milliseconds, where the CPU takes 10, and on either
// the heuristic and the default are beaten by half.
func withGPU(ms float64) *simulated {
	s := quiet(func(r target.Regime, a target.Arm) time.Duration {
		if a.Threads > 0 {
			return fastest(r, a)
		}
		took := time.Duration(ms * float64(time.Millisecond))
		if a.Launch.MaxRegisters == 64 {
			took /= 2
		}
		return took
	})
	s.cuda = card("Simulated GPU")
	return s
}

// anyTarget searches at random, which is enough for what is planted here and takes the least time.
var anyTarget = Budget{Time: 20 * time.Second, Objective: ObjectiveDecode, Strategy: "random"}

func TestTargetIsChosenByMeasurement(t *testing.T) {
	for name, c := range map[string]struct {
		ms   float64
		want Strategy
	}{"fast card": {2, GPUOnly}, "slow card": {50, CPUOnly}, "equal": {10, CPUOnly}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := withGPU(c.ms)
			cert, err := s.open(t, dir, 1).Tune(t.Context(), anyModel, anyTarget)
			if err != nil || cert.Verdict != measure.Adopt || cert.Placement == nil || cert.Placement.Strategy != c.want || cert.Best.Config.Strategy != c.want {
				t.Fatalf("%s, %+v, warnings %q, %v: want ADOPT for %s", cert.Verdict, cert.Placement, cert.Warnings, err, c.want)
			}
			if cert.Placement.Ratio.Confidence != duelConfidence || strings.Contains(cert.Placement.Reason, "not all") {
				t.Errorf("%+v: want it decided in pairs", cert.Placement)
			}
			plan, err := s.open(t, dir, 1).Plan(t.Context(), anyModel)
			if err != nil || plan.Source != Measured || plan.Config.Strategy != c.want || plan.Config.Decode != cert.Best.Config.Decode {
				t.Errorf("plan %+v, %v: want the measured config for %s", plan, err, c.want)
			}
			if c.want != GPUOnly {
				return
			}
			if plan.Config.Decode.Launch.MaxRegisters != 64 || plan.Config.GPUMemoryFraction <= 0 || len(plan.Config.Devices) != 1 {
				t.Errorf("config %+v: want the planted registers, a share of the card's memory and its UUID", plan.Config)
			}
		})
	}
}

func TestWhatACardLearnedIsNoAnswerOnAnother(t *testing.T) {
	dir := t.TempDir()
	s := withGPU(2)
	if _, err := s.open(t, dir, 1).Tune(t.Context(), anyModel, anyTarget); err != nil {
		t.Fatal(err)
	}
	for name, cuda := range map[string]func() (*driver.Driver, error){"another card": card("Another GPU"), "no card": nil} {
		other := quiet(flat)
		other.cuda = cuda
		plan, err := other.open(t, dir, 1).Plan(t.Context(), anyModel)
		if err != nil || plan.Config.Strategy != CPUOnly || plan.Source != Measured {
			t.Errorf("%s: %+v, %v: want what was measured on the CPU", name, plan, err)
		}
		if want := map[string]string{"another card": "differs in gpu", "no card": "no GPU: "}[name]; !strings.Contains(plan.Reason, want) {
			t.Errorf("%s: reason %q: want it to say %q", name, plan.Reason, want)
		}
	}
}

func TestNoGPU(t *testing.T) {
	s := quiet(fastest)
	var told []string
	tuner := s.open(t, "", 1)
	tuner.opt.Progress = func(e Event) {
		if e.Phase == "gpu" {
			told = append(told, e.Text)
		}
	}
	cert, err := tuner.Tune(t.Context(), anyModel, anyTarget)
	const line = "no GPU: driver: dlopen libcuda.so.1: no such file; tuning the CPU"
	if err != nil || cert.Verdict != measure.Adopt || len(told) != 1 || told[0] != line || cert.Placement.Reason != line {
		t.Errorf("%s, %+v, %v, told %q: want the CPU tuned with one line %q", cert.Verdict, cert.Placement, err, told, line)
	}
	forced := anyTarget
	forced.Target = targetCUDA
	_, err = tuner.Tune(t.Context(), anyModel, forced)
	if !errors.Is(err, ErrNoGPU) || !errors.Is(err, driver.ErrNoDriver) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("forced: %v, want that there is no GPU and why", err)
	}
}

// dying is a target whose card is lost after so many preparations.
type dying struct {
	*simulated
	left int
}

func (d *dying) Prepare(ctx context.Context, r target.Regime, a target.Arm) (measure.Subject, error) {
	if d.left--; d.left < 0 {
		return measure.Subject{}, d.Lost()
	}
	return d.simulated.Prepare(ctx, r, a)
}

func (d *dying) Lost() error {
	if d.left >= 0 {
		return nil
	}
	return driver.ErrDeviceLost
}

func TestALostGPULeavesTheCPU(t *testing.T) {
	for name, preparations := range map[string]int{"at once": 0, "in the search": 8} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := withGPU(2)
			tuner := s.open(t, dir, 1)
			cpu := tuner.opt.Rig
			tuner.opt.Rig = func(ctx context.Context, p Problem, seed uint64) (Rig, error) {
				rig, err := cpu(ctx, p, seed)
				if p.Target == targetCUDA {
					rig.Target = &dying{s, preparations}
				}
				return rig, err
			}
			cert, err := tuner.Tune(t.Context(), anyModel, anyTarget)
			if err != nil || cert.Verdict != measure.Adopt || cert.Best.Config.Strategy != CPUOnly || !strings.Contains(cert.Placement.Reason, "lost") {
				t.Fatalf("%s for %s, %+v, %v: want the CPU's result, and that the GPU was lost", cert.Verdict, cert.Best.Config.Strategy, cert.Placement, err)
			}
			if plan := planned(t, dir); plan.Config.Strategy != CPUOnly || plan.Source != Measured {
				t.Errorf("plan %+v: want what was measured on the CPU", plan)
			}
		})
	}
}

func TestAsksForAGPUOnlyWhereOneMatters(t *testing.T) {
	dir := t.TempDir()
	asked := 0
	s := quiet(fastest)
	s.cuda = func() (*driver.Driver, error) { asked++; return card("Simulated GPU")() }
	b := anyTarget
	b.Target = targetCPU
	tuner := s.open(t, dir, 1)
	if _, err := tuner.Tune(t.Context(), anyModel, b); err != nil {
		t.Fatal(err)
	}
	if _, err := tuner.Plan(t.Context(), anyModel); err != nil || asked > 0 {
		t.Errorf("the driver was opened %d times (%v) where nothing was learned on a GPU", asked, err)
	}
}

func TestTiesOnAGPUGoToTheSmallerWorkspace(t *testing.T) {
	small := onGPU().Heuristic().Arm(target.Prefill)
	large := small
	large.Batch *= 4
	tied := func(a target.Arm) contender {
		return contender{arm: a, comparison: measure.Comparison{Ratio: 1.3, Low: 1.25, High: 1.35}, verdict: measure.Adopt}
	}
	s := &search{tune: &tune{problem: onGPU()}}
	if got := s.winner([]contender{tied(large), tied(small)}); got.arm != small {
		t.Errorf("%s wins, want %s, which is as fast", got.arm, small)
	}
}

// A card that holds half of the layers is no place for all of them, however fast it is.
func TestATooSmallCardIsToldAndNotTaken(t *testing.T) {
	checks := []RegimeCheck{{Regime: target.Decode, Ratio: Ratio{Estimate: 4, Low: 3.9, High: 4.1}, baseNs: 1e6}}
	if p := decide(ObjectiveDecode, checks, 1); p.Strategy != GPUOnly {
		t.Errorf("room for all: %+v, want the GPU", p)
	}
	p := decide(ObjectiveDecode, checks, 0.5)
	if p.Strategy != CPUOnly || !strings.Contains(p.Reason, "1.60 times") || !strings.Contains(p.Reason, "estimate") { // 1 / (0.5/4 + 0.5)
		t.Errorf("room for half: %+v, want the CPU, and the estimate of a split", p)
	}
	small := onGPU()
	small.Card.TotalBytes = 900 << 20
	if share := small.fits(small.Heuristic()); share <= 0 || share >= 1 {
		t.Errorf("a share of %v of the layers fits %d bytes, want a part", share, small.Card.TotalBytes)
	}
	if share := onGPU().fits(onGPU().Heuristic()); share != 1 {
		t.Errorf("a share of %v of the layers fits 24 GiB, want all", share)
	}
}
