package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Rounds is n, or with -short, which is for the race detector, an eighth of it. The tests of package placement_test use it too.
func Rounds(n int) int {
	if testing.Short() {
		return n / 8
	}
	return n
}

// randomInstance is one of models from 25 MB to 8 GB on a CPU and some GPUs whose room is scarce, so that not always all fit.
func randomInstance(rng *rand.Rand, models, devices int) *instance {
	in := &instance{}
	var bandwidths []uint64
	for j := range devices {
		bandwidth := []uint64{20e9, 40e9}[rng.IntN(2)]
		if j > 0 {
			bandwidth = []uint64{360e9, 1000e9, 1000e9, 2000e9, 4800e9}[rng.IntN(5)]
		}
		bandwidths = append(bandwidths, bandwidth)
		in.room = append(in.room, uint64(models)*(200e6+rng.Uint64N(3200e6))/uint64(devices))
	}
	for range models {
		size := 25e6 * uint64(1+rng.IntN(8)*rng.IntN(40))
		read := size * uint64(50+rng.IntN(50)) / 100
		users := 1 + rng.IntN(3)
		var bytes, time []uint64
		for j := range devices {
			b := size
			if j > 0 {
				b += 32 << 20
			}
			if j > 0 && rng.IntN(10) == 0 {
				b = forbidden
			}
			bytes, time = append(bytes, b), append(time, tokenTime(read, bandwidths[j], users))
		}
		want := nowhere
		if rng.IntN(6) == 0 {
			want = rng.IntN(devices+1) - 1
			if want < 0 {
				want = wantMissing
			}
		}
		in.bytes, in.time, in.want = append(in.bytes, bytes), append(in.time, time), append(in.want, want)
	}
	return in
}

// check fails unless sol respects every room and its score is what its assignment says.
func check(t *testing.T, in *instance, sol solution) {
	t.Helper()
	s := newState(in)
	for i, j := range sol.assign {
		if j == nowhere {
			continue
		}
		if in.bytes[i][j] == forbidden || !s.fits(i, j) {
			t.Fatalf("model %d on device %d: %d bytes, room for %d", i, j, in.bytes[i][j], in.room[j]-s.load[j])
		}
		s.place(i, j)
	}
	if s.score != sol.score {
		t.Fatalf("score %+v, its assignment has %+v", sol.score, s.score)
	}
	var cost uint64
	for j := range in.room { // the definition, word for word
		var count, sum uint64
		for i := range sol.assign {
			if sol.assign[i] == j {
				count, sum = count+1, sum+in.time[i][j]
			}
		}
		cost += count * sum
	}
	if cost != sol.cost {
		t.Fatalf("cost %d, by its definition %d", sol.cost, cost)
	}
}

// everything tries every assignment.
func everything(s *state, i int, best *solution) {
	if i == len(s.assign) {
		if s.score.less(best.score) {
			*best = s.snapshot()
		}
		return
	}
	for j := range s.in.room {
		if s.fits(i, j) {
			s.place(i, j)
			everything(s, i+1, best)
			s.remove(i)
		}
	}
	everything(s, i+1, best)
}

// R3.21: exact for small sets. Branch and bound finds what trying everything finds, starting from nothing.
func TestProvenIsBestOfAll(t *testing.T) {
	for n := range Rounds(300) {
		rng := rand.New(rand.NewPCG(7, uint64(n)))
		in := randomInstance(rng, 1+rng.IntN(6), 1+rng.IntN(4))
		empty := newState(in).snapshot()
		best := empty
		everything(newState(in), 0, &best)
		got := prove(in, empty, 1<<30)
		check(t, in, got)
		if got.score != best.score || !got.proven {
			t.Fatalf("instance %d: %+v, proven %v; the best of all is %+v", n, got.score, got.proven, best.score)
		}
	}
}

// R3.21: near-optimal beyond: local search alone, on 1,000 instances, is within 2 % of what is proven to be the best.
func TestLocalSearchIsWithinTwoPercent(t *testing.T) {
	exact, worst, unproven, instances := 0, 1.0, 0, Rounds(1000)
	for n := range instances {
		rng := rand.New(rand.NewPCG(8, uint64(n)))
		in := randomInstance(rng, 1+rng.IntN(10), 1+rng.IntN(5))
		found := improve(in, Defaults.Kicks)
		check(t, in, found)
		best := prove(in, found, 1<<21)
		check(t, in, best)
		if !best.proven {
			unproven++
			continue
		}
		if found.unplaced != best.unplaced || found.missed != best.missed {
			t.Errorf("instance %d: %+v, the best is %+v", n, found.score, best.score)
			continue
		}
		if found.score == best.score {
			exact++
		}
		if best.cost > 0 {
			worst = max(worst, float64(found.cost)/float64(best.cost))
		}
	}
	t.Logf("of %d instances %d solved to the optimum, the worst at %.4f of it, %d not proven", instances, exact, worst, unproven)
	if worst > 1.02 {
		t.Errorf("the worst is %.4f of the optimum, want at most 1.02", worst)
	}
	if unproven > 0 {
		t.Errorf("%d instances are not proven", unproven)
	}
}

// addDevice returns in with one device more, at a place of its list.
func addDevice(rng *rand.Rand, in *instance) *instance {
	at := rng.IntN(len(in.room) + 1)
	out := &instance{room: slices.Insert(slices.Clone(in.room), at, rng.Uint64N(8e9))}
	bandwidth := []uint64{360e9, 1000e9, 4800e9}[rng.IntN(3)]
	for i := range in.bytes {
		out.bytes = append(out.bytes, slices.Insert(slices.Clone(in.bytes[i]), at, in.bytes[i][0]+32<<20))
		out.time = append(out.time, slices.Insert(slices.Clone(in.time[i]), at, max(1, in.time[i][0]*20e9/bandwidth)))
		want := in.want[i]
		if want >= at {
			want++
		}
		out.want = append(out.want, want)
	}
	return out
}

func TestADeviceMoreIsNeverWorse(t *testing.T) {
	for _, limit := range []int{Defaults.ExactNodes, 60} { // proven, and too hard to prove
		t.Run(fmt.Sprintf("nodes=%d", limit), func(t *testing.T) {
			c := Defaults
			c.ExactNodes, c.Kicks = limit, 5
			for n := range Rounds(100) {
				rng := rand.New(rand.NewPCG(9, uint64(n)))
				in := randomInstance(rng, 2+rng.IntN(9), 1+rng.IntN(4))
				more := addDevice(rng, in)
				before, after := c.solve(in), c.solve(more)
				check(t, in, before)
				check(t, more, after)
				if before.score.less(after.score) {
					t.Fatalf("instance %d: %+v, with a device more %+v", n, before.score, after.score)
				}
			}
		})
	}
}

func TestSolveIsDeterministic(t *testing.T) {
	for n := range Rounds(30) {
		in := randomInstance(rand.New(rand.NewPCG(10, uint64(n))), 14, 4)
		if diff := cmp.Diff(Defaults.solve(in), Defaults.solve(in), cmp.AllowUnexported(solution{}, score{})); diff != "" {
			t.Fatalf("instance %d: (-first +second):\n%s", n, diff)
		}
	}
}

func TestSubsets(t *testing.T) {
	in := randomInstance(rand.New(rand.NewPCG(11, 1)), 1, 3)
	in.room = []uint64{1, 5, 5}
	in.bytes[0], in.time[0], in.want[0] = []uint64{1, 1, 1}, []uint64{9, 1, 1}, nowhere
	want := [][]int{nil, {0}, {1}, {1, 0}, {1, 2}}
	if diff := cmp.Diff(want, in.subsets(6)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][]int{{1}, {1, 2}}, in.subsets(5)); diff != "" {
		t.Errorf("more than the limit: (-want +got):\n%s", diff)
	}
}
