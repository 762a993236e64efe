package placement

import "math/bits"

// nowhere stands for no device.
const nowhere = -1

// forbidden is the size of a model on a device where it may not be: it fits nowhere.
const forbidden = ^uint64(0)

// maxTime bounds the weighted time of a token, in picoseconds, and maxModels the models of a plan, so that no cost
// overflows: maxModels^2 * maxTime < 2^63.
const (
	maxTime   = 1e13
	maxModels = 512
)

// instance is a plan to be made, in numbers: which of its models go to which of its devices.
type instance struct {
	room  []uint64   // by device: the bytes that may be given out
	bytes [][]uint64 // by model and device: what the model takes there; forbidden = it may not be there
	time  [][]uint64 // by model and device: picoseconds of a token alone there, times the model's users
	want  []int      // by model: the device asked for; nowhere = none, wantMissing = one that does not exist
}

// wantMissing is a wish for a device that is not there: it is missed wherever the model goes.
const wantMissing = -2

// score is how good an assignment is: the fewest models left over first, then the fewest wishes missed, then the least
// cost, which is:
//
//	for each device { cost += (models on it) * Σ time of each }
//
// the time of a token of every model, while all models decode and those on one device share its bandwidth evenly.
type score struct {
	unplaced, missed int
	cost             uint64
}

func (s score) less(other score) bool {
	if s.unplaced != other.unplaced {
		return s.unplaced < other.unplaced
	}
	if s.missed != other.missed {
		return s.missed < other.missed
	}
	return s.cost < other.cost
}

// state is an assignment that is being built, with its score.
type state struct {
	in     *instance
	assign []int    // by model: its device
	load   []uint64 // by device: bytes given out
	count  []uint64 // by device: models on it
	sum    []uint64 // by device: their times
	score
}

func newState(in *instance) *state {
	s := &state{in: in, assign: make([]int, len(in.bytes)), load: make([]uint64, len(in.room)), count: make([]uint64, len(in.room)), sum: make([]uint64, len(in.room))}
	for i := range s.assign {
		s.assign[i] = nowhere
		s.unplaced++
		if in.want[i] != nowhere {
			s.missed++
		}
	}
	return s
}

// fits reports whether model i has room on device j now.
func (s *state) fits(i, j int) bool { return s.in.bytes[i][j] <= s.in.room[j]-s.load[j] }

// marginal is what it costs to add model i to device j now. It only grows as more models join the device.
func (s *state) marginal(i, j int) uint64 { return s.sum[j] + (s.count[j]+1)*s.in.time[i][j] }

// place adds model i, which is nowhere, to device j, where it fits.
func (s *state) place(i, j int) {
	s.cost += s.marginal(i, j)
	s.assign[i] = j
	s.load[j] += s.in.bytes[i][j]
	s.count[j]++
	s.sum[j] += s.in.time[i][j]
	s.unplaced--
	if s.in.want[i] == j {
		s.missed--
	}
}

// remove takes model i off its device.
func (s *state) remove(i int) {
	j := s.assign[i]
	s.assign[i] = nowhere
	s.load[j] -= s.in.bytes[i][j]
	s.count[j]--
	s.sum[j] -= s.in.time[i][j]
	s.unplaced++
	if s.in.want[i] == j {
		s.missed++
	}
	s.cost -= s.marginal(i, j)
}

// snapshot is the assignment as it is now.
func (s *state) snapshot() solution {
	return solution{assign: append([]int(nil), s.assign...), score: s.score}
}

// restore makes the assignment that of sol.
func (s *state) restore(sol solution) {
	for i, j := range sol.assign {
		if s.assign[i] == j {
			continue
		}
		if s.assign[i] != nowhere {
			s.remove(i)
		}
	}
	for i, j := range sol.assign {
		if j != nowhere && s.assign[i] == nowhere {
			s.place(i, j)
		}
	}
}

// solution is an assignment that was found.
type solution struct {
	assign []int
	score
	proven bool // no assignment has a lower score
	nodes  int  // partial assignments that were looked at to prove it
}

// tokenTime is how many picoseconds it takes to read bytes, times users.
func tokenTime(bytes, bandwidth uint64, users int) uint64 {
	high, low := bits.Mul64(bytes, 1e12)
	if high >= bandwidth {
		return maxTime
	}
	time, _ := bits.Div64(high, low, bandwidth)
	if high, low = bits.Mul64(max(time, 1), uint64(users)); high > 0 || low > maxTime {
		return maxTime
	}
	return low
}
