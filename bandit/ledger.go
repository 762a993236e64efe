package bandit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// ledger is the memory of a strategy: the task, what was told, and which questions are open. Strategies embed it for
// Tell and Recommend. Nothing that is computed from it depends on the order of the tells: samples are kept sorted, and
// arms are visited by number.
type ledger struct {
	space *Space
	opt   Options
	set   settings
	start []int    // Options.Start by number, without repetition
	slot  []int32  // of each point: 1 + its place in arms; 0 = never heard of
	arms  []arm    // in the order in which they were first heard of
	told  int      // trials told
	open  int      // questions open
	ranks ranking  // of the measured arms
	spent []bool   // of each point: it was found to have no fresh neighbour; nil = none was
	fit   *belief  // posterior of what was told so far; nil = to be computed
	odds  *outlook // what the outcomes told so far say about failures; nil = nobody has asked

	// A memo of the effects that explain these estimates best.
	fitted []estimate
	effect effects

	// Memory for what is made once per point, taken in pieces of a slab: cheap strategies do a million a second.
	values []int
	logs   []float64
}

// slab is for how many points memory is taken at once.
const slab = 128

// arm is a point of which something is known.
type arm struct {
	point  int
	logs   []float64     // natural logarithms of the costs, ascending
	failed Status        // OK, or how it failed
	open   bool          // asked, not told
	took   time.Duration // the longest trial; 0 is unknown
}

func newLedger(s *Space, opt Options) (*ledger, error) {
	if opt.Budget < 0 || opt.Samples < 0 || opt.Margin < 0 {
		return nil, fmt.Errorf("budget %d, samples %d, margin %g: want none below 0", opt.Budget, opt.Samples, opt.Margin)
	}
	if opt.Samples == 0 {
		opt.Samples = 8
	}
	if opt.Margin == 0 {
		opt.Margin = 0.01
	}
	l := &ledger{space: s, opt: opt, set: chosen, slot: make([]int32, s.Size())}
	for _, p := range opt.Start {
		i, ok := s.Index(p)
		if !ok {
			return nil, fmt.Errorf("start point %v: not in the space: out of range, or cut by a rule", p)
		}
		if !slices.Contains(l.start, i) {
			l.start = append(l.start, i)
		}
	}
	return l, nil
}

// Tell implements Strategy.
func (l *ledger) Tell(done ...Trial) {
	for _, t := range done {
		if i, ok := l.space.Index(t.Point); ok {
			l.tell(i, t)
		}
	}
}

func (l *ledger) tell(i int, t Trial) {
	a := l.arm(i)
	l.told++
	if a.open {
		a.open = false
		l.open--
	}
	a.failed = max(a.failed, t.Status)
	a.took = max(a.took, t.Elapsed)
	if t.Status == OK {
		l.add(a, t.Costs)
	}
	l.renew(a)
}

// add adds samples to an arm.
func (l *ledger) add(a *arm, costs []float64) {
	for _, c := range costs {
		if !(c > 0) || math.IsInf(c, 1) {
			panic("bandit: cost is not positive and finite")
		}
		x := math.Log(c)
		if a.logs == nil {
			if len(l.logs) == 0 {
				l.logs = make([]float64, slab)
			}
			a.logs, l.logs = l.logs[:0:1], l.logs[1:]
		}
		at, _ := slices.BinarySearch(a.logs, x)
		a.logs = slices.Insert(a.logs, at, x)
	}
}

// renew brings what was computed up to date after something was told of an arm.
func (l *ledger) renew(a *arm) {
	l.fit = nil
	if l.ranks.made {
		l.ranks.stale = append(l.ranks.stale, a.point)
	}
	if l.odds != nil {
		l.odds.learn(l.space, a)
	}
	if a.failed == OK && len(a.logs) == 0 { // handed back
		l.spent = nil
	}
}

// arm returns the arm of point i, which may be new. The pointer is good until the next new arm.
func (l *ledger) arm(i int) *arm {
	if l.slot[i] == 0 {
		if len(l.arms) == cap(l.arms) {
			l.arms = slices.Grow(l.arms, max(slab, len(l.arms)))
		}
		l.arms = append(l.arms, arm{point: i})
		l.slot[i] = int32(len(l.arms))
	}
	return &l.arms[l.slot[i]-1]
}

// samples returns how many samples of point i are known.
func (l *ledger) samples(i int) int {
	if l.slot[i] == 0 {
		return 0
	}
	return len(l.arms[l.slot[i]-1].logs)
}

// live reports whether point i may be asked: it is not open, has not failed, and has not enough samples.
func (l *ledger) live(i int) bool {
	if l.slot[i] == 0 {
		return true
	}
	a := &l.arms[l.slot[i]-1]
	return !a.open && a.failed == OK && len(a.logs) < l.opt.Samples
}

// fresh reports whether nothing is known of point i and it may be asked.
func (l *ledger) fresh(i int) bool { return l.live(i) && l.samples(i) == 0 }

// ask opens a question for at most want samples of point i, which is live.
func (l *ledger) ask(i, want int) Trial {
	a := l.arm(i)
	a.open = true
	l.open++
	knobs := len(l.space.knobs)
	if len(l.values) < knobs {
		l.values = make([]int, slab*knobs)
	}
	p := Point(l.values[:knobs:knobs])
	l.values = l.values[knobs:]
	l.space.read(i, p)
	return Trial{Point: p, Want: min(want, l.opt.Samples-len(a.logs))}
}

// askEach asks for one sample of each of at most n points that next returns.
func (l *ledger) askEach(n int, next func() (int, bool)) []Trial {
	var asks []Trial
	for len(asks) < n {
		i, ok := next()
		if !ok {
			break
		}
		asks = append(asks, l.ask(i, 1))
	}
	return asks
}

// nextStart returns the first start point that is fresh.
func (l *ledger) nextStart() (int, bool) {
	at := slices.IndexFunc(l.start, l.fresh)
	if at < 0 {
		return 0, false
	}
	return l.start[at], true
}

// dice returns a source of randomness that depends on the seed and on how much is told and open, and on nothing else:
// a strategy that was told the log goes on as the one that wrote it.
func (l *ledger) dice() *rand.Rand {
	const golden = 0x9e3779b97f4a7c15 // 2^64 / golden ratio: sets consecutive counts far apart
	return rand.New(rand.NewPCG(l.opt.Seed, (uint64(l.told)<<20+uint64(l.open)+1)*golden))
}
