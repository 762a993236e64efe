package tuner

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// simulated is a target on a virtual clock: every arm has a true cost, and the host's invented noise is on top.
type simulated struct {
	host *measuretest.Simulator
	cost func(target.Regime, target.Arm) time.Duration
	err  func(target.Regime, target.Arm) error
	cuda func() (*driver.Driver, error) // of the simulated host; nil = it has no driver

	mu   sync.Mutex
	seen map[target.Arm]int
}

func (s *simulated) Name() string { return "simulated" }
func (s *simulated) Close() error { return nil }

func (s *simulated) Prepare(ctx context.Context, r target.Regime, a target.Arm) (measure.Subject, error) {
	if err := ctx.Err(); err != nil {
		return measure.Subject{}, err
	}
	s.mu.Lock()
	s.seen[a]++
	s.mu.Unlock()
	if s.err != nil {
		if err := s.err(r, a); err != nil {
			return measure.Subject{}, err
		}
	}
	return s.host.Arm(fmt.Sprintf("%s %+v", r, a), s.cost(r, a)), nil
}

// fourCores is a host that any build can tune for: its space has at least threads and chunks.
func fourCores() *probe.Host {
	return &probe.Host{OS: "linux", Arch: "amd64", CPU: probe.CPU{
		Model: "Simulated CPU", Vendor: "None", PhysicalCores: 4, LogicalCores: 4, UsableCores: 4, UsablePhysical: 4,
		CPUs: []int{0, 1, 2, 3}, ThreadsPerCore: 1, NUMANodes: 1, Features: probe.SSE42 | probe.AVX | probe.AVX2 | probe.AVX512 | probe.AVX512VNNI | probe.NEON | probe.DotProd,
	}, Memory: probe.Memory{TotalBytes: 16 << 30, AvailableBytes: 8 << 30, LimitBytes: 16 << 30}}
}

// open returns a tuner on a simulated host.
func (s *simulated) open(t *testing.T, store string, seed uint64) *Tuner {
	t.Helper()
	s.seen = map[target.Arm]int{}
	begin := time.Now()
	tuner, err := Open(Options{
		Store: store, Host: fourCores(), CUDA: s.driver,
		Now: func() time.Time { return begin.Add(s.host.Now()) },
		Rig: func(context.Context, Problem, uint64) (Rig, error) {
			return Rig{Target: s, Timer: s.host.Timer(seed)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tuner.Close() })
	return tuner
}

// driver is that of the simulated host's GPUs.
func (s *simulated) driver() (*driver.Driver, error) {
	if s.cuda == nil {
		return nil, &driver.Error{Op: "dlopen libcuda.so.1", Kind: driver.ErrNoDriver, Hint: "no such file"}
	}
	return s.cuda()
}

// flat is a surface on which nothing matters.
func flat(target.Regime, target.Arm) time.Duration { return 10 * time.Millisecond }

// planted is flat, but chunked arms are truly 5 % faster than the default, which shares the rows in one piece.
func planted(_ target.Regime, a target.Arm) time.Duration {
	if a.Blocking.ChunkRows > 0 {
		return 10 * time.Millisecond * 100 / 105
	}
	return 10 * time.Millisecond
}

const anyModel = "bitnet-b1.58-2b-4t"

// seeds is how many seeded runs a claim about verdicts rests on.
var seeds uint64 = 20

// verdicts counts the verdicts of seeded runs on a noisy shared host.
func verdicts(t *testing.T, cost func(target.Regime, target.Arm) time.Duration) map[measure.Verdict]int {
	t.Helper()
	count := map[measure.Verdict]int{}
	for seed := range seeds {
		s := &simulated{host: measuretest.New(seed, measuretest.SharedHost()...), cost: cost}
		cert, err := s.open(t, "", seed).Tune(t.Context(), anyModel, Budget{Time: 20 * time.Second, Objective: ObjectiveDecode, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		if cert.Elapsed > 1.05*cert.Budget {
			t.Errorf("seed %d: %.1f s of a budget of %.0f s", seed, cert.Elapsed, cert.Budget)
		}
		count[cert.Verdict]++
	}
	return count
}

// The duel's false-alarm rate is 1 % by design, so that 2 or more of 20 adopt wrongly with a probability of 0.017 at the
// most; the seeds are fixed, so the outcome is too.
func TestNothingBetterIsNotAdopted(t *testing.T) {
	if count := verdicts(t, flat); count[measure.Adopt] > int(seeds/20) {
		t.Errorf("the default against itself: %v, want at least 19 of 20 not ADOPT", count)
	}
}

func TestPlantedGainIsAdopted(t *testing.T) {
	if count := verdicts(t, planted); count[measure.Adopt] < int(seeds*18/20) {
		t.Errorf("a planted gain of 5 %%: %v, want at least 18 of 20 ADOPT", count)
	}
}
